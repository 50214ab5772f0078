"""The terminal: exit codes, one-line errors in the words of the command line, and output streams."""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path

import pytest
import typer

import lggd
from lggd.app.cli.terminal import Terminal
from lggd.errors import DiskFullError, InputError, InputTypeError, InputWarning
from support.command_line import command, environment, program


@pytest.fixture
def roads(tmp_path: Path) -> Path:
    path = tmp_path / "roads.csv"
    path.write_text("source,target,weight\nhome,mill,1\nmill,work,0.25\n")
    return path


def message(error: Exception, node_names: list[str] | None = None, **known: str) -> str:
    terminal = Terminal(as_json=False, debug=False, flags=known)
    terminal.node_names = node_names
    return terminal.message(error)


def test_errors_name_options_nodes_and_hints() -> None:
    error = InputError(
        "edges",
        "be symmetric",
        "({0}, {1}) without ({1}, {0})",
        "Pass {symmetrize}, or {other}.",
        nodes=(0, 2),
        hints={"symmetrize": "symmetrize='max'", "other": "other=1"},
    )
    assert str(error).endswith("got (0, 2) without (2, 0). Pass symmetrize='max', or other=1.")
    assert message(error, ["a", "b", "c"], edges="EDGES") == (
        "`EDGES` must be symmetric, got (a, c) without (c, a). Pass --symmetrize max or mean, or other=1."
    )


def test_text_decides_nothing() -> None:
    assert message(InputError("p", "lie in [1, inf]", "`p`"), p="--p") == "`--p` must lie in [1, inf], got `p`."
    assert message(ValueError("`p` must be 1")).startswith("Failed unexpectedly with ValueError: `p` must be 1. Run")
    assert message(FileNotFoundError("gone")) == "gone"
    assert message(OSError(28, "No space left", "x.csv")) == "There is no space left on the disk for x.csv. Free some."
    assert message(OSError(28, "No space left")) == "There is no space left on the disk. Free some."
    assert message(MemoryError("takes 3 GiB")) == "takes 3 GiB"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("p", "be 1"), 2),
        (InputTypeError("p", "be 1"), 2),
        (FileNotFoundError("gone"), 2),
        (PermissionError("locked"), 2),
        (ValueError("`p` must be 1"), 1),
        (OSError(28, "No space left on device"), 1),
        (DiskFullError("x", "fit on its disk"), 1),
        (MemoryError("takes 3 GiB"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_the_type_of_an_error_decides_the_exit_code(error: BaseException, code: int) -> None:
    with pytest.raises(typer.Exit) as stopped, Terminal(as_json=False, debug=False, flags={}):
        raise error
    assert stopped.value.exit_code == code


def test_warnings_name_nodes_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(as_json=False, debug=False, flags={}) as terminal:
        warnings.warn(InputWarning("Dropped node {0}.", nodes=(1,)), stacklevel=1)
        terminal.node_names = ["a", "b"]
        warnings.warn(InputWarning("Dropped node {0}.", nodes=(1,)), stacklevel=1)
    assert capsys.readouterr() == ("", "Dropped node 1.\nDropped node b.\n")


def test_version() -> None:
    result = command("--version")
    assert result.exit_code == 0
    assert result.stdout == f"lggd {lggd.__version__}\n"


@pytest.mark.parametrize(
    "name",
    ["run", "predict", "add-labels", "remove-labels", "update", "features", "distance", "compare"],
)  # fmt: skip
def test_help_teaches_by_example(name: str) -> None:
    result = command(*name.split(), "--help")
    assert result.exit_code == 0
    for part in ("Example", f"lggd {name}", "--json"):
        assert part in result.stdout
    assert name.split()[0] in command("--help").stdout


@pytest.mark.parametrize(("name", "extra"), [("studio", "lggd[studio]"), ("graph build", "lggd[disk]")])
def test_help_names_extras(name: str, extra: str) -> None:
    assert f"pip install '{extra}'" in command(*name.split(), "--help").stdout


def test_usage_errors(roads: Path) -> None:
    for arguments in (
        ["nonsense"],
        ["distance"],
        ["distance", roads, "--p", "many"],
        ["distance", roads, "--solver", "luck"],
    ):
        result = command(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""


def test_the_program_exits_with_the_code_and_one_line() -> None:
    result = subprocess.run(program("run"), env=environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    rule, remedy = "be a name, or use --edges or --file, got none", "Try digits, or --edges FILE --nodes FILE"
    assert result.stderr == f"`DATASET` must {rule}. {remedy}.\n"


def test_failure_hints_at_debug(roads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("operands do not fit")

    monkeypatch.setattr(lggd, "distance", fail)
    arguments = ("distance", roads, "--source", "home", "--symmetrize", "max")
    quiet = command(*arguments)
    assert quiet.exit_code == 1
    assert quiet.stdout == ""
    assert quiet.stderr.startswith(
        "Failed unexpectedly with ValueError: operands do not fit. Run it again with --debug"
    )
    for loud in (command(*arguments, "--debug"), command(*arguments, env={"LGGD_DEBUG": "1"})):
        assert loud.exit_code == 1
        assert "Traceback" in loud.stderr


def test_debug_shows_where_bad_input_was_found(tmp_path: Path) -> None:
    result = command("distance", tmp_path / "nowhere.csv", "--source", "a", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_interrupt(roads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lggd, "distance", interrupt)
    result = command("distance", roads, "--source", "home", "--symmetrize", "max")
    assert result.exit_code == 130
    assert result.stdout == ""


def test_warnings_stay_off_stdout(tmp_path: Path) -> None:
    (tmp_path / "loop.csv").write_text("a,b\nb,a\nb,b\n")
    result = command("distance", tmp_path / "loop.csv", "--source", "a", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["distances"] == {"a": 0.0, "b": 1.0}
    assert result.stderr.startswith("Self-loops dropped: 1, the first at node b.")
