"""In float32 and bfloat16 the answer is at most twice as far from the truth as the naive one."""

import pytest
import torch

import headwise as hw


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.5, 3.0])
@pytest.mark.parametrize("causal", [False, True])
def test_at_most_twice_the_naive_error(dtype, size, causal):
    generator = torch.Generator().manual_seed(5)
    queries, keys, values = (size * torch.randn(3, 129, 32, generator=generator, dtype=torch.float64) for _ in range(3))
    queries, keys, values = (array.to(dtype) for array in (queries, keys, values))
    mask = hw.causal(129, 129) if causal else None

    def softmax(kind):
        scores = queries.to(kind) @ keys.to(kind).mT * 32**-0.5
        if mask is not None:
            scores = scores.masked_fill(~torch.as_tensor(mask.table()), -torch.inf)
        return torch.softmax(scores, dim=-1)

    exact = softmax(torch.float64)
    naive = softmax(dtype)
    out = hw.attend(queries, keys, values, scale=32**-0.5, allowed=mask)
    errors = {
        "weights": (out.weights - exact, naive - exact),
        "contexts": (out.contexts - exact @ values.double(), naive @ values - exact @ values.double()),
        "entropy": (
            out.entropy + torch.xlogy(exact, exact).sum(-1),
            torch.xlogy(naive, naive).sum(-1) - torch.xlogy(exact, exact).sum(-1),
        ),
    }
    for name, (ours, theirs) in errors.items():
        assert ours.abs().max() <= 2 * theirs.abs().max(), name
