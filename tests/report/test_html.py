"""Numbers and times as text, and modules that become one script."""

import math
import re
from importlib.resources import files

import pytest

from lggd.report import html
from lggd.report.html import inline_script, module_names, page_file, script_hash

ENTRY = "page.js"
MODULES = sorted(path.name for path in (files("lggd.report") / "page").iterdir() if path.name.endswith(".js"))


def test_numbers_durations_and_times():
    assert [html.number(x) for x in (0, 0.01234, 12.34, -3.0, 12345.6, 1e9, math.inf, math.nan)] == [
        "0", "0.0123", "12.3", "−3", "12,346", "1e+09", "∞", "–",
    ]  # fmt: skip
    assert [html.signed(x) for x in (7.25, -0.3, 0.04, -0.04)] == ["+7.2", "−0.3", "0.0", "0.0"]
    assert [html.duration(x) for x in (0.44, 59.7, 61, 7500)] == ["0.4 s", "1 min 0 s", "1 min 1 s", "2 h 5 min"]
    assert [html.counted(*x) for x in ((1, "node"), (2, "class"), (1200, "edge"))] == [
        "1 node",
        "2 classes",
        "1,200 edges",
    ]
    assert html.timestamp("2025-01-31T12:05:00+00:00") == "31 January 2025, 12:05 UTC"


def test_modules_come_after_what_they_import():
    names = module_names(ENTRY)
    assert names[-1] == ENTRY
    assert len(set(names)) == len(names)
    for place, name in enumerate(names):
        imported = re.findall(r'from "\./(.*)"', page_file(name))
        assert set(imported) <= set(names[:place]), name


def test_nothing_of_modules_is_left_in_the_script():
    script = inline_script(ENTRY)
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert script.count("class GraphMap ") == 1
    assert "</script" not in script


@pytest.mark.parametrize("name", MODULES)
def test_imports_name_what_is_exported(name):
    """A page that embeds all modules in one scope would not notice."""
    for imported, source in re.findall(r'^import \{(.*)\} from "\./(.*)";$', page_file(name), re.MULTILINE):
        exported = set(
            re.findall(r"^export (?:async )?(?:class|function|const) (\w+)", page_file(source), re.MULTILINE)
        )
        exported |= set(re.findall(r"(?:^export const |, )([A-Z_]+) = ", page_file(source), re.MULTILINE))
        assert {each.strip() for each in imported.split(",")} <= exported


def test_modules_are_small():
    lengths = {name: len(page_file(name).splitlines()) for name in MODULES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_hash_is_that_of_the_policy():
    assert script_hash("alert(1)") == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
