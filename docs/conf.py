"""Sphinx configuration (``make docs``); neither the build nor the site needs a network."""

import sys
from pathlib import Path

from eval_toolkit import __version__

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

project = "eval-toolkit"
author = "the eval-toolkit authors"
release = __version__
version = __version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docs._ext.figures",
    "docs._ext.reference",
    "docs._ext.repository",
]
exclude_patterns = ["_build", "_ext"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
highlight_language = "none"
smartquotes = False  # two hyphens begin an option

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the parameters say it in words
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False  # each page begins with its names
nitpicky = True  # a link to a name of ours that leads nowhere; others' names are no links

html_theme = "furo"
html_title = "eval-toolkit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False  # a browser fetches nothing for a page that it opened from disk
