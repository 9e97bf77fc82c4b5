"""What was read of an answer, as MathML: well-formed for every answer that can be read, and nothing of the text passed on."""

import xml.etree.ElementTree as ET

import pytest
from written_answers import ANSWERS

from headwise.check import load
from headwise.check.given import as_read
from headwise.check.grammar import read
from headwise.check.typeset import mathml, typeset
from headwise.check.unreadable import Unreadable

PROBLEMS = load("attention").problems
OPEN = '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
TOP = "\N{DOWN TACK}"
COMMA = '<mo separator="true">,</mo><mspace width="0.6em"></mspace>'
BETA_K = "<mrow><mi>β</mi><mo>\u2062</mo><msub><mi>k</mi><mi>a</mi></msub></mrow>"
TAGS = {
    "math",
    "mrow",
    "mi",
    "mn",
    "mo",
    "msub",
    "msup",
    "msubsup",
    "mfrac",
    "msqrt",
    "munder",
    "munderover",
    "mtext",
    "mspace",
}


def readable(part, text):
    try:
        as_read(PROBLEMS[part], text)
    except Unreadable:
        return False
    return PROBLEMS[part].kind != "word"


@pytest.mark.parametrize(("part", "text"), [(part, text) for part, text, *_ in ANSWERS if PROBLEMS[part].kind != "word"])
def test_every_answer_that_is_read_is_shown(part, text):
    shown = typeset(PROBLEMS[part], text)
    assert (shown is not None) == readable(part, text)
    if shown is not None:
        assert {node.tag.rpartition("}")[2] for node in ET.fromstring(shown).iter()} <= TAGS  # noqa: S314  made here


@pytest.mark.parametrize(
    ("part", "text", "inside"),
    [
        ("b.i", "A A^T", f"<mrow><mi>A</mi><mo>\u2062</mo><msup><mi>A</mi><mi>{TOP}</mi></msup></mrow>"),
        (
            "c.i output",
            "c = v_a/2",
            "<mrow><mi>c</mi><mo>=</mo><mfrac><msub><mi>v</mi><mi>a</mi></msub><mn>2</mn></mfrac></mrow>",
        ),
        ("c.ii", r"\sqrt{0.25}", "<msqrt><mn>0.25</mn></msqrt>"),
        ("d.ii", "8%", "<mrow><mn>8</mn><mo>%</mo></mrow>"),
        (
            "b.ii",
            r"\beta k_a, \beta \gg 0",
            f"<mrow>{BETA_K}{COMMA}<mrow><mi>β</mi><mtext>&#xA0;large</mtext></mrow></mrow>",
        ),
    ],
)
def test_exact_output(part, text, inside):
    assert typeset(PROBLEMS[part], text) == f"{OPEN}{inside}</math>"


@pytest.mark.parametrize(("part", "text"), [("b.i", "A A^"), ("b.ii", "<script>"), ("a.iii", "v_j"), ("b.ii", "(" * 3000)])
def test_what_is_not_read_is_not_shown(part, text):
    assert typeset(PROBLEMS[part], text) is None


def test_signs_of_xml_are_escaped():
    shown = mathml(read("k_j^T q < k_i^T q", frozenset({"k", "q"}), relations=True))
    assert "<mo>&lt;</mo>" in shown
    ET.fromstring(shown)  # noqa: S314
