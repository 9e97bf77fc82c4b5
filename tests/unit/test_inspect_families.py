"""`inspect` on models with ways of their own: positions, shared layers, mixed tokens, keys made with queries and values."""

import numpy as np
import pytest
import tiny_models
import torch

from headwise import inspect
from headwise.inspect import loading

IDS = np.random.default_rng(3).integers(4, 14, 23)
TEXTS = [IDS, IDS[:9], IDS[3:16]]
ROBERTAS = ("Roberta", "XLMRoberta", "Camembert", "Data2VecText", "Xmod", "XLMRobertaXL", "RobertaPreLayerNorm")


@pytest.mark.parametrize("family", ROBERTAS)
@pytest.mark.parametrize("together", ["padded", "packed"])
def test_positions_behind_the_padding_token(family, together):
    """Texts together are each text alone, and every position may be used."""
    tiny = tiny_models.roberta(family)
    report = inspect.model(tiny, TEXTS, together=together)
    for number, text in enumerate(TEXTS):
        alone = inspect.model(tiny, text)
        for layer, one in zip(report.layers, alone.layers, strict=True):
            for name, value in layer.per_text.items():
                np.testing.assert_allclose(value[:, number], one.per_text[name][:, 0], rtol=2e-4, atol=2e-5, err_msg=name)
    assert inspect.model(tiny, np.full(63, 5), together=together).tokens == 63
    with pytest.raises(ValueError, match="at most the model's 63 positions, but it has 64 tokens"):
        inspect.model(tiny, np.full(64, 5))


@pytest.mark.parametrize("kind", ["mobilebert", "lfm2"])
def test_models_that_mix_neighbours_are_not_packed(kind):
    tiny = getattr(tiny_models, kind)()
    with pytest.raises(ValueError, match="packed") as caught:
        inspect.model(tiny, TEXTS, together="packed")
    assert str(caught.value) == (
        f'model(): together="packed" needs texts that meet in attention only, but {type(tiny).__name__} mixes neighbours '
        'elsewhere too. Pass together="padded".'
    )
    assert inspect.model(tiny, TEXTS).tokens == 45


def test_layers_that_share_a_module():
    """Two layers of ALBERT are two layers, with the weights of each."""
    tiny = tiny_models.albert()
    report = inspect.model(tiny, IDS)
    assert [(layer.number, layer.rows) for layer in report.layers] == [(0, 23), (1, 23)]
    tiny.set_attn_implementation("eager")
    with torch.no_grad():
        maps = tiny(torch.from_numpy(IDS)[None], output_attentions=True).attentions
    tiny.set_attn_implementation("sdpa")
    for layer, found in zip(report.layers, maps, strict=True):
        np.testing.assert_allclose(layer.weights, found[0].numpy(), atol=1e-5)
    second = inspect.model(tiny, TEXTS, layers=[1], batch=1)
    assert [(layer.number, layer.rows) for layer in second.layers] == [(1, 45)]


def test_layers_that_attend_twice_are_refused():
    with pytest.raises(ValueError, match="attend once") as caught:
        inspect.model(tiny_models.diffllama(), IDS)
    assert str(caught.value) == "model(): each layer must attend once, but layer 0 of DiffLlamaModel attends several times."


def test_layers_have_the_numbers_of_the_model():
    tiny = tiny_models.lfm2()
    assert [layer.number for layer in inspect.model(tiny, IDS).layers] == [1, 3]
    assert [layer.name for layer in inspect.model(tiny, IDS, layers=[3]).layers] == ["layers.3.self_attn"]
    with pytest.raises(ValueError, match="layers that attend") as caught:
        inspect.model(tiny, IDS, layers=[1, 2])
    assert str(caught.value) == "model(): layers must be numbers of layers that attend (1, 3), but got 2."


def before_rotation(tiny, cut):
    """Return the keys (g, n, d) of the first layer's fused projection; `cut` takes them out of it."""
    found = []
    name = {"Phi3Model": "self_attn.qkv_proj", "GPTNeoXModel": "attention.query_key_value"}[type(tiny).__name__]
    handle = tiny.layers[1].get_submodule(name).register_forward_hook(lambda _m, _i, out: found.append(out[0].double()))
    with torch.no_grad():
        tiny(torch.from_numpy(IDS)[None])
    handle.remove()
    return cut(found[0]).transpose(0, 1).numpy()


