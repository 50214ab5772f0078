"""Methods by name, and the settings of a run."""

from __future__ import annotations

import pytest

from lggd.app.runs.methods import METHODS, RunSettings, build_model
from lggd.errors import InputError


@pytest.mark.parametrize(
    ("settings", "titles"),
    [
        (RunSettings(), {"reference": "GCN", "model": "Kernel ridge"}),
        (RunSettings("lggd"), {"reference": "GCN", "model": "LGGD with GCN"}),
        (RunSettings("lggd", "gat"), {"reference": "GAT", "model": "LGGD with GAT"}),
        (RunSettings("ggd", "gat"), {"reference": "GAT", "model": "GGD with GAT"}),
        (RunSettings(reference="none"), {"model": "Kernel ridge"}),
        (RunSettings("evolved-ridge", reference="jknet"), {"reference": "JKNet", "model": "Kernel ridge, evolved"}),
        (RunSettings("lggd-plus"), {"reference": "GCN", "model": "LGGD+"}),
        (RunSettings("lggd-plus-trained"), {"reference": "GCN", "model": "Trained LGGD+ with GCN"}),
        (RunSettings("gat"), {"model": "GAT"}),
        (RunSettings("gpr-gnn"), {"reference": "GCN", "model": "GPR-GNN"}),
        (RunSettings("gcn-plus"), {"reference": "GCN", "model": "GCN+"}),
        (RunSettings("label-propagation"), {"reference": "GCN", "model": "Label propagation"}),
        (RunSettings("gdc-ppr", "jknet"), {"reference": "JKNet", "model": "GDC (PPR) with JKNet"}),
    ],
    ids=lambda value: value.method if isinstance(value, RunSettings) else "",
)
def test_models_are_compared_with_their_backbone_alone(settings: RunSettings, titles: dict[str, str]) -> None:
    assert settings.titles() == titles


@pytest.mark.parametrize("method", METHODS)
def test_settings_reach_the_model(method: str) -> None:
    trained = METHODS[method].is_trained
    model = build_model(method, epochs=7 if trained else None, seed=5)
    assert {value for name, value in model.get_params().items() if name.split("__")[-1] == "seed"} == {5}
    if trained:
        params = model.get_params()
        assert {params[f"{network}optimization__epochs"] for network in METHODS[method].networks} == {7}
    else:
        with pytest.raises(InputError, match=f"`epochs` must be omitted for {method}, which is not trained, got 7"):
            build_model(method, epochs=7)


@pytest.mark.parametrize("settings", [{"method": "nothing"}, {"backbone": "nothing"}])
def test_unknown_names_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InputError) as error:
        RunSettings(**settings)  # type: ignore[arg-type]
    assert error.value.argument in settings
