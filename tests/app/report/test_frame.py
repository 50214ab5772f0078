"""Modules that become one script, which a policy allows."""

import re
from importlib.resources import files

import pytest

from lggd.app.report.frame import inline_script, module_names, page_file, script_hash

ENTRY = "page.js"
MODULES = sorted(path.name for path in (files("lggd.app.report") / "page").iterdir() if path.name.endswith(".js"))


def test_modules_come_after_what_they_import() -> None:
    names = module_names(ENTRY)
    assert names[-1] == ENTRY
    assert len(set(names)) == len(names)
    for place, name in enumerate(names):
        imported = re.findall(r'from "\./(.*)"', page_file(name))
        assert set(imported) <= set(names[:place]), name


def test_nothing_of_modules_is_left_in_the_script() -> None:
    script = inline_script(ENTRY)
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert script.count("class GraphMap ") == 1
    assert "</script" not in script


@pytest.mark.parametrize("name", MODULES)
def test_imports_name_what_is_exported(name: str) -> None:
    """A page that embeds all modules in one scope would not notice."""
    for imported, source in re.findall(r'^import \{(.*)\} from "\./(.*)";$', page_file(name), re.MULTILINE):
        exported = set(
            re.findall(r"^export (?:async )?(?:class|function|const) (\w+)", page_file(source), re.MULTILINE)
        )
        exported |= set(re.findall(r"(?:^export const |, )([A-Z_]+) = ", page_file(source), re.MULTILINE))
        assert {each.strip() for each in imported.split(",")} <= exported


def test_modules_are_small() -> None:
    lengths = {name: len(page_file(name).splitlines()) for name in MODULES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_hash_is_that_of_the_policy() -> None:
    assert script_hash("alert(1)") == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