@pytest.mark.parametrize(
    ("kind", "cut"),
    [
        ("phi3", lambda out: out[:, 32:48].unflatten(-1, (2, 8))),
        ("gpt_neox", lambda out: out.unflatten(-1, (4, 3, 8))[:, :, 1]),
    ],
)
def test_keys_in_one_projection_are_taken_before_rotation(kind, cut):
    tiny = getattr(tiny_models, kind)()
    layer = inspect.model(tiny, IDS).layer(1)
    assert list(layer.geometry) == ["projected"]
    for found, keys in zip(layer.geometry["projected"], before_rotation(tiny, cut), strict=True):
        np.testing.assert_allclose(found.mean, keys.mean(0), atol=1e-6)
        assert found.mean_share == pytest.approx((keys.mean(0) ** 2).sum() / (keys**2).sum(-1).mean(), rel=1e-5)


def test_a_norm_behind_rotary_positions_is_no_key_geometry():
    report = inspect.model(tiny_models.hunyuan(), IDS)
    assert list(report.layers[0].geometry) == ["projected"]
    assert report.remarks == []


def test_keys_after_rotation_are_called_so():
    """In the table, in the data and on the page; and nothing is predicted from them."""
    tiny = tiny_models.deepseek()
    report = inspect.model(tiny, IDS)
    assert [layer.keys for layer in report.layers] == ["attended", "attended"]
    said = (
        "length variation, mean share, alpha and tau of layers 0, 1 are of keys as they are multiplied, after rotary "
        "positions if there are any: this model does not show them before"
    )
    assert report.remarks == report.to_dict()["remarks"] == [said]
    assert said in " ".join(str(report).split())
    assert report.to_dict()["layers"][0]["keys"] == "attended"
    from headwise.inspect.page import page

    assert said in page(report)
    with pytest.raises(ValueError, match="rotary") as caught:
        inspect.predict(tiny, [IDS.tolist()] * 4, 5, 0, 0)
    assert str(caught.value) == (
        "predict(): keys must be seen before rotary positions, but this model makes them where nobody can listen."
    )


def test_a_rotation_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="rotary") as caught:
        inspect.predict(tiny_models.hunyuan(), [IDS.tolist()] * 4, 5, 1, 0)
    assert str(caught.value) == "predict(): rotary positions must be known, but this model keeps them to itself."


@pytest.mark.parametrize("kind", ["phi", "gpt_neox", "phi3", "gpt_oss"])
def test_predictions_where_a_part_is_rotated_and_where_there_are_sinks(kind, monkeypatch):
    """What is measured is the variance of the output when every observed key is put in that place, by brute force."""
    from headwise.inspect import bridge

    settings, real = [], bridge._measured
    monkeypatch.setattr(bridge, "_measured", lambda *given: settings.append(given) or real(*given))
    tiny = getattr(tiny_models, kind)()
    if kind == "gpt_oss":
        with torch.no_grad():
            for layer in tiny.layers:
                layer.self_attn.sinks.fill_(4.0)
    ids = np.random.default_rng(0).integers(4, 14, (6, 40))
    found = inspect.predict(tiny, [row.tolist() for row in ids], 7, 1, 1)
    (setting, drawn), sink = settings[0], [4.0] if kind == "gpt_oss" else []
    outputs, weights = [], []
    for key in drawn:
        keys = setting.keys[: setting.count].copy()
        keys[setting.spot] = key
        terms = np.exp(np.concatenate([keys @ setting.query, sink]))
        weights.append(terms[setting.spot] / terms.sum())
        outputs.append(terms[: setting.count] @ setting.values[: setting.count] / terms.sum())
    assert found.measured == pytest.approx(np.var(outputs, axis=0).sum(), rel=1e-9)
    assert found.weight == pytest.approx(np.mean(weights), rel=1e-9)
    assert abs(found.whole - found.measured) <= 3 * found.measured_error + found.whole_error


