"""Bad input to `inspect`, each with its sentence to the letter, in Python and on the command line."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
import transformers

from headwise import inspect

ONE = np.ones((2, 3, 4))
IDS = list(range(4, 14))
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
XLNET = {"vocab_size": 20, "d_model": 8, "n_layer": 1, "n_head": 2, "d_inner": 8}


class Plain(torch.nn.Module):
    """No model of transformers."""


CASES = {
    "width": (
        lambda: inspect.statistics(ONE, np.ones((2, 3, 5))),
        "statistics(): queries and keys must agree on axis d, but queries has d=4 and keys has d=5.",
    ),
    "axes": (
        lambda: inspect.statistics(ONE, np.ones((3, 4))),
        "statistics(): queries and keys must have equally many axes, but queries has 3 and keys has 2.",
    ),
    "rank": (
        lambda: inspect.statistics(np.ones(4), np.ones((3, 4))),
        "statistics(): queries must have shape (n, d), (h, n, d) or (b, h, n, d), but its shape is (4,).",
    ),
    "groups": (
        lambda: inspect.statistics(np.ones((3, 2, 4)), ONE),
        "statistics(): key heads must divide heads, but there are 2 key heads and 3 heads.",
    ),
    "batch": (
        lambda: inspect.statistics(np.ones((2, 1, 3, 4)), np.ones((3, 1, 3, 4))),
        "statistics(): queries and keys must agree on axis b, but queries has b=2 and keys has b=3.",
    ),
    "values": (
        lambda: inspect.statistics(ONE, ONE, np.ones((2, 5, 4))),
        "statistics(): keys and values must agree on axis k, but keys has k=3 and values has k=5.",
    ),
    "value heads": (
        lambda: inspect.statistics(ONE, ONE, np.ones((1, 3, 4))),
        "statistics(): keys and values must agree on all axes before the position, but they have (2,) and (1,).",
    ),
    "empty": (
        lambda: inspect.statistics(ONE, np.ones((2, 0, 4))),
        "statistics(): queries and keys must have at least one row and one column, but one of them is empty.",
    ),
    "sinks": (
        lambda: inspect.statistics(ONE, ONE, sinks=np.ones(3)),
        "statistics(): sinks must have one logit per head, shape (2,), but its shape is (3,).",
    ),
    "window": (
        lambda: inspect.statistics(ONE, ONE, window=0),
        "statistics(): window must be a whole number of at least 1, but got 0.",
    ),
    "softcap": (
        lambda: inspect.statistics(ONE, ONE, softcap=-1.0),
        "statistics(): softcap must be a finite number above 0, but got -1.0.",
    ),
    "scale": (
        lambda: inspect.statistics(ONE, ONE, scale=float("nan")),
        "statistics(): scale must be a finite number, but got nan.",
    ),
    "allowed": (
        lambda: inspect.statistics(ONE, ONE, allowed=np.ones((5, 3), dtype=bool)),
        "statistics(): allowed must broadcast to (b, h, q, k) = (1, 2, 3, 3), but its shape is (5, 3).",
    ),
    "segments shape": (
        lambda: inspect.statistics(ONE, ONE, segments=[0, 1]),
        "statistics(): segments must have shape (3,), but its shape is (2,).",
    ),
    "segments kind": (
        lambda: inspect.statistics(ONE, ONE, segments=[0.5, 1, 1]),
        "statistics(): segments must be whole numbers, but their dtype is float64.",
    ),
    "not finite": (
        lambda: inspect.statistics(ONE * np.nan, ONE),
        "statistics(): queries must be finite, but queries[0, 0, 0] is nan.",
    ),
    "overflow": (
        lambda: inspect.statistics(torch.full((1, 2, 4), 1e30), torch.full((1, 2, 4), 1e30)),
        "statistics(): scores must fit float32, but they are too large. Divide queries.",
    ),
    "no model": (
        lambda: inspect.model(Plain(), IDS),
        "model(): model must be a transformers model, but it is a Plain.",
    ),
    "no tokenizer": (
        lambda: inspect.model(tiny_models.bert(), "the animal"),
        "model(): text needs a tokenizer, but the model has none. Pass tokenizer=, or token ids as text.",
    ),
    "no text": (
        lambda: inspect.model(tiny_models.bert(), []),
        "model(): text must hold at least one text, but it is empty.",
    ),
    "empty text": (
        lambda: inspect.model(tiny_models.bert(), ["  ", "the"]),
        "model(): text 0 must not be empty, but it holds no word.",
    ),
    "no string": (
        lambda: inspect.model(tiny_models.bert(), 3.5),
        "model(): text must be a string or a list of token ids, but it is a float.",
    ),
    "too long": (
        lambda: inspect.model(tiny_models.bert(), IDS * 10),
        (
            "model(): text must have at most the model's 64 positions, but it has 100 tokens. Pass window=64 (--window 64) to "
            "slide over it."
        ),
    ),
    "wide window": (
        lambda: inspect.model(tiny_models.bert(), IDS * 10, window=100),
        "model(): window must be at most the model's 64 positions, but got 100.",
    ),
    "narrow window": (
        lambda: inspect.model(tiny_models.bert(), IDS * 10, window=1),
        "model(): window must be a whole number of at least 2, but got 1.",
    ),
    "layers": (
        lambda: inspect.model(tiny_models.bert(), IDS, layers=[2]),
        "model(): layers must be numbers of layers, 0 to 1, but got 2.",
    ),
    "together": (
        lambda: inspect.model(tiny_models.bert(), IDS, together="pack"),
        'model(): together must be "padded" or "packed", but got "pack". Did you mean "packed"?',
    ),
    "batch size": (
        lambda: inspect.model(tiny_models.bert(), IDS, batch=0),
        "model(): batch must be a whole number of at least 1, but got 0.",
    ),
    "device": (
        lambda: inspect.model(tiny_models.bert(), IDS, device="toaster"),
        "model(): device must be one that torch knows, such as cpu or cuda, but got 'toaster'.",
    ),
    "few occurrences": (
        lambda: inspect.predict(tiny_models.bert(), IDS, 5, 0, 0),
        "predict(): token must come at least 8 times, but '5' comes 1 times.",
    ),
    "no such head": (
        lambda: inspect.predict(tiny_models.bert(), IDS, 5, 0, 3),
        "predict(): head must be one of 0 to 2, but got 3.",
    ),
    "float layer": (
        lambda: inspect.model(tiny_models.bert(), IDS, layers=1.0),
        "model(): layers must be numbers of layers, 0 to 1, but got 1.0.",
    ),
    "no layers": (
        lambda: inspect.model(tiny_models.bert(), IDS, layers=[]),
        "model(): layers must be numbers of layers, 0 to 1, but got none.",
    ),
    "no model at all": (
        lambda: inspect.model(None, IDS),
        "model(): model must be a transformers model, but it is a NoneType.",
    ),
    "pictures": (
        lambda: inspect.model(transformers.ViTModel(transformers.ViTConfig(**SMALL, image_size=16, patch_size=8)), IDS),
        "model(): model must read token ids, but ViTModel takes none.",
    ),
    "pictures and words": (
        lambda: inspect.model(transformers.CLIPModel(transformers.CLIPConfig(text_config=SMALL, vision_config=SMALL)), [4, 5]),
        "model(): model must run on token ids alone, but CLIPModel says: 'NoneType' object has no attribute 'shape'.",
    ),
    "masks of its own": (
        lambda: inspect.model(tiny_models.doge(), IDS),
        "model(): masks must be left to the attention function, but DogeModel changes them.",
    ),
    "thresholds": (
        lambda: inspect.model(tiny_models.bert(), IDS, thresholds={}),
        "model(): thresholds must be Thresholds(...), but it is a dict.",
    ),
    "limit": (
        lambda: inspect.Thresholds(first=-1.0),
        "Thresholds(): first must be a number from 0 on, but got -1.0.",
    ),
    "no token": (
        lambda: inspect.model(tiny_models.bert(), np.array([], dtype=int)),
        "model(): text must hold at least one token, but it is empty.",
    ),
    "one empty": (
        lambda: inspect.model(tiny_models.bert(), [[], [4, 5]]),
        "model(): text 0 must hold at least one token, but it is empty.",
    ),
    "bytes": (
        lambda: inspect.model(tiny_models.bert(), b"the"),
        "model(): text must be a string or a list of token ids, but it is a bytes.",
    ),
    "no positions": (
        lambda: inspect.model(transformers.XLNetModel(transformers.XLNetConfig(**XLNET)), IDS),
        (
            "model(): attention must go through transformers' AttentionInterface, but XLNetModel computes it by itself. Use a "
            "model of transformers that has an attn_implementation to choose."
        ),
    ),
    "words that are none": (
        lambda: inspect.model("demo", "the animal").ties(None, "animal"),
        "ties(): query must be a word, but it is a NoneType.",
    ),
    "head that is no number": (
        lambda: inspect.predict(tiny_models.bert(), IDS, 5, 0, "1"),
        "predict(): head must be a number from 0 on, but got '1'.",
    ),
    "no such layer": (
        lambda: inspect.predict(tiny_models.bert(), IDS, 5, 7, 0),
        "predict(): layers must be numbers of layers that attend (0, 1), but got 7.",
    ),
    "tokens to predict": (
        lambda: inspect.predict(tiny_models.bert(), [[999] * 9], 5, 0, 0),
        "predict(): token ids must be the model's, 0 to 13, but there is 999.",
    ),
    "large values": (
        lambda: inspect.statistics(*[torch.eye(3)] * 2, torch.eye(3) * 1e30),
        "statistics(): sensitivity must fit float32, but values are too large. Divide values.",
    ),
    "large squares": (
        lambda: inspect.statistics(torch.full((1, 2, 4), 1e12), torch.full((1, 2, 4), 1e10)),
        "statistics(): scores must fit float32, but they are too large. Divide queries.",
    ),
    "far too negative": (
        lambda: inspect.statistics(torch.full((1, 2, 4), 1e30), torch.full((1, 2, 4), -1e30)),
        "statistics(): scores must fit float32, but they are too large. Divide queries.",
    ),
    "capped scores": (
        lambda: inspect.predict(tiny_models.gemma2(), IDS, 5, 0, 0),
        "predict(): scores must be products of queries and keys, but this layer caps them.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sentence(name):
    call, sentence = CASES[name]
    with pytest.raises((ValueError, TypeError, OverflowError)) as caught:
        call()
    assert str(caught.value) == sentence


def test_no_graphics_card(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device cuda") as caught:
        inspect.model(tiny_models.bert(), IDS, device="cuda")
    assert str(caught.value) == (
        "model(): device cuda must be there, but torch finds none. Leave device out to run on the CPU."
    )


def test_hidden_attention(monkeypatch):
    tiny = tiny_models.bert()
    monkeypatch.setattr(type(tiny), "_can_set_attn_implementation", classmethod(lambda _: False))
    with pytest.raises(ValueError, match="AttentionInterface") as caught:
        inspect.model(tiny, IDS)
    assert str(caught.value) == (
        "model(): attention must go through transformers' AttentionInterface, but BertModel computes it by itself. Use a model "
        "of transformers that has an attn_implementation to choose."
    )


def test_encoder_and_decoder():
    sizes = {
        "vocab_size": 20,
        "d_model": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 8,
        "decoder_ffn_dim": 8,
    }
    tiny = transformers.BartModel(transformers.BartConfig(**sizes, encoder_attention_heads=2, decoder_attention_heads=2))
    with pytest.raises(ValueError, match="both") as caught:
        inspect.model(tiny, IDS)
    assert (
        str(caught.value) == "model(): model must be an encoder or a decoder, but BartModel is both. Pass model.get_encoder()."
    )
    assert inspect.model(tiny.get_encoder(), IDS).tokens == 10


def test_memory_runs_out_in_the_model(monkeypatch):
    tiny = tiny_models.bert()

    def short(*_, **__):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(tiny.encoder, "forward", short)
    with pytest.raises(MemoryError) as caught:
        inspect.model(tiny, IDS)
    assert str(caught.value) == (
        "model(): the model must fit in memory with its longest text, but 10 tokens do not. Pass a smaller batch=, or window= "
        "to slide over the text."
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.folder(tmp_path_factory.mktemp("tiny"))


def run(*words):
    command = [str(Path(sys.executable).with_name("headwise")), "inspect", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def broken_folders(place):
    """Return a folder without a tokenizer, one whose weights cannot be read, and one whose weights would run code."""
    wordless, broken, pickled = (tiny_models.folder(place / name) for name in ("wordless", "broken", "pickled"))
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (wordless / name).unlink()
    (broken / "model.safetensors").write_bytes(b"xxxx")
    (pickled / "model.safetensors").unlink()
    (pickled / "pytorch_model.bin").write_bytes(pickle.dumps(Path("x")))
    return wordless, broken, pickled


def test_on_the_command_line(folder, tmp_path):
    """Every mistake is one sentence, a hint, exit status 2 and no traceback."""
    text, empty, odd = tmp_path / "text.txt", tmp_path / "empty.txt", tmp_path / "odd.txt"
    text.write_text("the animal did not cross the street")
    empty.write_text("\n")
    odd.write_bytes(b"\xff\xfe\x00the")
    bare = tmp_path / "bare"
    bare.mkdir()
    long = tmp_path / "long.txt"
    long.write_text("the animal " * 200)
    wordless, broken, _ = broken_folders(tmp_path)
    code = tmp_path / "code"
    code.mkdir()
    (code / "config.json").write_text(json.dumps({"auto_map": {"AutoModel": "evil.Model"}, "model_type": "evil"}))
    (code / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    cases = [
        ((bare, "--text", text), f"error: {bare}: a model folder must hold config.json, but it does not.\n"),
        ((text, "--text", text), f"error: {text}: a model must be a folder, but this is a file.\n"),
        (
            (code, "--text", text),
            (
                f"error: {code}: a model must need no code of its own, but this one brings some, which is not run.\n"
                "hint: If you trust it, pass trust_remote_code=True (--trust-remote-code).\n"
            ),
        ),
        (
            (wordless, "--text", text),
            (
                "error: model(): text needs a tokenizer, but the model has none.\n"
                "hint: Put its files, such as tokenizer.json, into the folder.\n"
            ),
        ),
        (
            (broken, "--text", text),
            (
                f"error: {broken}: a model must be one that transformers can load, but it says: Error while deserializing "
                "header: header too small.\n"
            ),
        ),
        (
            (folder, "--text", long),
            (
                "error: model(): text must have at most the model's 64 positions, but it has 402 tokens.\n"
                "hint: Pass window=64 (--window 64) to slide over it.\n"
            ),
        ),
        (
            (folder, "--text", text, "--layers", ","),
            "error: model(): layers must be numbers of layers, 0 to 1, but got none.\n",
        ),
        ((folder, "--text", empty), "error: model(): text must not be empty, but it holds no word.\n"),
        ((folder, "--text", odd), f"error: {odd}: a text must be UTF-8, but this file is not.\n"),
        (
            (folder,),
            "error: a text is needed, but --text is missing.\nhint: Write --text FILE, or --text - to read from stdin.\n",
        ),
        ((folder, "--text", text, "--html", "x.txt"), "error: --html must end in .html, but got 'x.txt'.\n"),
        (
            (folder, "--text", text, "--ties", "it"),
            "error: --ties must be two words with a colon between, but got 'it'.\nhint: Write for example it:animal.\n",
        ),
    ]
    for words, sentence in cases:
        result = run(*words)
        assert (result.returncode, result.stdout, result.stderr) == (2, "", sentence)
    assert not (tmp_path / "ran").exists()


def test_pickles_are_not_run(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the animal")
    _, _, pickled = broken_folders(tmp_path)
    result = run(pickled, "--text", text)
    assert (result.returncode, result.stdout) == (2, "")
    said = f"error: {pickled}: a model must be one that transformers can load, but it says: Weights only load failed.\n"
    assert result.stderr.endswith(said)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("kind", ["roberta", "gpt2", "gemma3"])
def test_no_tokenizer_is_made_up(kind, tmp_path):
    """transformers invents an empty tokenizer for a folder without one."""
    getattr(tiny_models, kind)().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="tokenizer") as caught:
        inspect.model(tmp_path, "the animal")
    assert str(caught.value) == (
        "model(): text needs a tokenizer, but the model has none. Put its files, such as tokenizer.json, into the folder."
    )
    assert inspect.model(tmp_path, IDS).words is None


def test_ties_that_are_none_lose_nothing(folder, tmp_path):
    """Files are written and the report is printed before the words are looked for; the demo's own words may be missing."""
    text, page = tmp_path / "text.txt", tmp_path / "heads.html"
    text.write_text("the animal was tired")
    result = run(folder, "--text", text, "--ties", "it:animal", "--html", page)
    assert result.returncode == 2
    assert result.stdout.startswith("Heads of ")
    assert page.is_file()
    assert result.stderr == (
        f"wrote {page}\nerror: ties(): query must be a token of the text, but 'it' is none of its 6 tokens.\n"
    )
    result = run("demo", "--window", "8", "--json")
    assert result.returncode == 0
    assert "ties" not in json.loads(result.stdout)
    assert result.stderr == (
        "note: ties of it:animal are left out: ties(): words are known for a first text of at most 64 tokens, read as a "
        "whole, but it is longer or has no words.\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_ctrl_c_on_the_command_line(tmp_path):
    """What is done is printed and written, and the status says that it was stopped."""
    text, page = tmp_path / "text.txt", tmp_path / "heads.html"
    text.write_text("The animal was too tired to cross the street. " * 20_000)
    script = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from headwise.inspect import engine\n"
        "real, calls = engine.rows, []\n"
        "def rows(*given):\n"
        "    calls.append(1)\n"
        "    if len(calls) == 9: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(*given)\n"
        "engine.rows = rows\n"
        "from headwise.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", script, "inspect", "demo", "--text", str(text), "--window", "64", "--html", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert "stopped early: 6 of 6 layers have been looked at" in done.stdout
    assert page.is_file()
    assert "Traceback" not in done.stderr


def test_a_folder_on_the_command_line(folder, tmp_path):
    text, page, table = tmp_path / "text.txt", tmp_path / "heads.html", tmp_path / "heads.csv"
    text.write_text("the animal did not cross the street it was too tired")
    result = run(folder, "--text", text, "--ties", "it:animal", "--html", page, "--out", table, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [len(layer["heads"]) for layer in found["layers"]] == [3, 3]
    assert found["ties"]["key"] == "animal"
    assert len(table.read_text().splitlines()) == 7
    assert page.read_text().startswith("<!doctype html>")
