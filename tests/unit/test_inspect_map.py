"""Every statistic of a real model in float32 against the map in float64 from the same queries, keys and values."""

import numpy as np
import pytest
import torch
from naive_map import naive

from headwise.inspect import compiled, loading
from headwise.inspect import model as inspect_model
from headwise.inspect.statistics import statistics

# Words that come twice have nearly equal values, and firm heads read little else: sums that cancel.
TEXTS = (loading.DEMO_TEXT, "The cat sat on the mat. The dog sat on the log.")
NEAR = 8


@pytest.fixture(scope="module")
def demo():
    found = loading.opened("test", "demo", None, words=True)
    return found.model, found.tokenizer


@pytest.fixture(params=["blocks", "loops"])
def engine(request, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH", 0 if request.param == "loops" else 1 << 60)


def heard(model, ids):
    """Return queries, keys and values (h, n, d) of every layer, as its projections make them."""
    found, handles = [{} for _ in model.encoder.layer], []
    for layer, place in zip(model.encoder.layer, found, strict=True):
        for name in ("query", "key", "value"):

            def note(_module, _given, out, place=place, name=name):
                place[name] = out[0].unflatten(-1, (model.config.num_attention_heads, -1)).transpose(0, 1)

            handles.append(getattr(layer.attention.self, name).register_forward_hook(note))
    with torch.no_grad():
        model(torch.tensor(ids)[None])
    for handle in handles:
        handle.remove()
    return [tuple(place[name] for name in ("query", "key", "value")) for place in found]


def wanted_of(queries, keys, values):
    """Return every statistic of a layer's heads, and their likeness, from the whole map."""
    allowed = np.ones((len(queries), queries.shape[1], keys.shape[1]), dtype=bool)
    rows = naive(queries, keys, values, allowed, queries.shape[-1] ** -0.5)
    scores = np.einsum("hqd,hkd->hqk", queries.double().numpy(), keys.double().numpy()) * queries.shape[-1] ** -0.5
    weights = np.exp(scores - rows["log_normalizer"][..., None])
    place = np.arange(keys.shape[1])
    away = np.abs(place[:, None] - place)
    moved = weights * scores
    lengths = (moved**2).sum(-1)
    both = ((moved[:, None] + moved[None]) ** 2).sum(-1) / 4
    names = ("log_normalizer", "top_index", "contexts")
    means = {name: found.mean(-1) for name, found in rows.items() if name not in names}
    means |= {
        "wobble": np.sqrt(means["sensitivity"] / (rows["contexts"] ** 2).sum(-1).mean(-1)),
        "near_weight": (weights * (away <= NEAR)).sum(-1).mean(-1),
        "distance": (weights * away).sum(-1).mean(-1),
        "evenness": rows["effective_keys"].mean(-1) / len(place),
    }
    like = {
        "overlap": np.minimum(weights[:, None], weights[None]).sum(-1).mean(-1),
        "averaging": (both / ((lengths[:, None] + lengths[None]) / 2)).mean(-1),
        "contexts": cka(rows["contexts"]),
    }
    return rows, means, like


def cka(contexts):
    centred = contexts - contexts.mean(1, keepdims=True)
    cross = np.array([[np.linalg.norm(one.T @ other) ** 2 for other in centred] for one in centred])
    own = np.sqrt(np.diagonal(cross))
    return cross / np.outer(own, own)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("text", TEXTS)
def test_a_report_on_a_real_model_is_that_of_the_map(demo, text):
    model, tokenizer = demo
    report = inspect_model(model, text, tokenizer)
    for layer, arrays in zip(report.layers, heard(model, tokenizer(text)["input_ids"]), strict=True):
        _, means, like = wanted_of(*arrays)
        assert set(means) == set(layer.statistics) - {"length_variation", "mean_share", "alpha", "tau"}
        for name, value in means.items():
            np.testing.assert_allclose(layer.statistics[name], value, rtol=1e-5, atol=1e-7, err_msg=name)
        for name, value in like.items():
            np.testing.assert_allclose(getattr(layer.likeness, name), value, atol=1e-5, err_msg=name)


@pytest.mark.usefixtures("engine")
def test_every_row_of_a_real_model_is_that_of_the_map(demo):
    """Also for firm rows, whose sensitivity is a small difference of large sums."""
    model, tokenizer = demo
    for queries, keys, values in heard(model, tokenizer(TEXTS[1])["input_ids"]):
        rows, _, _ = wanted_of(queries, keys, values)
        found = statistics(queries, keys, values)
        for name, value in rows.items():
            mine = np.asarray(getattr(found, name))
            if name == "top_index":
                sure = rows["margin"] > 1e-4
                assert (mine == value)[sure].all()
                continue
            size = np.abs(value) + np.abs(value).mean()
            assert float((np.abs(mine - value) / size).max()) < 1e-5, name
