"""Small models with random weights, built from a configuration: nothing is downloaded."""

from pathlib import Path

import torch
import transformers

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "animal", "street", "it", "was", "tired", "cross", "did", "not", "too"]


def bert(**given):
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=32,
        max_position_embeddings=64, **given,
    )  # fmt: skip
    return made(transformers.BertModel, config)


def llama(**given):
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=40, max_position_embeddings=256, **given,
    )  # fmt: skip
    return made(transformers.LlamaForCausalLM, config)


def gemma2():
    config = transformers.Gemma2Config(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=40, sliding_window=6, attn_logit_softcapping=3.0, query_pre_attn_scalar=8,
    )  # fmt: skip
    return made(transformers.Gemma2Model, config)


def gemma3():
    config = transformers.Gemma3TextConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=40, sliding_window=6, query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    return made(transformers.Gemma3TextModel, config)


def gpt2():
    config = transformers.GPT2Config(vocab_size=50, n_embd=24, n_layer=2, n_head=3, n_positions=64)
    return made(transformers.GPT2Model, config)


def gpt_oss():
    config = transformers.GptOssConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=16, num_local_experts=2, num_experts_per_tok=1, sliding_window=6, max_position_embeddings=64,
        layer_types=["sliding_attention", "full_attention"], rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    )  # fmt: skip
    return made(transformers.GptOssModel, config)


def made(kind, config):
    """Build a model whose heads differ: weights larger than a fresh model has."""
    torch.manual_seed(5)
    config.pad_token_id = 0
    model = kind(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and (
                "q_proj" in name or "k_proj" in name or "query" in name or "key" in name or "c_attn" in name
            ):
                parameter.mul_(12)
            if "sinks" in name:
                parameter.normal_()
    return model


def folder(place: Path) -> Path:
    """Write a BERT with a tokenizer of a few words."""
    bert().save_pretrained(place)
    (place / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(str(place / "vocab.txt")).save_pretrained(place)
    return place
