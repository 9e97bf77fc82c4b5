"""Sheets of one's own, and what is said of wrong ones."""

import pytest

from headwise.check import answer, answers, load
from headwise.errors import FileError

WORD = '[part."1"]\nkind = "word"\n'
AVERAGE = '[part."1"]\nkind = "average"\n'
SHEET = """
title = "Mine"

[part."1"]
kind = "average"
give = ["q"]
keys = ["a", "b", "c"]

[part."2"]
kind = "number"
give = ["x"]
value = "sqrt(2)"
tolerance = 0.01
points = 2

[part."3"]
kind = "layer"
targets = { 2 = "u_b" }
"""


def test_a_sheet_of_ones_own(tmp_path):
    (tmp_path / "mine.toml").write_text(SHEET)
    mine = load(tmp_path / "mine.toml")
    assert answer("1", "t (k_a + k_b + k_c), t large", sheet=mine).status == "right"
    assert answer("1", "t (k_a + k_b), t large", sheet=mine).status == "wrong"
    assert answer("2", "1.41", sheet=mine).status == "right"
    assert answer("3", "K = I, Q = u_d u_a^T, V = u_b u_b^T / beta^2", sheet=mine).status == "right"
    assert answers({"2": "1.4142"}, sheet=mine).points == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            ('kind = "number"', 'kind = "nombre"'),
            "line 10: part 2: kind must be one of average, extract, layer, approximates, equals",
        ),
        (("tolerance = 0.01\n", ""), "line 9: part 2: tolerance must be given for the kind number, but it is not"),
        (
            ('value = "sqrt(2)"', 'value = "sqrt("'),
            "line 12: part 2: the value cannot be read: expected a number, a name or a bracket",
        ),
        (('{ 2 = "u_b" }', '{ 2 = "u_z" }'), "line 18: part 3: the targets cannot be read: u_z is no name of this problem"),
        (('give = ["q"]', 'give = "q"'), 'line 6: part 1: give must be a list, but it is "q"'),
        (("points = 2", "point = 2"), "line 14: part 2: point is not known for the kind number"),
        (('give = ["q"]', 'give = ["q", "q"]'), "part 1: give must be a list of different names, but it is"),
        (('keys = ["a", "b", "c"]', f"keys = {[*'abcdefghi']}"), "part 1: keys must be a list of at most 8 names, but it is"),
        (
            ('keys = ["a", "b", "c"]', 'drawn = "indpendent"'),
            'drawn must be orthonormal or independent, but it is "indpendent"',
        ),
        (('keys = ["a", "b", "c"]', "n = [2]"), "n must be a list of whole numbers from 3 to 64, but it is [2]"),
        (("tolerance = 0.01", "tolerance = nan"), "part 2: tolerance must be a number above 0, but it is nan"),
        (("tolerance = 0.01", "tolerance = -1"), "part 2: tolerance must be a number above 0, but it is -1"),
        (("points = 2", "points = -2"), "part 2: points must be a number of at least 0, but it is -2"),
        (("points = 2", "points = inf"), "part 2: points must be a number of at least 0, but it is inf"),
        (("points = 2", "points = true"), "part 2: points must be a number, but it is true"),
        (('{ 2 = "u_b" }', '{ 9 = "u_b" }'), "targets must be a table of expressions by position, 1, 2 or 3"),
        (('{ 2 = "u_b" }', "{}"), "targets must be a table of expressions by position, 1, 2 or 3"),
        (('title = "Mine"', 'titel = "Mine"'), "line 2: a sheet has a title and parts, but titel is neither"),
        (("points = 2", 'mistakes = [{ value = "2 +", name = "a", help = "b" }]'), 'the mistake "2 +" cannot be read'),
        (("[part.", "[port."), 'a sheet must have a table [part."..."] for every part, but it has none'),
        (("tolerance = 0.01", "tolerance = "), "a sheet must be TOML, but Invalid value (at line 13"),
    ],
)
def test_wrong_sheets_are_told_with_their_line(tmp_path, change, sentence):
    (tmp_path / "mine.toml").write_text(SHEET.replace(*change))
    with pytest.raises(FileError) as caught:
        load(tmp_path / "mine.toml")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ('kind = "equals"\ngive = ["x"]\nvalue = "k_j^T q > 3"', "the value cannot be read"),
        ('kind = "equals"\ngive = ["x"]\nvalue = "t k_j^T q"', "the value cannot be read: t is no name of this problem"),
        ('kind = "approximates"\ngive = ["c"]\nrow = 9', "row must be 1, 2 or 3, but it is 9"),
        ('kind = "approximates"\ngive = ["c"]\nrow = 0', "row must be 1, 2 or 3, but it is 0"),
    ],
)
def test_other_wrong_parts(tmp_path, part, sentence):
    (tmp_path / "mine.toml").write_text(f'[part."1"]\n{part}\n')
    with pytest.raises(FileError, match=sentence):
        load(tmp_path / "mine.toml")