def test_keys_that_do_not_vary():
    found = inspect.predict("demo", ["the cat"] * 10, "the", layer=0, head=0)
    assert (found.measured, found.predicted, found.whole) == (0, 0, 0)
    assert found.sentence() == "the 10 keys do not vary, and neither does the output"


@pytest.mark.parametrize(("kind", "part"), [("k_proj", "keys"), ("q_proj", "scores"), ("v_proj", "values")])
def test_numbers_that_are_none_are_told_with_their_layer(kind, part):
    tiny = tiny_models.llama()
    with torch.no_grad():
        weight = getattr(tiny.model.layers[1].self_attn, kind).weight
        if part == "keys":
            weight[0, 0] = float("nan")
        else:
            weight.mul_(1e20 if part == "scores" else 3e38)
    with pytest.raises((ValueError, OverflowError)) as caught:
        inspect.model(tiny, IDS)
    rule = {
        "keys": "keys must be finite, but those of layer 1 are not",
        "scores": "scores must fit float32, but those of layer 1 are too large",
        "values": "contexts must fit float32, but the values of layer 1 are too large",
    }[part]
    if part == "values":
        assert "of layer 1 are" in str(caught.value)
    else:
        assert str(caught.value) == f"model(): {rule}. Look for NaN and very large numbers in the model's weights."
    assert tiny.config._attn_implementation == "sdpa"


def test_a_model_put_elsewhere_comes_back_when_that_fails(monkeypatch):
    """A device is looked at before anything is moved, and a move that fails half-way is undone."""
    tiny, real, moved = tiny_models.llama(), torch.nn.Module.to, []

    def short(self, place):
        moved.append(str(place))
        if str(place) == "cuda":
            raise torch.OutOfMemoryError
        return real(self, place)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.nn.Module, "to", short)
    with pytest.raises(MemoryError, match="must fit in memory with its longest text"):
        inspect.model(tiny, IDS, device="cuda")
    assert moved == ["cuda", "cpu"]
    for device in ("meta", "mps"):
        with pytest.raises(ValueError, match=f"device must be cpu or cuda, but got '{device}'"):
            inspect.model(tiny, IDS, device=device)
    assert moved == ["cuda", "cpu"]
    assert {weight.device.type for weight in tiny.parameters()} == {"cpu"}


def test_a_text_of_one_token_has_an_infinite_margin():
    report = inspect.model(tiny_models.llama(), [5])
    assert np.isinf(report.table("margin")).all()
    assert np.isinf(report.layers[0].per_text["margin"]).all()
    assert report.to_dict()["layers"][0]["heads"][0]["margin"] is None
    assert "inf" in report.heat_map("margin")
    with_more = inspect.model(tiny_models.llama(), [[5], IDS.tolist()])
    assert np.isfinite(with_more.table("margin")).all()


def test_numbers_fit_their_cells():
    """However long they are, and the title fits the picture."""
    report = inspect.model(tiny_models.bert(), IDS)
    layer = report.layers[0]
    layer.statistics["gain"][:] = -1.23e-05
    picture = report.heat_map("gain")
    wide = float(picture.split("<rect")[1].split("width='")[1].split("'")[0])
    assert wide >= 7 * len("-1.23e-05")
    assert float(picture.split("width='")[1].split("'")[0]) >= 64 + 7 * len("gain of each head, -1.23e-05 to 0.001")


def test_a_tokenizer_is_found_beside_a_model_object(tmp_path):
    place = tiny_models.folder(tmp_path / "tiny")
    model, name = loading.load("test", str(place))
    assert name == str(place)
    assert inspect.model(model, "the animal").words == ["[CLS]", "the", "animal", "[SEP]"]
    (place / "tokenizer.json").write_text("{")
    (place / "vocab.txt").unlink()
    assert inspect.model(place, IDS).tokens == 23
    with pytest.raises(ValueError, match="a tokenizer must be one that transformers can load"):
        inspect.model(place, "the animal")
