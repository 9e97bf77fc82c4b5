"""Sphinx settings; everything is built offline, formulas as MathML."""

from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

from headwise.version import __version__

project = "headwise"
author = "The headwise authors"
copyright = "2026, the headwise authors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "headwise"
html_math_renderer = "mathml"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_attr_annotations = False  # likewise


def formula(writer: Any, node: Any) -> None:  # noqa: ANN401  Sphinx hands over its writer and a node
    """Write a formula that the browser draws by itself."""
    writer.body.append(convert(node.astext()))
    raise SkipNode


def setup(app: Any) -> None:  # noqa: ANN401
    """Take the place of MathJax, which would come from elsewhere."""
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
