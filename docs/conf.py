"""How the documentation site is built: `./run docs`."""

import sys
from pathlib import Path

from pmoss_env import __version__

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "pmoss_env"
author = "The pmoss_env authors"
copyright = author
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "generated",
    "readable",
]
myst_enable_extensions = ["colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3
# The README and the pages link to files of the repository: they become downloads.
myst_links_external_new_tab = True

html_theme = "furo"
html_title = f"pmoss_env {__version__}"
html_static_path = ["_static"]
html_css_files = ["readable.css"]
exclude_patterns = ["_extensions", "_templates"]
# A fence of an unknown language, such as ``sosd``, is text.
highlight_language = "text"
copybutton_prompt_text = "$ "

default_role = "literal"
# Options begin with two hyphens.
smartquotes = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
