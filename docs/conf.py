"""How the site is built: ``make docs`` writes it to ``build/docs``, and a warning is an error."""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from jaxbandit import __version__  # noqa: E402

# Sphinx reads what is below docs/ alone. Git ignores the copies.
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", dirs_exist_ok=True)

project = "jaxbandit"
author = "the authors of jaxbandit"
project_copyright = "the authors of jaxbandit, Apache-2.0"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "reference_pages",
]
exclude_patterns = ["notebooks/.ipynb_checkpoints"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# A notebook is run once, and again when it changes; JAX keeps what it compiled for the others.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
# A type that several modules have (View, Pull) is linked to the first of them.
suppress_warnings = ["ref.python"]
nb_merge_streams = True
# Progress, a line a second, which a terminal writes over.
nb_output_stderr = "remove"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = f"jaxbandit {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "search_order.js")
html_show_sourcelink = False
# These have no pages beside them, whose links would be on the left.
html_sidebars = {page: [] for page in ("choose", "gallery", "glossary", "genindex", "py-modindex", "search")}
html_theme_options = {
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "footer_end": [],
}
html_context = {"default_mode": "auto"}
copybutton_prompt_text = r"^\$ |^>>> |^\.\.\. "
copybutton_prompt_is_regexp = True
