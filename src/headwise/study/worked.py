"""The study as Markdown: the cells of a notebook, and a page of the manual. The texts are those of the report."""

from typing import TYPE_CHECKING

from headwise.study.part import Part

if TYPE_CHECKING:
    from headwise.study.run import Study

TITLE = "The attention exercise, computed"
INTRODUCTION = (
    r"Attention reads a mixture of values, $c = \sum_i \alpha_i v_i$ with $\alpha = \mathrm{softmax}(K q)$. Each part states a "
    "claim, what was computed, the numbers with their errors, and how to repeat it."
)


def setting_line(study: "Study") -> str:
    """Say what the study was run on."""
    given = study.setting
    return (
        f"{given.keys} keys of width {given.width}, scale {given.scale:g}, length variance {given.length_variance:g}, "
        f"seed {given.seed}."
    )


def before(part: Part) -> str:
    """Return what is said ahead of a part's code."""
    return f"## {part.name} {part.heading}\n\n**Claim.** {part.claim}\n\n**Computed.** {part.computed}"


def after(part: Part) -> str:
    """Return verdict, numbers, proofs and what they mean."""
    rows = [f"| {_cell(one.name)} | {one.shown} | {one.within} | {one.said} | {one.verdict} |" for one in part.findings]
    table = "\n".join(["| number | found | error | must be | |", "|---|---|---|---|---|", *rows])
    proofs = "".join(f"\n- {one.sentence}{'' if one.checked else ' (NOT CHECKED)'}" for one in part.proofs)
    said = f"**{part.verdict}**{part.sentence.removeprefix(part.verdict)}\n\n{table}"
    said += f"\n\nProved, with the certificates checked:\n{proofs}" if proofs else ""
    return f"{said}\n\n**What it means.** {part.lesson}"


def _cell(text: str) -> str:
    """Keep bars from ending a cell of a table."""
    return text.replace("|", r"\|")


def page(study: "Study", pictures: str) -> str:
    """Return the page of the manual; `pictures` is the folder of the pictures, from there."""
    parts = [
        f"{before(part)}\n\n![{part.picture.alt}]({pictures}/{part.picture.name}.svg)\n\n{after(part)}\n\n"
        f"Try it yourself:\n\n```{{code-block}} python\n{part.code}\n```\n\nor `{part.command}`."
        for part in study.parts
    ]
    head = (
        "# The exercise, worked\n\n"
        "<!-- Written by docs/refresh.py from headwise.study. -->\n\n"
        f"{INTRODUCTION} `headwise study` writes the same as a report. {setting_line(study)}"
    )
    return "\n\n".join([head, *parts]) + "\n"
