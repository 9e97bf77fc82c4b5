"""Hand-ins in Markdown: what stands around formulas counts, what is layout does not."""

import time

import pytest
from written_answers import Q, V

from headwise.check import answers, load
from headwise.check.handins import parsed
from headwise.check.markdown import plain

SHEET = load("attention")
QUERIES = ["q_1 = t mu_a", "q_2 = t mu_b", "t large"]
MATRICES = ["K = I", f"Q = {Q}", f"V = {V}"]


def marked(tmp_path, text):
    (tmp_path / "a.md").write_text(text)
    return answers(tmp_path / "a.md")


@pytest.mark.parametrize(
    ("part", "body", "status"),
    [
        ("b.i", r"2 $AA^\top$", "wrong"),
        ("b.i", r"It is not $AA^\top$", "unreadable"),
        ("b.i", r"Minus $AA^\top$", "wrong"),
        ("b.i", r"Twice $AA^\top$", "unreadable"),
        ("b.i", r"I minus $AA^\top$", "wrong"),
        ("d.ii", "1 - $0.079$", "wrong"),
        ("c.ii", "variance is 0 and not $1/2$", "wrong"),
        ("c.ii", "Not $1/2$ but 0", "unreadable"),
        ("c.ii", "1 + $1/2$", "wrong"),
        ("c.ii", r"half of $\frac12$", "wrong"),
        ("e.i", "It cannot be $u_a$", "unreadable"),
        ("a.ii", r"not $k_j^\top q \gg k_i^\top q$", "unreadable"),
        ("a.ii", r"$k_j^\top q \gg k_i^\top q$ is not enough", "unreadable"),
        ("b.i", "$M = A A^T$. Then divide by 2.", "unreadable"),
        ("b.i", "See ![image](m.png)", "unreadable"),
    ],
)
def test_words_around_a_formula_count(tmp_path, part, body, status):
    verdict = marked(tmp_path, f"## {part}\n\n{body}\n").verdicts[part]
    assert verdict.status == status, verdict.problem


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("b.i", r"I - $BB^\top$"),
        ("b.i", r"$I$ minus $BB^\top$"),
        ("b.i", "M = A A^T, not $A^T A$"),
        ("c.ii", "0.5, not $0.25$"),
        ("d.ii", r"1 - $\Phi(\sqrt{2})$"),
        ("b.ii", "t times ($k_a + k_b$), t large"),
        ("c.ii", "1/2\n\nIt jumps between $v_a$ and $v_b$"),
        ("b.i", r"We have $A^\top A = I$ and $A^\top B = 0$. So $M = AA^\top$."),
        ("b.i", r"The matrix is $$M = AA^\top$$ because $A^\top v_b = 0$."),
        ("b.ii", "We take\n$q = t(k_a+k_b)$ where\n$t$ is large, so that the two\nkeys get the same score."),
        ("b.ii", "The query\n$q = t(k_a+k_b)$, with $t$\nlarge."),
    ],
)
def test_sentences_with_formulas_are_read_whole(tmp_path, part, body):
    verdict = marked(tmp_path, f"## {part}\n\n{body}\n").verdicts[part]
    assert verdict.status == "right", verdict.problem


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("b.i", "1. M = A A^T\n2. because A^T A = I"),
        ("d.ii", "- 7.9%"),
        ("c.ii", "- 1/2"),
        ("c.ii", "1. 0.5"),
        ("e.i more", "- No"),
        ("a.iii", "- $v_j$"),
        ("b.i", "> M = A A^T"),
        ("b.i", "*A A^T*"),
        ("b.i", "A * A^T"),
        ("b.i", "**M = A A^T**"),
        ("b.i", "(A A^T)**2"),
        ("b.i", "M = A A^T\n\n---"),
        ("b.i", "<!-- A^T A -->\nM = A A^T"),
        ("b.i", "$$M = A A^T\n- B B^T + B B^T$$"),
        ("d.i", "\n".join(QUERIES)),
        ("d.i", "\n".join(f"- {line}" for line in QUERIES)),
        ("d.i", "\n".join(f"{place}) ${line}$" for place, line in enumerate(QUERIES, 1))),
        ("e.ii", "\n".join(MATRICES)),
        ("e.ii", "\n".join(f"* {line}" for line in MATRICES)),
        ("e.ii", "\n".join(f"- ${line}$" for line in MATRICES)),
        ("e.ii", "```\n" + "\n".join(MATRICES) + "\n```"),
    ],
)
def test_layout_changes_nothing(tmp_path, part, body):
    verdict = marked(tmp_path, f"## {part}\n\n{body}\n").verdicts[part]
    assert verdict.status == "right", verdict.problem


@pytest.mark.parametrize(
    "text",
    [
        "## (b)\n### i.\nA A^T",
        "## (b)\n\n### i\n\nA A^T",
        "# Homework 2\n## Part (b)\n### (i): a matrix\nA A^T",
        "# Homework 2\n## b.i\n### Solution\nA A^T",
        "# b\n## i\nWe have A^T A = I.\n### Answer\nM = A A^T",
    ],
)
def test_headings_inside_headings_name_a_part(tmp_path, text):
    marks = marked(tmp_path, text)
    assert {part: verdict.status for part, verdict in marks.verdicts.items()} == {"b.i": "right"}
    assert marks.notes == []


def test_a_heading_that_begins_a_part_ends_the_one_before(tmp_path):
    marks = marked(tmp_path, "## b.i\nA A^T\n### b.ii\nt (k_a + k_b), t large\n```\n# no heading\n```\n")
    assert marks.verdicts["b.i"].status == "right"
    assert marks.verdicts["b.ii"].text.endswith("# no heading")


def test_thousands_of_notes_are_a_few(tmp_path):
    marks = marked(tmp_path, "## b.i\nA A^T\n" * 20_000)
    assert marks.notes == ["b.i is answered twice; the last answer was marked"]
    others = "".join(f"## x.{number}\nx\n" for number in range(1000))
    marks = marked(tmp_path, f"## b.i\nA A^T\n{others}")
    assert len(marks.notes) == 9
    assert marks.notes[-1] == "and 992 more notes like these"
    assert marks.verdicts["b.i"].status == "right"


@pytest.mark.parametrize(
    "text",
    [
        "## b.i\n" + "\\(" * 500_000,
        "## b.i\n" + "\\(" * 3_900,
        "## b.i\n" + "\\[" * 3_900,
        "## b.i\n" + "$$ " * 2_600,
        "## b.i\n" + "ab\n" * 2_600,
        "## b.i\n" + "```\n" * 1_900,
        "## b.i\n" + "* " * 3_900,
        "<!--" * 250_000,
        "# " + " " * 500_000 + "x",
        "# b.i" + "#" * 500_000 + "x",
        "#" * 1_000_000,
        "# b.i\nx\n" * 100_000,
        "## b\n### i\n#### x\n##### y\nA\n" * 20_000,
    ],
    ids=range(13),
)
def test_hostile_markdown_ends_soon(text):
    start = time.process_time()
    parsed(text, ".md", SHEET)
    assert time.process_time() - start < 5


def test_text_that_is_layout_only():
    assert plain("---\n\n* * *\n") == ""
    assert plain("k\\_a \\* t") == "k_a * t"
    assert plain("a \ue0000\ue001 b") == "a \ufffd0\ufffd b"
