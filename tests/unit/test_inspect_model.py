"""`inspect.model` on small models of transformers: outputs unchanged, statistics those of the map, everything put back."""

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from naive_map import naive

from headwise.errors import OptionError
from headwise.inspect import model as inspect_model
from headwise.inspect.listener import Listener
from headwise.inspect.report import STATISTICS
from headwise.inspect.texts import TextError

MODELS = {name: getattr(tiny_models, name) for name in ("bert", "llama", "gemma2", "gemma3", "gpt2", "gpt_oss")}
IDS = np.random.default_rng(3).integers(4, 14, 23)


@pytest.fixture(params=MODELS, scope="module")
def tiny(request):
    return MODELS[request.param]()


def eager(model, **inputs):
    """Return outputs and the maps of every layer."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**inputs, output_attentions=True, use_cache=False)
    model.set_attn_implementation(before)
    return out


def heard_outputs(model, batches):
    """Return what a model gives out while it is listened to."""
    outputs = []
    listener = Listener(torch, model, 1)

    def forward(inputs):
        outputs.append(model(**inputs, use_cache=False).last_hidden_state)

    from headwise.inspect.texts import Piece, padded

    for ids in batches:
        batch = padded([Piece(0, one, np.ones(len(one), dtype=bool)) for one in ids], 0)
        inputs = {"input_ids": torch.from_numpy(batch.ids), "attention_mask": torch.from_numpy(batch.real).long()}
        with torch.no_grad():
            listener.run([batch], lambda _, inputs=inputs: forward(inputs))
        outputs[-1] = (outputs[-1], inputs)
    return outputs


def test_outputs_are_unchanged(tiny):
    base = tiny.base_model
    for found, inputs in heard_outputs(base, [[IDS], [IDS, IDS[:9]]]):
        wanted = eager(base, **inputs).last_hidden_state
        real = inputs["attention_mask"].bool()
        torch.testing.assert_close(found[real], wanted[real], rtol=0, atol=2e-5)
        if getattr(base.config, "attn_logit_softcapping", None) is None and not hasattr(base.config, "num_local_experts"):
            with torch.no_grad():
                plain = base(**inputs, use_cache=False).last_hidden_state
            torch.testing.assert_close(found[real], plain[real], rtol=0, atol=2e-5)


def test_statistics_are_those_of_the_map(tiny):
    report = inspect_model(tiny, IDS)
    maps = eager(tiny.base_model, input_ids=torch.from_numpy(IDS)[None]).attentions
    for layer, found in zip(report.layers, maps, strict=True):
        weights = found[0].double().numpy()
        logs = np.log(np.where(weights > 0, weights, 1.0))
        sink = 1 - weights.sum(-1)  # what a learned sink takes
        sink = np.where(sink > 1e-6, sink, 0.0)
        entropy = -(weights * logs).sum(-1) - sink * np.log(np.where(sink > 0, sink, 1.0))
        own = np.arange(len(IDS))
        wanted = {
            "entropy": entropy.mean(-1),
            "top_weight": weights.max(-1).mean(-1),
            "collision_keys": (1 / ((weights**2).sum(-1) + sink**2)).mean(-1),
            "first_weight": weights[:, :, 0].mean(-1),
            "self_weight": weights[:, own, own].mean(-1),
            "previous_weight": weights[:, own[1:], own[:-1]].sum(-1) / len(own),
        }
        for name, value in wanted.items():
            np.testing.assert_allclose(layer.statistics[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
        assert layer.weights is not None
        np.testing.assert_allclose(layer.weights, weights, atol=1e-5)
        assert np.isfinite([layer.statistics[name] for name in STATISTICS]).all()


def test_everything_is_put_back(tiny, monkeypatch):
    from transformers import AttentionInterface, AttentionMaskInterface

    def state():
        registered = (set(kind._global_mapping) for kind in (AttentionInterface, AttentionMaskInterface))
        hooks = sum(len(module._forward_hooks) for module in tiny.modules())
        return tiny.config._attn_implementation, *registered, hooks

    before = state()
    tiny.train()
    inspect_model(tiny, IDS)
    assert tiny.training
    assert all(module.training for module in tiny.modules())

    def broken(*_, **__):
        message = "in the middle"
        raise ArithmeticError(message)

    monkeypatch.setattr("headwise.inspect.engine.rows", broken)
    with pytest.raises(ArithmeticError):
        inspect_model(tiny, IDS)
    tiny.eval()
    assert state() == before


@pytest.mark.parametrize("together", ["padded", "packed"])
def test_texts_together_are_each_text_alone(tiny, together):
    texts = [IDS, IDS[:9], IDS[3:16]]
    report = inspect_model(tiny, texts, together=together)
    for number, text in enumerate(texts):
        alone = inspect_model(tiny, text)
        for layer, one in zip(report.layers, alone.layers, strict=True):
            for name, value in layer.per_text.items():
                np.testing.assert_allclose(value[:, number], one.per_text[name][:, 0], rtol=2e-4, atol=2e-5, err_msg=name)


def test_batches_of_one_are_the_same(tiny):
    texts = [IDS, IDS[:9], IDS[3:16]]
    whole, single = inspect_model(tiny, texts), inspect_model(tiny, texts, batch=1)
    for name in STATISTICS:
        np.testing.assert_allclose(whole.table(name), single.table(name), rtol=2e-4, atol=2e-5, err_msg=name)


def test_windows_count_every_token_once():
    tiny = tiny_models.llama()
    ids = np.random.default_rng(0).integers(4, 50, 100)
    report = inspect_model(tiny, ids, window=16)
    assert report.layers[0].rows == 100
    whole = inspect_model(tiny, ids)
    geometry = [found.layers[0].geometry["projected"][0] for found in (report, whole)]
    assert geometry[0].count == geometry[1].count == 100
    # The keys of the first layer depend on the token alone, whatever the window.
    np.testing.assert_allclose(geometry[0].mean, geometry[1].mean, atol=1e-6)
    assert geometry[0].tau == pytest.approx(geometry[1].tau, rel=1e-4)


def test_keys_are_taken_before_rotation_and_around_the_norm():
    tiny = tiny_models.gemma3()
    report = inspect_model(tiny, IDS)
    layer = tiny.layers[0]
    with torch.no_grad():
        hidden = tiny.embed_tokens(torch.from_numpy(IDS)[None])
        hidden = layer.input_layernorm(hidden)
        raw = layer.self_attn.k_proj(hidden).unflatten(-1, (2, 8))[0]
        normed = layer.self_attn.k_norm(raw)
    for place, keys in (("projected", raw), ("normed", normed)):
        for head in range(2):
            found, mine = report.layers[0].geometry[place][head], keys[:, head].double().numpy()
            lengths = np.linalg.norm(mine, axis=-1)
            covariance = np.cov(mine.T, bias=True)
            unit = mine.mean(0) / np.linalg.norm(mine.mean(0))
            along = unit @ covariance @ unit
            np.testing.assert_allclose(found.mean, mine.mean(0), atol=1e-6)
            assert found.length_variation == pytest.approx(lengths.std() / lengths.mean(), rel=1e-4, abs=1e-6)
            assert found.along == pytest.approx(along, rel=1e-4)
            assert found.across == pytest.approx((np.trace(covariance) - along) / 7, rel=1e-4)


def test_only_the_layers_asked_for():
    report = inspect_model(tiny_models.llama(), IDS, layers=[2, 0])
    assert [layer.number for layer in report.layers] == [0, 2]


def test_an_interrupt_leaves_the_layers_done(monkeypatch):
    from headwise.inspect import engine

    calls, real = [], engine.rows

    def interrupted(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(engine, "rows", interrupted)
    report = inspect_model(tiny_models.llama(), IDS)
    assert [layer.number for layer in report.layers] == [0, 1]
    assert not report.complete
    assert report.notes == ["stopped early: 2 of 3 layers have been looked at"]
    calls[:] = [None, None]
    with pytest.raises(KeyboardInterrupt):
        inspect_model(tiny_models.llama(), IDS)


def test_progress_is_told_by_layer_and_block():
    told = []
    inspect_model(tiny_models.llama(), IDS, progress=lambda *given: told.append(given))
    assert told == [(4 * 23, 4 * 23, f"layer {number} of 3") for number in (1, 2, 3)]


def test_sensitivity_is_that_of_noise_in_lengths():
    """Keys whose lengths wobble by 1e-3: the measured variance of contexts is what the sensitivity says."""
    from headwise.inspect.statistics import statistics

    rng = np.random.default_rng(0)
    queries, keys, values = rng.normal(size=(1, 3, 6)), rng.normal(size=(1, 12, 6)), rng.normal(size=(1, 12, 4))
    found = statistics(2 * queries, keys, values)
    draws = 4000
    noisy = keys * (1 + 1e-3 * rng.normal(size=(draws, 12, 1)))
    allowed = np.ones((1, 3, 12), dtype=bool)
    contexts = np.stack([naive(2 * queries, one[None], values, allowed, 6**-0.5)["contexts"] for one in noisy])
    measured = contexts.var(axis=0).sum(-1) / 1e-6
    np.testing.assert_allclose(found.sensitivity, measured, rtol=0.1)


def test_a_model_that_hides_its_attention():
    class Plain(torch.nn.Module):
        config = transformers.BertConfig()

    from headwise.inspect.capture import UnsupportedModelError

    with pytest.raises(UnsupportedModelError) as caught:
        inspect_model(Plain(), IDS)
    assert str(caught.value) == "model(): model must be a transformers model, but it is a Plain."


def test_windows_shorter_than_a_short_text_keep_no_words():
    """Weights of a part of a text are not shown as those of the whole."""
    report = inspect_model("demo", "The animal was too tired", window=4)
    assert report.words is None
    assert all(layer.weights is None for layer in report.layers)
    with pytest.raises(OptionError, match="read as a whole, but it is longer"):
        report.ties("animal", "tired")


@pytest.mark.parametrize("ids", [[101, 999_999, 102], [101, -1, 102]])
def test_tokens_that_the_model_does_not_have(ids):
    with pytest.raises(TextError, match=r"^model\(\): token ids must be the model's, 0 to 30521, but there is (999999|-1)\.$"):
        inspect_model("demo", [ids])


@pytest.mark.parametrize("calls", [1, 4, 9])
def test_a_run_that_is_stopped_says_how_far_it_came(calls):
    heard = []

    def stop(done, total, stage):
        if done == total:
            heard.append(stage)
        if len(heard) > calls:
            raise KeyboardInterrupt

    report = inspect_model("demo", " ".join(["word"] * 300), window=64, batch=1, progress=stop)
    assert not report.complete
    told = [layer.rows for layer in report.layers]
    assert 0 < max(told) < 302
    assert report.tokens == max(told)
    assert report.notes[0].startswith(f"stopped early: {len(told)} of 6 layers have been looked at, at ")
    assert report.notes[0].endswith("of 302 tokens")
