"""Sphinx settings; everything is built offline."""

from headwise.version import __version__

project = "headwise"
author = "The headwise authors"
copyright = "2026, the headwise authors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "headwise"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
