"""Sheets of one's own, and what is said of wrong ones."""

import pytest

from headwise.check import answer, answers, load
from headwise.errors import FileError

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
