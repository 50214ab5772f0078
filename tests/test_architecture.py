"""The rooms of the package and the direction of its imports: each module sees only its own room and those before it."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lggd

SOURCE = Path(lggd.__file__).parent
# From the ground up. `lggd` is the package's face, `lggd/__init__.py`: it may import anything, and only the command
# line stands on it.
LIBRARY = (
    ("errors",),
    ("html", "progress", "text", "validation"),
    ("_system",),
    ("filters", "kernels", "results", "scales"),
    ("graph",),
    ("equation",),
    ("_kernels",),
    ("solvers",),
    ("distances", "inputs", "training"),
    ("learning",),
    ("estimator",),
    ("closed_form",),
    ("diffusion",),
    ("features",),
    ("backbones",),
    ("baselines",),
    ("models",),
    ("samples", "sklearn", "datasets"),
)
LARGE = (("cluster",),)
APPLICATION = (
    ("app.tables", "app.report"),
    ("app.runs",),
    ("app.comparison",),
    ("app.studio",),
    ("lggd",),
    ("app", "app.cli"),
    ("__main__",),
)
ROOMS = LIBRARY + LARGE + APPLICATION
LEVEL = {name: level for level, room in enumerate(ROOMS) for name in room}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}


def modules(source):
    """Every module of the package at `source`: its dotted name and its path."""
    named = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def room_of(module):
    parts = module.split(".")
    if parts[1:2] == ["app"]:
        return ".".join(parts[1:3])
    return parts[1] if len(parts) > 1 else parts[0]


def imports(module, path, known, annotations=True):
    """The modules of the package that a module imports anywhere in its text, for annotations only or not."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(path.read_text())
    if not annotations:
        tree.body = [
            node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "lggd")
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            if origin.split(".")[0] == "lggd":
                for alias in node.names:
                    inside = f"{origin}.{alias.name}"
                    yield inside if inside in known else origin


def wrong_imports(source):
    known, found = modules(source), []
    for module, path in known.items():
        if room_of(module) not in LEVEL:
            found.append(f"{module} has no room")
        elif module != "lggd":
            for target in imports(module, path, known):
                if LEVEL.get(room_of(target), len(ROOMS)) > LEVEL[room_of(module)]:
                    found.append(f"{module} imports {target}")
    return found


def cycle(source):
    known = modules(source)
    graph = {module: set(imports(module, path, known, annotations=False)) - {module} for module, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def bad_manners(source):
    """What a library leaves to its caller: printing, leaving the program; and checks that -O would remove."""
    found = []
    for module, path in modules(source).items():
        if room_of(module) == "app.cli":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "exit", "quit", "sys.exit", "os._exit", "SystemExit"):
                found.append(f"{module}:{node.lineno} calls {called}")
            if isinstance(node, ast.Assert):
                found.append(f"{module}:{node.lineno} asserts")
    return found


def test_imports_point_to_earlier_rooms():
    assert wrong_imports(SOURCE) == []


def test_imports_make_no_cycle():
    assert cycle(SOURCE) == []


def test_the_library_neither_prints_nor_exits_nor_asserts():
    assert bad_manners(SOURCE) == []


def test_no_module_has_a_vague_name():
    assert [module for module in modules(SOURCE) if VAGUE & set(module.split("."))] == []


@pytest.mark.parametrize(
    ("where", "text", "complaint"),
    [
        ("validation.py", "from lggd.solvers.scheme import RK4", "lggd.validation imports lggd.solvers.scheme"),
        ("validation.py", "import lggd.distances", "lggd.validation imports lggd.distances"),
        ("validation.py", "from . import distances", "lggd.validation imports lggd.distances"),
        ("validation.py", "def f():\n    from lggd import distances", "lggd.validation imports lggd.distances"),
        ("_kernels/cpu.py", "from ..solvers.scheme import RK4", "lggd._kernels.cpu imports lggd.solvers.scheme"),
        ("_kernels/__init__.py", "from lggd import Graph", "lggd._kernels imports lggd"),
        ("distances.py", "from lggd.app.cli import main", "lggd.distances imports lggd.app.cli"),
        ("attic.py", "", "lggd.attic has no room"),
    ],
)
def test_a_planted_wrong_import_is_found(tmp_path, where, text, complaint):
    root = tmp_path / "lggd"
    for name in (
        "__init__",
        "validation",
        "distances",
        "_kernels/__init__",
        "_kernels/cpu",
        "solvers/__init__",
        "app/cli/__init__",
    ):
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import numpy\n")
    (root / "solvers/scheme.py").write_text("from lggd import validation\nfrom .._kernels import cpu\n")
    assert wrong_imports(root) == []
    (root / where).write_text(text)
    assert wrong_imports(root) == [complaint]


def test_a_planted_cycle_is_found(tmp_path):
    (tmp_path / "lggd").mkdir()
    (tmp_path / "lggd/memory.py").write_text("from lggd.files import replacing")
    (tmp_path / "lggd/files.py").write_text("def f():\n    import lggd.memory")
    assert set(cycle(tmp_path / "lggd")) == {"lggd.memory", "lggd.files"}


@pytest.mark.parametrize("text", ["print('hello')", "import sys\nsys.exit(1)", "raise SystemExit(1)", "assert True"])
def test_planted_bad_manners_are_found(tmp_path, text):
    (tmp_path / "lggd/app/cli").mkdir(parents=True)
    (tmp_path / "lggd/app/cli/__init__.py").write_text(text)
    assert bad_manners(tmp_path / "lggd") == []
    (tmp_path / "lggd/graph.py").write_text(text)
    assert len(bad_manners(tmp_path / "lggd")) == 1
