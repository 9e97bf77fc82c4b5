"""A page of feedback: every part with its verdict, what was wrong, help and the counterexample. No script, no request."""

import base64
import html
from importlib.util import find_spec

from headwise.check.marks import Marks
from headwise.check.verdict import Verdict
from headwise.shown import number

_STYLE = """
body { margin: 0 auto; max-width: 50rem; padding: 1.2rem; color: #1f2933; font: 16px/1.55 Georgia, serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; border-top: 1px solid #d9dee5; padding-top: 1rem; }
pre { background: #f5f7fa; border: 1px solid #d9dee5; border-radius: 6px; padding: .6rem .8rem; overflow-x: auto; }
.right { color: #1b6e52; font-weight: 600; } .wrong { color: #a32a2a; font-weight: 600; } .kind { color: #52606d; }
img { max-width: 100%; } p { margin: .3rem 0; }
"""


def page(marks: Marks) -> str:
    """Return the page."""
    parts = [_section(part, marks) for part in marks.sheet.problems]
    total = f"{number(marks.points)} of {number(marks.most)} points"
    name = html.escape(marks.name)
    notes = "".join(f'<p class="kind">{html.escape(note)}</p>' for note in marks.notes)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="data:,"><title>{name}</title><style>{_STYLE}</style></head><body>'
        f"<h1>{name}: {total}</h1>{notes}{''.join(parts)}</body></html>\n"
    )


def _section(part: str, marks: Marks) -> str:
    title = html.escape(marks.sheet.problems[part].title)
    head = f"<h2>{html.escape(part)} {title}</h2>"
    verdict = marks.verdicts.get(part)
    if verdict is None:
        return f'{head}<p class="wrong">missing</p>'
    status = f'<p class="{"right" if verdict.correct else "wrong"}">{verdict.said}</p>'
    lines = "".join(
        f'<p><span class="kind">{kind}</span> {_escaped(text)}</p>'
        for kind, text in verdict.lines()
        if text and kind != "counterexample"
    )
    return f"{head}<pre>{html.escape(verdict.text[:2000])}</pre>{status}{lines}{_example(verdict)}"


def _escaped(text: str) -> str:
    """Keep the lines of a message that points at a place."""
    return f"<pre>{html.escape(text)}</pre>" if "\n" in text else html.escape(text)


def _example(verdict: Verdict) -> str:
    example = verdict.counterexample
    if example is None:
        return ""
    picture = _picture(verdict)
    shown = f"<details><summary>Python lines that show it</summary><pre>{html.escape(example.code)}</pre></details>"
    said = "" if example.sentence == verdict.problem else f"<p>{html.escape(example.sentence)}</p>"
    return f"{said}{picture}{shown}"


def _picture(verdict: Verdict) -> str:
    """Draw the weights of a counterexample, where there are some and matplotlib is installed."""
    weights = verdict.counterexample.data.get("weights") if verdict.counterexample else None
    if weights is None or getattr(weights, "ndim", 0) != 1 or find_spec("matplotlib") is None:
        return ""
    from headwise.study.figures import svg  # noqa: PLC0415  loads matplotlib
    from headwise.study.pictures import Bars, Picture  # noqa: PLC0415

    alt = "The weights of the counterexample; a and b come first."
    drawn = svg(Picture("weights", alt, [Bars("weights", weights.tolist(), 0.5, ("a", "b"), highest=1.05)]))
    return f'<img alt="{alt}" src="data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}">'
