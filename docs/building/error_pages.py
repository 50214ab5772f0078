"""Every error text of the package with its remedy, read from the source: the page "Errors"."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lggd
from lggd import errors

SOURCE = Path(lggd.__file__).parent
# Classes whose arguments are argument, rule, value and remedy; others have one text.
PARTS = ("argument", "rule", "value", "remedy", "but")
OTHERS = {"NotEnoughMemoryError", "FloatingPointError", "RefusedError", "InputWarning", "RuntimeError", "ImportError"}
# Methods that build an error about a cell of a table: what comes before the rule, and after it.
FACTORIES = {"error": ("row", "column", "rule", "value", "remedy")}
Scope = Mapping[str, ast.expr]


@dataclass(frozen=True)
class ErrorText:
    """An error of one place in the source. What depends on the input is in ‹ ›."""

    module: str
    line: int
    cause: str
    remedy: str


def error_texts(folder: Path = SOURCE) -> list[ErrorText]:
    """Returns the errors of all modules in a folder, in the order of the source."""
    return [text for path in sorted(folder.rglob("*.py")) for text in _of_module(path, folder)]


def _of_module(path: Path, folder: Path) -> Iterator[ErrorText]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = ".".join(path.relative_to(folder).with_suffix("").parts)
    for scope, call in _calls(tree, {}):
        parts = _parts(call, scope)
        if parts is not None:
            yield ErrorText(module, call.lineno, *parts)


def _calls(node: ast.AST, scope: Scope) -> Iterator[tuple[Scope, ast.Call]]:
    """Yields the calls within a node, each with the expressions that local names stand for at that place."""
    known = dict(scope)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign):
            known.update(_assigned(child))
        if isinstance(child, ast.Call):
            yield known, child
        yield from _calls(child, known)


def _assigned(node: ast.Assign) -> dict[str, ast.expr]:
    (target,) = node.targets[-1:]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        pairs = zip(target.elts, node.value.elts, strict=False)
        return {one.id: value for one, value in pairs if isinstance(one, ast.Name)}
    return {target.id: node.value} if isinstance(target, ast.Name) else {}


def _parts(call: ast.Call, scope: Scope) -> tuple[str, str] | None:
    """Returns cause and remedy of a call that builds an error; None for other calls."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if name in FACTORIES and isinstance(call.func, ast.Attribute) and len(call.args) >= 4:
        given |= dict(zip(FACTORIES[name], call.args, strict=False))
        given["argument"] = ast.Constant("a cell of a table")
    elif name in OTHERS:
        text = _text(call.args[0], scope) if call.args else ""
        return (text, "") if " " in text else None
    elif re.fullmatch(r"(Input\w*|NotSymmetric|LabelConflict|LastLabel|DiskFull|MissingPackage)Error", name):
        given |= dict(zip(PARTS, call.args, strict=False))
    else:
        return None
    if "rule" not in given:
        return None
    hints = given.get("hints")
    known = {}
    if isinstance(hints, ast.Dict):
        known = {_text(k, scope): _text(v, scope) for k, v in zip(hints.keys, hints.values, strict=True) if k}
    texts = {part: _text(given[part], scope) for part in given if part in PARTS}
    texts = {part: re.sub(r"\{(\w+)\}", lambda m: known.get(m[1], "‹node›"), text) for part, text in texts.items()}
    argument = texts.get("argument", "")
    shown = argument if " " in argument or "‹" in argument else f"`{argument}`"
    clause = f", but {texts['but']}" if texts.get("but") else ""
    return f"{shown} must {texts['rule']}{clause}", texts.get("remedy", "")


def _text(node: ast.expr, scope: Scope, depth: int = 0) -> str:
    """Returns what is known of a string without running the program."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, scope, depth) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, scope, depth)
    if isinstance(node, ast.Name) and node.id in scope and depth < 4:
        return _text(scope[node.id], scope, depth + 1)
    if isinstance(node, ast.IfExp):
        options = dict.fromkeys((_text(node.body, scope, depth), _text(node.orelse, scope, depth)))
        return " / ".join(option for option in options if option)
    if isinstance(node, ast.BoolOp):
        return " / ".join(dict.fromkeys(_text(value, scope, depth) for value in node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, scope, depth) + _text(node.right, scope, depth)
    return f"‹{_placeholder(node)}›"


def _placeholder(node: ast.expr) -> str:
    """Returns a short word for a value that is known only when the program runs."""
    while True:
        if isinstance(node, ast.Call):
            inner = [*node.args, *(node.func.value for _ in [0] if isinstance(node.func, ast.Attribute))]
            node = inner[0] if inner else node.func
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Attribute):
            return node.attr.strip("_").replace("_", " ")
        elif isinstance(node, ast.Name):
            return node.id.strip("_").replace("_", " ")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.strip(" ,") or "…"
        else:
            return "…"


def page(texts: list[ErrorText]) -> str:
    """Returns the page, in Markdown: one table for every room, errors with the same text once."""
    by_room: dict[str, dict[tuple[str, str], ErrorText]] = defaultdict(dict)
    for text in texts:
        by_room[text.module.removeprefix("app.").split(".")[0]].setdefault((text.cause, text.remedy), text)
    lines = [
        "# Errors",
        "",
        "Every error about input is an `lggd.InputError`: *argument* must *rule*, got *value*. *Remedy.* This page "
        f"lists the {sum(map(len, by_room.values()))} texts in the source, by room; what depends on your input is in "
        "‹ ›. Where the right column is empty, the rule says what to do. On the command line the argument is the "
        "option (`--p` for `p`), and nodes have your names.",
        "",
    ]
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    lines += ["## Kinds", "", "| class of `lggd.errors` | |", "|---|---|"]
    lines += [f"| `{kind.__name__}` | {_cell((kind.__doc__ or '').split(chr(10))[0])} |" for kind in kinds]
    lines += [""]
    for room, errors_of_room in sorted(by_room.items()):
        lines += [f"## {room}", "", "| what is wrong | what to do |", "|---|---|"]
        lines += [f"| {_cell(cause)} | {_cell(remedy)} |" for cause, remedy in errors_of_room]
        lines += [""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"([|<>*_$\[\]])", r"\\\1", text).replace("\\_", "_") if "`" not in text else text.replace("|", "\\|")


def write(path: Path) -> None:
    text = page(error_texts())
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # Sphinx reads again only what has changed
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
