"""Statistics of heads on a GPU: time against the attention that torch runs there, errors against a float64 map, memory."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from array_api_compat import torch as xp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from headwise.core.masks import Table
from headwise.inspect import blocks
from headwise.inspect.rules import Spans
from headwise.inspect.task import Rows, Task

HEADS, WIDTH = 32, 128
GOALS = {"statistics": (0.80, 0.75, 0.70), "with context": (1.30,) * 3, "context and sensitivity": (1.90,) * 3}
CASES = [
    *((torch.bfloat16, width) for width in (32, 64, 80, 128, 256)),
    *((torch.float16, width) for width in (64, 128, 256)),
    *((torch.float32, width) for width in (64, 256)),
]
LENGTHS = (8192, 32768, 131072)


def made(
    heads: int, groups: int, count: int, width: int, dtype: torch.dtype = torch.bfloat16, keys: int = 0
) -> list[torch.Tensor]:
    sizes = ((heads, count), (groups, keys or count), (groups, keys or count))
    return [torch.randn(1, some, rows, width, device="cuda", dtype=torch.float32).to(dtype) for some, rows in sizes]


def spans(queries: torch.Tensor, keys: torch.Tensor, **given: Any) -> Spans:  # noqa: ANN401  as Spans takes them
    return Spans(torch, xp, queries.device, queries.shape[2], keys.shape[2], **given)


def cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        scaled_dot_product_attention(q, k, v, is_causal=True)


def milliseconds(works: dict[str, Callable[[], object]], seconds: float = 0.4) -> dict[str, float]:
    """Return the median time of each, called over and over so that the power limit has settled; all of them twice, in turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(2):
        for name, work in works.items():
            work()
            torch.cuda.synchronize()
            begun, found = time.perf_counter(), []
            while time.perf_counter() - begun < seconds:
                pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(8)]
                for start, end in pairs:
                    start.record()
                    work()
                    end.record()
                torch.cuda.synchronize()
                found += [start.elapsed_time(end) for start, end in pairs]
            times[name].append(statistics.median(found[len(found) // 4 :]))
    return {name: statistics.mean(found) for name, found in times.items()}


def speed() -> None:
    from headwise.inspect.gpu import launch

    for place, count in enumerate(LENGTHS):
        q, k, v = made(HEADS, HEADS, count, WIDTH)
        rule = spans(q, k, causal=True)
        tasks = {
            "statistics": Task(torch, q, k, None, rule, WIDTH**-0.5),
            "with context": Task(torch, q, k, v, rule, WIDTH**-0.5, sensitivity=False),
            "context and sensitivity": Task(torch, q, k, v, rule, WIDTH**-0.5),
        }
        works = {"cuDNN": lambda q=q, k=k, v=v: cudnn(q, k, v)} | {
            name: lambda task=task: launch.rows(task) for name, task in tasks.items()
        }
        times = milliseconds(works)
        for name, goals in GOALS.items():
            ratio, goal = times[name] / times["cuDNN"], goals[place]
            line = f"{count:>7} tokens, {name:<24} {times[name]:>9.3f} ms; cuDNN {times['cuDNN']:>8.3f} ms  ratio {ratio:.3f}"
            print(f"{line}  goal <= {goal}  {'met' if ratio <= goal else 'MISSED'}", flush=True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        found = launch.rows(tasks["statistics"])
        held, most = torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before
        rows = HEADS * count
        line = f"{count:>7} tokens, memory of the statistics {held / rows:.1f} bytes a row, at most {most / rows:.1f}"
        print(f"{line}  goal <= 48  {'met' if most / rows <= 48 else 'MISSED'}", flush=True)
        del found, tasks, works


def against_the_map() -> None:
    """At 8192 tokens the whole map still fits: how long and how large it is."""
    from headwise.inspect.gpu import launch

    q, k, _ = made(HEADS, HEADS, 8192, WIDTH)
    task = Task(torch, q, k, None, spans(q, k, causal=True), WIDTH**-0.5)
    hidden = torch.ones(8192, 8192, dtype=torch.bool, device="cuda").triu(1)

    def eager() -> object:
        scores = (q @ k.transpose(-1, -2)).float().mul_(WIDTH**-0.5).masked_fill_(hidden, -torch.inf)
        lse, top = scores.logsumexp(-1), scores.topk(2)
        weights = torch.exp(scores - lse[..., None])
        moved = torch.where(hidden, 0.0, scores).mul_(weights)
        return lse, top, lse - moved.sum(-1), weights.square().sum(-1), moved.square_().sum(-1), weights[..., 0]

    times = milliseconds({"map": eager, "ours": lambda: launch.rows(task)})
    sizes = {}
    for name, work in (("map", eager), ("ours", lambda: launch.rows(task))):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        sizes[name] = torch.cuda.max_memory_allocated() - before
    for name, found, goal in (("faster", times["map"] / times["ours"], 100), ("smaller", sizes["map"] / sizes["ours"], 300)):
        verdict = "met" if found >= goal else "MISSED"
        print(f"   8192 tokens, than building the map: {found:.0f} times {name}  goal >= {goal}  {verdict}")


def differences(found: Rows, wanted: Rows, worst: dict[str, float]) -> None:
    for name in Rows.__dataclass_fields__:
        mine, theirs = getattr(found, name), getattr(wanted, name)
        if theirs is None:
            continue
        if name == "top_index":
            # Rows whose two best keys are nearly equal may differ.
            clear = wanted.top_score - wanted.second_score > 1e-4
            worst[name] = max(worst.get(name, 0), int(((mine != theirs) & clear).sum()))
            continue
        off = (mine.double() - theirs).abs()
        off[(mine == theirs) | (torch.isinf(mine) & torch.isinf(theirs))] = 0
        if name == "sensitivity":
            # Relative, above a floor: one percent of the median.
            off = off / theirs.clamp(min=0.01 * float(theirs.median()) + 1e-9)
        elif name == "gain":
            off = off / (1 + theirs)
        worst[name] = max(worst.get(name, 0.0), float(off.max()))


def errors() -> None:
    """Every feature against float64 blocks on the same rounded inputs."""
    from headwise.inspect.gpu import launch

    some: list[dict[str, Any]] = [
        {}, {"causal": False}, {"window": 100}, {"causal": False, "window": 77}, {"pad": True}, {"segments": True},
        {"softcap": 5.0}, {"sinks": True}, {"keys": 1021}, {"groups": 2},
    ]  # fmt: skip
    for dtype, width in CASES:
        worst: dict[str, float] = {}
        # Programs for wide heads in single precision take half a minute each to compile.
        for given in some[: 2 if dtype == torch.float32 and width == 256 else None]:
            heads, groups, count = 4, given.get("groups", 4), 700
            q, k, v = made(heads, groups, count, width, dtype, given.get("keys", 0))
            keys = k.shape[2]
            table = torch.zeros(1, 1, 1, keys, dtype=torch.bool, device="cuda")
            table[..., 13:650] = True
            labels = torch.arange(keys, device="cuda")[None] // 250
            rule = spans(
                q, k, causal=given.get("causal", True), window=given.get("window"),
                table=Table(table) if "pad" in given else None, segments=labels if "segments" in given else None,
            )  # fmt: skip
            sinks = torch.randn(heads, device="cuda") if "sinks" in given else None
            for values, noise in ((None, False), (v, False), (v, True)):
                rest = (rule, width**-0.5, given.get("softcap"), sinks)
                found = launch.rows(Task(torch, q, k, values, *rest, sensitivity=noise))
                assert found is not None
                exact = [None if one is None else one.double() for one in (q, k, values)]
                differences(found, blocks.rows(Task(torch, *exact, *rest, sensitivity=noise)), worst)
        shown = ", ".join(f"{name} {size:.1e}" for name, size in worst.items())
        print(f"{str(dtype).removeprefix('torch.'):>8} x {width:<3}: {shown}", flush=True)


def main() -> None:
    if not torch.cuda.is_available():
        print("this needs a GPU; the figures of one H200 are in docs/inspect.md")
        return
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {HEADS} heads x {WIDTH}, bf16, causal")
    errors()
    speed()
    against_the_map()