def test_a_sheet_says_how_instances_are_drawn(tmp_path):
    """With 40 keys a factor that is enough for 25 is not; five keys are averaged as two are."""
    head = '[part."1"]\nkind = "average"\ngive = ["q"]\n'
    (tmp_path / "many.toml").write_text(f"{head}n = [60]\nwidth = 64\n")
    (tmp_path / "five.toml").write_text(f"{head}keys = {[*'abcde']}\n")
    verdict = answer("1", "7.5 (k_a + k_b)", sheet=tmp_path / "many.toml")
    assert verdict.counterexample.data["n"] == 60
    assert verdict.counterexample.data["keys"].shape == (60, 64)
    assert answer("b.ii", "7.5 (k_a + k_b)").correct
    assert answer("1", "t (k_a + k_b + k_c + k_d + k_e), t large", sheet=tmp_path / "five.toml").status == "right"
    assert answer("1", "t (k_a + k_b + k_c + k_d), t large", sheet=tmp_path / "five.toml").status == "wrong"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[part.b.ii]\nkind = "condition"',
            'line 1: part b: a name with a dot must be quoted, as in [part."b.ii"], but it is not.',
        ),
        (
            '[part.b]\nkind = "condition"\n[part.B]\nkind = "condition"',
            "line 3: the names of parts must differ in letters or digits, but 'B' is also 'b'.",
        ),
        ('[part."?"]\nkind = "condition"', "line 1: the name of a part must have letters or digits, but '?' has none."),
        (
            f'{WORD}accept = ["a value of the output"]',
            "a word must say something, but 'a value of the output' is only what stands beside one.",
        ),
        (
            f'{WORD}accept = ["no"]\nmistakes = [{{ value = "No", name = "a", help = "b" }}]',
            "line 4: part 1: a word is right or a mistake, but 'No' is both.",
        ),
        (f'{AVERAGE}give = ["q 1"]', 'give must be a list of names, such as q or q_1, but it is ["q 1"].'),
        (f'{AVERAGE}give = ["q", "_"]', 'give must be a list of names, such as q or q_1, but it is ["q", "_"].'),
        (f'{AVERAGE}give = [""]', 'give must be a list of names, such as q or q_1, but it is [""].'),
        (f'{AVERAGE}give = ["k"]', "give must be names of its own, but k is a name of the kind average."),
        (f'{AVERAGE}give = ["q"]\nkeys = ["alpha"]', "keys must be a list of letters or numbers, which are indices, but it is"),
        (f'{AVERAGE}give = ["q"]\nkeys = ["a b"]', "keys must be a list of letters or numbers, which are indices, but it is"),
        (f'{AVERAGE}give = ["q"]\nkeys = ["%"]', "keys must be a list of letters or numbers, which are indices, but it is"),
    ],
)
def test_names_that_nobody_could_use(tmp_path, text, sentence):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(FileError) as caught:
        load(tmp_path / "mine.toml")
    assert sentence in str(caught.value)


def test_two_heads_on_other_than_ten_keys(tmp_path):
    (tmp_path / "mine.toml").write_text(f'{AVERAGE}give = ["q_1", "q_2"]\nn = [5]\nwidth = 9\n')
    same = answer("1", "q_1 = t(k_a + k_b), q_2 = q_1, t large", sheet=tmp_path / "mine.toml")
    assert (same.status, same.misconception) == ("wrong", "equal queries")
    assert same.counterexample.data["n"] == 5
    names = {}
    exec(same.counterexample.code, names)  # noqa: S102  what a student would paste
    assert names["keys"].means.shape == (5, 9)
    assert answer("1", "q_1 = t k_a, q_2 = t k_b, t large", sheet=tmp_path / "mine.toml").status == "right"
    both = answer("1", "q_1 = t(k_a + k_b), q_2 = 2 t(k_a + k_b), t large", sheet=tmp_path / "mine.toml")
    assert both.remarks[0].startswith("both heads look at a and b")


def test_a_fixed_factor_is_told_with_the_keys_there_are(tmp_path):
    (tmp_path / "mine.toml").write_text(f'{AVERAGE}give = ["q"]\nn = [3]\n')
    assert "with 3 keys" in answer("1", "50 (k_a + k_b)", sheet=tmp_path / "mine.toml").remarks[0]
    assert "with 10 keys" in answer("b.ii", "50 (k_a + k_b)").remarks[0]


def test_independent_keys_have_a_right_answer(tmp_path):
    """K q = t (e_a + e_b) is solved by q = t K^T (K K^T)^-1 (e_a + e_b), for the rows of K are independent."""
    (tmp_path / "mine.toml").write_text(f'{AVERAGE}give = ["q"]\ndrawn = "independent"\n')
    for text, status in (
        ("q = t K^T (K K^T)^{-1} (e_a + e_b), t large", "right"),
        ("q = e^t K^T (K K^T)^{-1} (e_a + e_b), t large", "right"),
        ("q = t K^T (K K^T)^{-1} (e_a + 2 e_b), t large", "wrong"),
        ("q = t K^T (e_a + e_b), t large", "wrong"),
        ("q = t (k_a + k_b), t large", "wrong"),
    ):
        verdict = answer("1", text, sheet=tmp_path / "mine.toml")
        assert verdict.status == status, (text, verdict.problem)
        if status == "wrong":
            exec(verdict.counterexample.code, {})  # noqa: S102


def test_parts_are_found_however_they_are_written():
    assert answer("B.II", "t (k_a + k_b), t large").part == "b.ii"
    assert answer("(b)(ii)", "t (k_a + k_b), t large").part == "b.ii"
