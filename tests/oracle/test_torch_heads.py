"""`MultiHeadAttention.from_torch` against the module itself."""

import itertools

import pytest
import torch

import headwise as hw

OPTIONS = [
    dict(zip(("bias", "add_bias_kv", "add_zero_attn", "separate"), flags, strict=True))
    for flags in itertools.product((False, True), repeat=4)
]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("masks", ["none", "causal", "padding", "both"])
@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda options: "-".join(name for name, on in options.items() if on) or "plain"
)
def test_outputs_and_weights(options, masks, dtype, tolerance):
    torch.manual_seed(11)
    options = dict(options)
    sizes = {"kdim": 10, "vdim": 14} if options.pop("separate") else {}
    module = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=dtype, **options, **sizes).eval()
    for parameter in module.parameters():  # torch starts biases at zero
        torch.nn.init.normal_(parameter, std=0.4)
    queries = torch.randn(2, 5, 12, dtype=dtype)
    keys = torch.randn(2, 5, sizes.get("kdim", 12), dtype=dtype)
    values = torch.randn(2, 5, sizes.get("vdim", 12), dtype=dtype)
    hidden = torch.tensor([[False] * 5, [False, False, False, True, True]])
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    allowed = None
    if masks in ("causal", "both"):
        allowed = causal
    if masks in ("padding", "both"):
        shown = ~hidden[:, None, None, :]
        allowed = shown if allowed is None else shown & allowed
    with torch.no_grad():
        output, weights = module(
            queries,
            keys,
            values,
            attn_mask=~causal if masks in ("causal", "both") else None,
            key_padding_mask=hidden if masks in ("padding", "both") else None,
            average_attn_weights=False,
        )
    out = hw.MultiHeadAttention.from_torch(module)(queries, keys, values, allowed=allowed)
    torch.testing.assert_close(out.contexts, output, rtol=0, atol=tolerance)
    torch.testing.assert_close(out.weights, weights, rtol=0, atol=tolerance)
    torch.testing.assert_close(out.mean_weights, weights.mean(dim=1), rtol=0, atol=tolerance)


def test_a_lazy_causal_mask_will_do_too():
    module = torch.nn.MultiheadAttention(12, 3, batch_first=True, add_zero_attn=True, dtype=torch.float64).eval()
    tokens = torch.randn(2, 5, 12, dtype=torch.float64)
    with torch.no_grad():
        output, _ = module(tokens, tokens, tokens, attn_mask=~torch.ones(5, 5, dtype=torch.bool).tril())
    out = hw.MultiHeadAttention.from_torch(module)(tokens, allowed=hw.causal(5, 5))
    torch.testing.assert_close(out.contexts, output, rtol=0, atol=1e-12)


@pytest.mark.parametrize("align", ["start", "end"])
def test_contexts_by_the_fused_kernel_equal_the_streamed_ones(align):
    generator = torch.Generator().manual_seed(2)
    queries, keys, values = (torch.randn(2, 3, n, 8, generator=generator, dtype=torch.float64) for n in (5, 7, 7))
    mask = hw.causal(5, 7, align=align)
    fused = hw.attend(queries, keys, values, allowed=mask).contexts
    streamed = hw.attend(queries.numpy(), keys.numpy(), values.numpy(), allowed=mask).contexts
    torch.testing.assert_close(fused, torch.as_tensor(streamed), rtol=1e-12, atol=1e-14)
