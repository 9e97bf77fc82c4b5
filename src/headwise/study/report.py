"""The study as one HTML file that needs nothing else: pictures inside, formulas as MathML, no script, no request."""

import base64
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.study.figures import panels
from headwise.study.part import Part
from headwise.study.pictures import Lines
from headwise.study.worked import TITLE
from headwise.version import __version__

if TYPE_CHECKING:
    from headwise.study.run import Study

_NEEDED = ("jinja2", "latex2mathml", "markdown_it", "matplotlib", "mdit_py_plugins")


def missing() -> list[str]:
    """Return what the report needs and does not find."""
    return [name for name in _NEEDED if find_spec(name) is None]


def page(study: "Study") -> str:
    """Return the report."""
    from jinja2 import Environment, FileSystemLoader  # noqa: PLC0415

    place = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=False)
    place.filters["text"] = _text
    template = place.get_template("report.html.jinja")
    images = {part.name: _images(part) for part in study.parts}
    return template.render(parts=study.parts, setting=study.setting, images=images, title=TITLE, version=__version__)


def _images(part: Part) -> list[tuple[str, str]]:
    """Return the panels, and of each whether two of its kind fit side by side on a phone."""
    many = len(part.picture.panels) > 3
    return [
        (
            "data:image/svg+xml;base64," + base64.b64encode(drawn).decode(),
            "half" if many and not isinstance(panel, Lines) else "",
        )
        for panel, drawn in zip(part.picture.panels, panels(part.picture), strict=True)
    ]


def _text(given: str) -> Any:  # noqa: ANN401  markup
    """Turn a line of Markdown with formulas into HTML."""
    from markupsafe import Markup  # noqa: PLC0415

    return Markup(_markdown()(given))  # noqa: S704  our own text, escaped by the renderer


@cache
def _markdown() -> Callable[[str], str]:
    from latex2mathml.converter import convert  # noqa: PLC0415
    from markdown_it import MarkdownIt  # noqa: PLC0415
    from mdit_py_plugins.dollarmath import dollarmath_plugin  # noqa: PLC0415

    reader = MarkdownIt("commonmark", {"html": False})
    reader.use(dollarmath_plugin, double_inline=False)

    def formula(_self: object, tokens: Any, place: int, _options: object, _state: object) -> str:  # noqa: ANN401
        return str(convert(tokens[place].content))

    reader.add_render_rule("math_inline", formula)
    return reader.renderInline
