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


_DECODER = {
    "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 40, "max_position_embeddings": 64,
}  # fmt: skip
_ENCODER = {
    "vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 32,
    "max_position_embeddings": 64,
}  # fmt: skip


def roberta(family="Roberta"):
    """One of the models whose positions begin behind the padding token."""
    more = {"default_language": "en_XX", "languages": ["en_XX"]} if family == "Xmod" else {}
    return made(getattr(transformers, f"{family}Model"), getattr(transformers, f"{family}Config")(**_ENCODER, **more))


def albert():
    """A model whose layers share one attention module."""
    return made(transformers.AlbertModel, transformers.AlbertConfig(**_ENCODER, embedding_size=16))


def mobilebert():
    """A model that mixes neighbours in its embeddings."""
    sizes = {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}
    given = _ENCODER | {"hidden_size": 32, "num_attention_heads": 4}
    return made(transformers.MobileBertModel, transformers.MobileBertConfig(**given, **sizes))


def lfm2():
    """A model with attention in every other layer, convolutions between."""
    types = ["conv", "full_attention", "conv", "full_attention"]
    return made(transformers.Lfm2Model, transformers.Lfm2Config(**_DECODER | {"num_hidden_layers": 4}, layer_types=types))


def diffllama():
    """A model that attends twice in each layer."""
    return made(transformers.DiffLlamaModel, transformers.DiffLlamaConfig(**_DECODER))


def phi3():
    """Queries, keys and values in one projection, one behind the other."""
    return made(transformers.Phi3Model, transformers.Phi3Config(**_DECODER))


def gpt_neox():
    """Queries, keys and values in one projection, head by head; rotary positions on a part of each."""
    given = {name: size for name, size in _DECODER.items() if name != "num_key_value_heads"}
    return made(transformers.GPTNeoXModel, transformers.GPTNeoXConfig(**given))


def phi():
    """Rotary positions on a part of each key."""
    return made(transformers.PhiModel, transformers.PhiConfig(**_DECODER | {"num_key_value_heads": 4}))


def hunyuan():
    """A norm of keys behind rotary positions."""
    return made(transformers.HunYuanDenseV1Model, transformers.HunYuanDenseV1Config(**_DECODER, head_dim=8))


def doge():
    """A model that works on the mask by itself."""
    return made(transformers.DogeModel, transformers.DogeConfig(**_DECODER))


def deepseek():
    """Keys from two projections, one of them turned: they cannot be seen before rotary positions."""
    ranks = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 6}
    experts = {"n_routed_experts": 2, "num_experts_per_tok": 1, "n_group": 1, "topk_group": 1, "n_shared_experts": 1}
    given = _DECODER | {"num_key_value_heads": 4} | ranks | experts
    return made(transformers.DeepseekV3Model, transformers.DeepseekV3Config(**given, moe_intermediate_size=16))


def made(kind, config):
    """Build a model whose heads differ: weights larger than a fresh model has."""
    torch.manual_seed(5)
    config.pad_token_id = 0
    model = kind(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and any(part in name for part in ("q_proj", "k_proj", "query", "key", "c_attn", "qkv_proj")):
                parameter.mul_(12)
            if "sinks" in name:
                parameter.normal_()
    return model


def folder(place: Path) -> Path:
    """Write a BERT with a tokenizer of a few words."""
    place.mkdir(exist_ok=True)
    bert().save_pretrained(place)
    (place / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(str(place / "vocab.txt")).save_pretrained(place)
    return place
