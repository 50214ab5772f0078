"""The site: `make docs` builds it into docs/_build/html. Nothing is loaded from elsewhere.

Its source is the repository, so that pages beside docs/ (ARCHITECTURE.md, results/) are pages of the site, with links
as on any host: `sphinx -c docs . docs/_build/html`.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

import lggd  # noqa: E402
from building import docstrings, error_pages, mathml, pictures  # noqa: E402

project, author, version = "lggd", "The lggd developers", lggd.__version__
project_copyright = author
release = version

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_codeautolink",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
root_doc = "docs/index"
include_patterns = ["*.md", "results/*.md", "docs/*.md", "docs/generated/**", "docs/gallery/**"]
exclude_patterns = [".*", "README.md", "**/*.ipynb", "**/*.md5", "**/*.json"]
templates_path = [str(DOCS / "templates")]  # autosummary would look beside the pages, HTML beside this file

# -- Markdown: what GitHub shows, with its anchors of headings --------------------------------------------------------
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
# The gallery links names in its examples by itself, and code with flags of doctest is shown without them.
suppress_warnings = ["config.cache", "codeautolink.match_name", "codeautolink.match_block"]

# -- API reference ----------------------------------------------------------------------------------------------------
autosummary_ignore_module_all = False  # the public names of a module are its __all__
autosummary_generate = ["docs/api.md"]
MODULES = re.findall(r"^   (lggd[\w.]*)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.M)


def is_listed_before(module: str, name: str) -> bool:
    """True if an earlier module of api.md exports the same object under the same name."""
    value = getattr(import_module(module), name)
    earlier = MODULES[: MODULES.index(module)]
    return any(getattr(import_module(other), name, None) is value for other in earlier)


autosummary_context = {"is_listed_before": is_listed_before}
default_role = "autolink"  # `name` in docstrings: a link where it is a public name, else code, as in Markdown
codeautolink_warn_on_missing_inventory = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the section Parameters has them
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
python_use_unqualified_type_names = True
add_module_names = False
viewcode_line_numbers = True
nitpicky = True
# Types in docstrings are prose for people, such as "Tensor [N] or None".
nitpick_ignore_regex = [("py:class", r"(?!lggd\.).*"), ("py:obj", r"(?!lggd\.).*"), ("py:exc", r"(?!lggd\.).*")]

# -- the gallery ------------------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["docs/gallery"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "doc_module": ("lggd",),
    "backreferences_dir": "docs/generated/backreferences",
    "reference_url": {"lggd": None},
    "inspect_global_variables": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,
}

# -- appearance -------------------------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"lggd {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
pygments_style, pygments_dark_style = "friendly", "github-dark"
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#0b6aa2", "color-brand-content": "#0b6aa2"},
    "dark_css_variables": {"color-brand-primary": "#6cb8e6", "color-brand-content": "#6cb8e6"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def generate() -> None:
    """Writes the pages and pictures that are made of the code and of the measurements, into docs/generated."""
    folder = DOCS / "generated"
    error_pages.write(folder / "errors.md")
    pictures.write(folder / "pictures")


generate()


def setup(app: object) -> None:
    docstrings.setup(app)
    mathml.setup(app)
