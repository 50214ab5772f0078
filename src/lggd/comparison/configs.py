"""Reading, checking and writing configuration files in TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lggd.errors import InputError, InputFileError, InputTypeError
from lggd.system.files import check_readable
from lggd.validation import suggestion

Setting = bool | int | float | str
Settings = Mapping[str, Setting]

METHODS, CHOSEN = "rows", "chosen"
# A wheel contains the files next to this module; a source tree has them at its root.
INSTALLED, SOURCE_TREE = Path(__file__).parent / "configs", Path(__file__).parents[3] / "configs"


def configs_folder(folder: str | Path | None = None) -> Path:
    """Returns a folder that contains `rows/` and `chosen/`; by default that of the package."""
    if folder is None:
        folder = INSTALLED if INSTALLED.is_dir() else SOURCE_TREE
    if not (Path(folder) / METHODS).is_dir():
        rule = f"be a folder that contains {METHODS}/"
        raise InputFileError(str(folder), rule, but="there is none", remedy="Check --configs.")
    return Path(folder)


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file; errors name the file."""
    try:
        return tomllib.loads(check_readable(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), "be a TOML file", but=f"it cannot be read: {error}") from error


def check_keys(path: Path, where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises if the table `where` of a file ("" for the file itself) has unknown keys."""
    for key in table:
        if key not in known:
            rule = f"have only these keys{f' in [{where}]' if where else ''}: {', '.join(known)}"
            raise InputError(str(path), rule, repr(key), suggestion(key, list(known), "Remove it."))


def read_text(path: Path, table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(str(path), f'define {key} = "…"', "none" if value is None else repr(value), "Add it.")
    return value


def read_table(path: Path, table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Returns the table below a key, or an empty one if the key is missing."""
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise InputError(str(path), f"have a table [{key}]", repr(value), f"Write its entries below [{key}].")
    return value


def read_settings(path: Path, table: Mapping[str, Any], key: str, where: str = "") -> dict[str, Setting]:
    """Returns the table of settings below a key, which errors call `where`."""
    settings = read_table(path, table, key)
    for name, value in settings.items():
        if not isinstance(value, Setting):
            rule = f"give a number, a text, true or false for {name} in [{where or key}]"
            raise InputError(str(path), rule, repr(value), "Search spaces belong below [search].")
    return settings


def toml_line(name: str, value: Setting) -> str:
    """Returns a setting as a line of TOML that parses to the same value of the same type.

    >>> toml_line("mlp_hidden", "512-128"), toml_line("lr", 1e-06), toml_line("reachable", True)
    ('mlp_hidden = "512-128"', 'lr = 1e-06', 'reachable = true')
    """
    if not isinstance(value, Setting):
        raise InputTypeError("value", "be a number, a text, True or False", repr(value))
    return f"{toml_key(name)} = {value if isinstance(value, float) else _literal(value)}"


def toml_key(name: str) -> str:
    """Returns a TOML key, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _literal(value: Setting) -> str:
    """JSON has the escapes of TOML, except for DEL, and for characters beyond 16 bits, which need no escape."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
