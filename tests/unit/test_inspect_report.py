"""Reports of `inspect`: verdicts, likeness of heads, words tied to words, files, and the bridge to theory."""

import csv
import json

import numpy as np
import pytest
import tiny_models

from headwise import inspect
from headwise.inspect.loading import DEMO_TEXT
from headwise.inspect.report import STATISTICS
from headwise.inspect.sampled import _cka
from headwise.inspect.verdict import Thresholds, verdict

MIXED = {
    "first_weight": 0.1, "previous_weight": 0.1, "self_weight": 0.1, "top_weight": 0.3, "evenness": 0.1, "near_weight": 0.1,
    "near_share": 0.2, "effective_keys": 10.0, "collision_keys": 2.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def demo():
    return inspect.model("demo", DEMO_TEXT)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({}, "mixed", "mixed"),
        ({"first_weight": 0.5}, "first", "sits on the first token"),
        ({"previous_weight": 0.6}, "previous", "looks at the previous token"),
        ({"self_weight": 0.6}, "self", "looks at its own position"),
        ({"top_weight": 0.7}, "copy", "copies one token"),
        ({"evenness": 0.5}, "diffuse", "spreads over everything it sees"),
        ({"near_weight": 0.9}, "local", "stays within 8 tokens"),
        ({"near_weight": 0.9, "near_share": 0.6}, "mixed", "mixed"),
        ({"collision_keys": 7.0}, "average", "averages about 10 tokens"),
    ],
)
def test_verdicts(change, kind, words):
    found = verdict(MIXED | change, Thresholds())
    assert (found.kind, found.words) == (kind, words)
    assert found.evidence == {name: (MIXED | change)[name] for name in found.evidence}
    assert found.evidence


def test_limits_are_arguments():
    assert verdict(MIXED, Thresholds(copy=0.3)).kind == "copy"
    strict = inspect.model(tiny_models.llama(), list(range(4, 40)), thresholds=Thresholds(first=0.0))
    assert strict.counts == {"first": 12}


def test_the_demo_ties_it_to_the_animal(demo):
    found = demo.ties("it", "animal")
    assert found.tops
    for tie in found.tops:
        row = demo.weights(tie.layer, tie.head)[demo.words.index("it")]
        assert demo.words[int(row.argmax())] == "animal"
        assert tie.weight == pytest.approx(row.max())
    assert found.sentence().startswith(f'{len(found.tops)} heads have "animal" as top key of "it": 5.11 (0.6466)')
    honest = next(found for word in demo.words if not (found := demo.ties("animal", word)).tops)
    assert honest.sentence().startswith(f'no head has "{honest.key}" as top key of "animal"; nearest is ')
    assert honest.heads[0].weight == max(tie.weight for tie in honest.heads)


def test_a_head_of_the_demo_looks_back(demo):
    """Head 2 of layer 0 looks at the token before; its weights are a diagonal."""
    said = demo.layer(0).verdicts[2]
    assert said.kind == "previous"
    np.testing.assert_array_equal(demo.weights(0, 2)[1:].argmax(-1), np.arange(len(demo.words) - 1))


def test_likeness_is_that_of_the_weights(demo):
    layer = demo.layer(3)
    weights = layer.weights.astype(float)
    like = layer.likeness
    wanted = np.minimum(weights[:, None], weights[None]).sum(-1).mean(-1)
    np.testing.assert_allclose(like.overlap, wanted, atol=1e-5)
    np.testing.assert_allclose(np.diagonal(like.overlap), 1.0, atol=1e-5)
    np.testing.assert_allclose(np.diagonal(like.contexts), 1.0, atol=1e-9)
    np.testing.assert_allclose(np.diagonal(like.averaging), 1.0, atol=1e-6)
    assert (like.averaging >= 0).all()
    assert (like.averaging <= 1 + 1e-6).all()
    pairs = demo.redundant(0.8)
    assert all(overlap >= 0.8 for *_, overlap in pairs)
    assert pairs[0][3] == max(np.triu(one.likeness.overlap, k=1).max() for one in demo.layers)


def test_contexts_are_alike_up_to_a_rotation(rng):
    first = rng.normal(size=(40, 6))
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    found = _cka(np.stack([first, 3 * first @ turn, rng.normal(size=(40, 6))]))
    assert found[0, 1] == pytest.approx(1.0)
    assert found[0, 2] < 0.5


