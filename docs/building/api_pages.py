"""The pages of the API reference: one for every room of the package, made of the docstrings of its public names."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

import lggd
from building.repository import write_if_changed

# Titles of rooms in the order in which data flows; other rooms follow with their own names.
TITLES = {
    "graph": "Graphs",
    "distances": "Distances",
    "equation": "The potential",
    "solvers": "Solvers and evolutions",
    "memory": "Memory",
    "estimator": "The contract of models",
    "features": "Distances as features",
    "learning": "What is learned",
    "closed_form": "Closed form",
    "backbones": "Backbones",
    "models": "Models",
    "training": "Training",
    "baselines": "Baselines",
    "diffusion": "Diffusion",
    "sklearn": "scikit-learn",
    "datasets": "Data",
    "comparison": "Comparisons",
    "studio": "The label studio",
    "errors": "Errors",
}


def rooms() -> dict[str, list[str]]:
    """Returns the public names of every room, as they are imported: "lggd.Graph", "lggd.baselines.GDC"."""
    found: dict[str, list[str]] = {room: [] for room in TITLES}
    for module, names in lggd._EXPORTS.items():
        found.setdefault(module.removeprefix("app.").split(".")[0], []).extend(f"lggd.{name}" for name in names)
    top_level = {id(getattr(lggd, name)) for name in lggd.__all__}
    # A name that is offered in two places is documented in the later one, and at the top level where it is there.
    places = {
        id(getattr(import_module(f"lggd.{lggd._SUBMODULES[room]}"), name)): (room, name)
        for room in lggd._SUBMODULES
        for name in offered(import_module(f"lggd.{lggd._SUBMODULES[room]}"))
    }
    for value, (room, name) in places.items():
        if value not in top_level:
            found.setdefault(room, []).append(f"lggd.{room}.{name}")
    return {room: names for room, names in found.items() if names}


def offered(module: ModuleType) -> list[str]:
    """Returns the public names of a submodule: its `__all__`, or the classes and functions that it defines."""
    public = getattr(module, "__all__", None)
    if public is not None:
        return list(public)
    values = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [
        name
        for name, value in values.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__
    ]


def page(room: str, names: list[str]) -> str:
    """Returns the page of a room, in reStructuredText."""
    title = TITLES.get(room, room.replace("_", " ").capitalize())
    module = import_module(f"lggd.{lggd._SUBMODULES.get(room, room)}")
    parts = [title, "=" * len(title), "", (module.__doc__ or "").strip().split("\n\n")[0], ""]
    for name in names:
        short = name.removeprefix("lggd.")
        value = getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
        parts += [short, "-" * len(short), ""]
        if inspect.isclass(value):
            parts += [f".. autoclass:: {name}", "   :members:"]
        else:
            parts += [f".. autofunction:: {name}"]
        parts += ["", f".. minigallery:: {name}", ""]
    return "\n".join(parts)


def write(folder: Path) -> None:
    """Writes one page for every room."""
    for room, names in rooms().items():
        write_if_changed(folder / f"{room.replace('_', '-')}.rst", page(room, names))
