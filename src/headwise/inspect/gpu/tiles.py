"""One tile of scores inside a GPU program: where it lies, what it holds, and the running maxima of its rows.

A thread of a matrix product on Hopper holds, of one row, the columns {2r, 2r + 1} + 8 i for one r of 0..3. All running
numbers are kept for each (row, r), four to a row, and meet only at the end: no thread waits for another inside the loop.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
# The raw score of a key that may not be looked at: finite, so that 0 times it is 0, and far below where maxima start.
HIDDEN = tl.constexpr(-2e15)
LOWEST = tl.constexpr(-1e15)
FAR = tl.constexpr(1 << 30)


@triton.jit
def lanes(x, BM: tl.constexpr, BN: tl.constexpr):
    """[BM, BN] as [BM, 4, BN / 4], the last axis within one thread."""
    x = tl.reshape(x, [BM, BN // 8, 4, 2])
    return tl.reshape(tl.permute(x, [0, 2, 1, 3]), [BM, 4, BN // 4])


@triton.jit
def halves(x, BM: tl.constexpr, BN: tl.constexpr):
    """[BM, BN] as two [BM, BN / 2], left and right."""
    return tl.split(tl.permute(tl.reshape(x, [BM, 2, BN // 2]), (0, 2, 1)))


@triton.jit
def joined(left, right, BM: tl.constexpr, BN: tl.constexpr):
    """Undo `halves`."""
    return tl.reshape(tl.permute(tl.join(left, right), (0, 2, 1)), [BM, BN])


@triton.jit
def placed():
    """Return batch entry and head in one, and a tile of rows.

    Programs start in the order of their first number, then the second: heads whose keys fit the cache run together, long rows
    first.
    """
    return tl.program_id(2) * tl.num_programs(0) + tl.program_id(0), tl.num_programs(1) - 1 - tl.program_id(1)


@triton.jit
def ranged(first, last, BN: tl.constexpr):
    """Return how blocks of keys lie in the rows' ranges: those that limits cross as `crossed` takes them, and whole ones.

    Where limits cross none, the first whole one counts as crossed.
    """
    sees = last > first
    # Four maxima found as one: rows wait for each other once.
    firsts = tl.join(tl.where(sees, first, 0), tl.where(sees, -first, -FAR))
    lasts = tl.join(tl.where(sees, last, 0), tl.where(sees, -last, -FAR))
    of_firsts, of_lasts = tl.split(tl.max(tl.join(firsts, lasts), 0))
    latest, earliest = tl.split(of_firsts)
    stop, end = tl.split(of_lasts)
    start = -earliest // BN * BN
    stop = tl.cdiv(stop, BN) * BN
    whole = tl.cdiv(latest, BN) * BN
    end = -end // BN * BN
    none = end <= tl.maximum(whole, start)  # so too where no row sees a key: `start` is far then, and `stop` is 0
    whole = tl.where(none, stop, whole)
    end = tl.where(none, stop, end)
    whole += tl.where((start == whole) & (end == stop) & (start < stop), BN, 0)
    before = tl.maximum(whole - start, 0) // BN
    return (start, before, end, before + tl.maximum(stop - end, 0) // BN), whole, end


@triton.jit
def crossed(places, i, BN: tl.constexpr):
    """Return the first key of the i-th block that limits cross: `before` of them from `start`, the others from `end`."""
    start, before, end, _ = places
    return tl.where(i < before, start + i * BN, end + (i - before) * BN)


@triton.jit
def scored(q, keys, entry, head, start, cap, D: tl.constexpr, BN: tl.constexpr, CAP: tl.constexpr,
           PRECISION: tl.constexpr):  # fmt: skip
    """Raw scores of a block of keys, and how fast each grows with the length of its key (the score itself without a cap)."""
    k = tl.reshape(keys.load([entry, head, start, 0]), [BN, D])
    t = tl.dot(q, k.T, input_precision=PRECISION)
    grows = t
    if CAP:
        # With e = e^-2|x|, tanh|x| = (1 - e) / (1 + e), and 1 - tanh(x)^2 = 4 e / (1 + e)^2: nothing cancels where caps bite.
        e = tl.exp2(tl.abs(t) * (-2.0 * LOG2E / cap))
        y = 1.0 / (1.0 + e)
        grows = t * 4.0 * e * y * y
        t = tl.where(t < 0, -cap, cap) * (1.0 - e) * y
    return t, grows


@triton.jit
def hidden(t, grows, start, first, last, BN: tl.constexpr, CAP: tl.constexpr):
    """Hide the keys of a block that rows may not look at."""
    columns = start + tl.arange(0, BN)
    seen = (columns[None, :] >= first[:, None]) & (columns[None, :] < last[:, None])
    t = tl.where(seen, t, HIDDEN)
    grows = tl.where(seen, grows, 0.0) if CAP else t
    return t, grows


@triton.jit
def _halved(x, at, second, BM: tl.constexpr, C: tl.constexpr):
    """Let neighbours meet: the larger go on with their places, the best of the smaller is remembered."""
    a, b = tl.split(tl.reshape(x, [BM, 4, C // 2, 2]))
    i, j = tl.split(tl.reshape(at, [BM, 4, C // 2, 2]))
    return tl.maximum(a, b), tl.where(b > a, j, i), tl.maximum(second, tl.max(tl.minimum(a, b), 2))


@triton.jit
def peaked(x, start, top, second, chunk, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr):
    """Update maxima of chunks of CHUNK keys of a lane: the largest, the second largest, and the number of the best chunk."""
    C: tl.constexpr = BN // 4 // CHUNK
    left = tl.max(tl.reshape(x, [BM, 4, C, CHUNK]), 3)
    at = tl.broadcast_to(tl.arange(0, C)[None, None, :], [BM, 4, C])
    if C >= 16:
        left, at, second = _halved(left, at, second, BM, 16)
    if C >= 8:
        left, at, second = _halved(left, at, second, BM, 8)
    if C >= 4:
        left, at, second = _halved(left, at, second, BM, 4)
    if C >= 2:
        left, at, second = _halved(left, at, second, BM, 2)
    best = tl.reshape(left, [BM, 4])
    second = tl.maximum(second, tl.minimum(top, best))
    chunk = tl.where(best > top, start // (4 * CHUNK) + tl.reshape(at, [BM, 4]), chunk)
    return tl.maximum(top, best), second, chunk


@triton.jit
def met(top, second, chunk):
    """Four lanes as one row: the maximum, the second largest maximum of a chunk, and which chunk of which lane is best."""
    most = tl.max(top, 1)
    lane = tl.arange(0, 4)[None, :]
    winner = tl.min(tl.where(top == most[:, None], lane, 4), 1)
    other = tl.max(tl.where(lane == winner[:, None], second, top), 1)
    return most, other, tl.sum(tl.where(lane == winner[:, None], chunk, 0), 1) * 4 + winner


@triton.jit
def summed_up(OUT, CODE, o, step, live, sees, most, ref, other, code, l, e, p2, g, scale, sink, SINK: tl.constexpr):
    """Store top score, log normalizer, entropy, purity, gain and second score; sums are relative to `ref`, in raw units.

    Returns the weight of a key whose score is `ref`, and 0 for rows that see nothing.
    """
    high = ref * scale
    own = 0.0
    lower = 1.0
    total = l
    mean = e / l * scale
    empty = float("-inf")
    if SINK:
        raised = tl.maximum(high, sink)
        lower = tl.exp(high - raised)
        own = tl.exp(sink - raised)
        total = l * lower + own
        mean = (lower * e * scale + own * sink) / total
        high = raised
        empty = sink
    share = tl.where(sees, lower / total, 0.0)
    own = tl.where(sees, own / total, 0.0)
    tl.store(OUT + o, tl.where(sees, most * scale, 0.0), mask=live)
    tl.store(OUT + step + o, tl.where(sees, high + tl.log(total), empty), mask=live)
    entropy = tl.log(total) + (high - mean)
    tl.store(OUT + 2 * step + o, tl.where(sees & ~(entropy < 0), entropy, 0.0), mask=live)
    tl.store(OUT + 3 * step + o, tl.where(sees, p2 * share * share + own * own, 0.0), mask=live)
    tl.store(OUT + 4 * step + o, tl.where(sees, g * share * share * (scale * scale), 0.0), mask=live)
    tl.store(OUT + 5 * step + o, other * scale, mask=live)
    tl.store(CODE + o, code, mask=live)
    return share