def test_two_heads_on_the_same_keys_and_on_others():
    """Heads with the same weights gain nothing from averaging; heads that lean on different keys halve the variance."""
    import torch

    from headwise.inspect.engine import rows
    from headwise.inspect.rules import Spans
    from headwise.inspect.sampled import Sample
    from headwise.inspect.task import Task

    keys = torch.eye(4)[None, None]
    queries = 40 * torch.stack([keys[0, 0, :1], keys[0, 0, :1], keys[0, 0, 1:2]])[None]
    rule = Spans(torch, torch, "cpu", 1, 4)
    task = Task(torch, queries, keys, keys, rule, 1.0)
    sample = Sample(3, 8)
    sample.add(task, 0, torch.tensor([0]), rows(task, "test"))
    like = sample.likeness()
    np.testing.assert_allclose(like.overlap, [[1, 1, 0], [1, 1, 0], [0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(like.averaging, [[1, 1, 0.5], [1, 1, 0.5], [0.5, 0.5, 1]], atol=1e-6)


def test_files(demo, tmp_path):
    with demo.save(tmp_path / "heads.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == 72
    assert float(lines[40]["entropy"]) == demo.table("entropy")[3, 4]
    data = json.loads(demo.save(tmp_path / "heads.json").read_text())
    assert data["layers"][3]["heads"][4]["verdict"]["words"] == lines[40]["verdict"]
    assert list(data["layers"][0]["heads"][0])[1:-1] == list(STATISTICS)
    assert demo.save(tmp_path / "heads.svg").read_text() == demo.heat_map("effective_keys")
    with pytest.raises(ValueError, match="a report must end in") as caught:
        demo.save(tmp_path / "heads.xls")
    assert str(caught.value).endswith(
        "heads.xls: a report must end in .csv, .parquet, .json, .html, .svg, but it ends in .xls."
    )


def test_parquet_holds_what_csv_holds(demo, tmp_path):
    from pyarrow import parquet

    table = parquet.read_table(demo.save(tmp_path / "heads.parquet"))
    assert table.to_pylist() == demo.rows
    assert table.schema.field("layer").type.bit_width == 64


def test_parquet_needs_its_library(demo, tmp_path, monkeypatch):
    monkeypatch.setattr("headwise.inspect.writing.find_spec", lambda _: None)
    with pytest.raises(ImportError) as caught:
        demo.save(tmp_path / "heads.parquet")
    assert (
        str(caught.value) == "save(): a .parquet file needs pyarrow, but it is not installed. "
        'Run: pip install "headwise[parquet]", or write .csv.'
    )


def test_pictures_hold_every_head_and_token(demo):
    picture = demo.heat_map("margin")
    assert picture.count("<rect") == 72
    assert "margin of each head" in picture
    view = demo.token_view(0, 2)
    assert view.count("<line") == int((demo.weights(0, 2) >= 0.02).sum())
    assert view.count("[CLS]") >= 2


def test_text_in_a_page_is_no_markup():
    tiny = tiny_models.bert()
    report = inspect.model(tiny, [4, 5, 6])
    evil = type(report)(**(vars(report) | {"model": "<script>alert(1)</script>", "words": ["</script>", "<b>", "&"]}))
    from headwise.inspect.page import page

    made = page(evil)
    assert "<script>alert(1)" not in made
    assert made.count("</script>") == 2


def test_what_a_report_says_of_itself(demo):
    assert repr(demo) == "<HeadReport of demo: 72 heads in 6 layers, 15 tokens>"
    assert str(demo).splitlines()[0] == "Heads of demo: 6 layers, 1 text, 15 tokens"
    assert len(demo.rows) == 72
    with pytest.raises(ValueError, match="statistic must be"):
        demo.table("entropie")
    with pytest.raises(ValueError, match="layer must be one that was looked at") as caught:
        demo.layer(7)
    assert str(caught.value) == "layer(): layer must be one that was looked at (0, 1, 2, 3, 4, 5), but got 7."


@pytest.mark.parametrize("tiny", [tiny_models.bert, tiny_models.llama], ids=["bert", "llama"])
def test_prediction_and_measurement(tiny):
    """A key that varies: the law with the whole covariance of the observed keys is near what they do, rotated or not."""
    ids = np.random.default_rng(0).integers(4, 14, (6, 60))
    found = inspect.predict(tiny(), [row.tolist() for row in ids], 7, 1, 1)
    assert found.occurrences == int((ids == 7).sum())
    assert abs(found.whole - found.measured) <= 3 * found.measured_error + found.whole_error
    assert found.sentence() in found.to_dict()["sentence"]


def test_a_prediction_for_gaussian_keys(rng):
    """Keys that are drawn from the model are predicted by it."""
    from headwise.core.random_keys import RandomKeys
    from headwise.inspect.bridge import _measured, _Setting
    from headwise.stress import law

    keys, values, query = rng.normal(size=(6, 5)), rng.normal(size=(6, 3)), rng.normal(size=5)
    noise = np.zeros(6)
    noise[2] = 0.3
    fitted = RandomKeys(keys, isotropic=noise, along_mean={2: 0.2})
    measured, error, _ = _measured(_Setting(query, keys, values, 2, 6), fitted.sample(20_000, seed=1)[:, 2])
    wanted = law(query, fitted, values)
    assert abs(wanted.variance - measured) <= 2 * error
    assert error < 0.1 * measured
