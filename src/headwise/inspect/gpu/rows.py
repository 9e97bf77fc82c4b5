"""GPU programs for the statistics that need no values, and for single keys."""

import triton
import triton.language as tl

from headwise.inspect.gpu.tiles import (
    LOG2E,
    LOWEST,
    crossed,
    hidden,
    lanes,
    met,
    peaked,
    placed,
    ranged,
    scored,
    summed_up,
)


@triton.jit
def _taken(t, grows, start, top, second, chunk, l, e, p2, g, qs, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr,
           CAP: tl.constexpr):  # fmt: skip
    """Take a tile into the running sums, all of shape [BM, 4] and relative to the maximum of their lane."""
    x = lanes(t, BM, BN)
    new, second, chunk = peaked(x, start, top, second, chunk, BM, BN, CHUNK)
    a = tl.exp2((top - new) * qs)
    p = tl.exp2(x * qs - (new * qs)[:, :, None])
    w = p * x
    l = l * a + tl.sum(p, 2)
    e = e * a + tl.sum(w, 2)
    a = a * a
    p2 = p2 * a + tl.sum(p * p, 2)
    if CAP:
        w = p * lanes(grows, BM, BN)
    g = g * a + tl.sum(w * w, 2)
    return new, second, chunk, l, e, p2, g


@triton.jit(do_not_specialize=["NQ", "HEADS", "SHARED", "Z"])
def statistics(queries, keys, SINKS, FIRST, LAST, OUT, CODE, NQ, scale, cap, HEADS, SHARED, Z,
               D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr, CAP: tl.constexpr,
               SINK: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Everything about BM rows of one head except the single keys."""
    z, tile = placed()
    entry = z // HEADS
    head = z % HEADS
    shared = head // SHARED
    rows = tile * BM + tl.arange(0, BM)
    # Loaded before the queries are waited for.
    first = tl.load(FIRST + entry * NQ + rows, mask=rows < NQ, other=0)
    last = tl.load(LAST + entry * NQ + rows, mask=rows < NQ, other=0)
    q = tl.reshape(queries.load([entry, head, tile * BM, 0]), [BM, D])
    top = tl.full([BM, 4], LOWEST, tl.float32)
    second = tl.full([BM, 4], LOWEST, tl.float32)
    chunk = tl.zeros([BM, 4], tl.int32)
    l = tl.zeros([BM, 4], tl.float32)
    e = tl.zeros([BM, 4], tl.float32)
    p2 = tl.zeros([BM, 4], tl.float32)
    g = tl.zeros([BM, 4], tl.float32)
    qs = scale * LOG2E
    places, whole, end = ranged(first, last, BN)
    for k in tl.range(whole, end, BN):
        t, grows = scored(q, keys, entry, shared, k, cap, D, BN, CAP, PRECISION)
        top, second, chunk, l, e, p2, g = _taken(t, grows, k, top, second, chunk, l, e, p2, g, qs, BM, BN, CHUNK, CAP)
    for i in tl.range(0, places[3]):
        k = crossed(places, i, BN)
        t, grows = scored(q, keys, entry, shared, k, cap, D, BN, CAP, PRECISION)
        t, grows = hidden(t, grows, k, first, last, BN, CAP)
        top, second, chunk, l, e, p2, g = _taken(t, grows, k, top, second, chunk, l, e, p2, g, qs, BM, BN, CHUNK, CAP)

    most, other, code = met(top, second, chunk)
    f = tl.exp2((top - most[:, None]) * qs)
    f2 = f * f
    sink = tl.load(SINKS + head) if SINK else 0.0
    o = z.to(tl.int64) * NQ + rows
    summed_up(OUT, CODE, o, Z.to(tl.int64) * NQ, rows < NQ, last > first, most, most, other, code, tl.sum(l * f, 1),
              tl.sum(e * f, 1), tl.sum(p2 * f2, 1), tl.sum(g * f2, 1), scale, sink, SINK)  # fmt: skip


@triton.jit
def _read(X, at, stride, D: tl.constexpr, W: tl.constexpr):
    """Return rows as float32 in parts: of all of them, a warp reads W coordinates at a time."""
    parts = ()
    for n in tl.static_range(D // W):
        if X.dtype.element_ty == tl.bfloat16:
            # Two numbers are the halves of one word; one instruction each takes them out.
            X2 = X.to(tl.pointer_type(tl.int32), bitcast=True)
            words = tl.load(X2 + at[:, None].to(tl.int64) * (stride // 2) + (tl.arange(0, W // 2) + n * (W // 2))[None, :])
            parts += ((words << 16).to(tl.float32, bitcast=True), (words & -65536).to(tl.float32, bitcast=True))
        else:
            x = tl.load(X + at[:, None].to(tl.int64) * stride + (tl.arange(0, W) + n * W)[None, :])
            parts += (x.to(tl.float32),)
    return parts


@triton.jit
def _one(q, K, at, stride, scale, cap, D: tl.constexpr, W: tl.constexpr, CAP: tl.constexpr):
    """Return the score of one key for each row."""
    k = _read(K, at, stride, D, W)
    t = q[0] * k[0]
    for n in tl.static_range(1, len(q)):
        t += q[n] * k[n]
    t = tl.sum(t, 1)
    if CAP:
        t = cap - 2.0 * cap / (tl.exp2(t * (2.0 * LOG2E / cap)) + 1.0)
    return t * scale


@triton.jit(do_not_specialize=["NQ", "NK", "HEADS", "SHARED", "Z"])
def single_keys(Q, K, FIRST, LAST, HEAD_OF_TEXT, OUT, CODE, WEIGHTS, qb, qh, qn, kb, kh, kn, NQ, NK, scale, cap, HEADS,
                SHARED, Z, D: tl.constexpr, BR: tl.constexpr, W: tl.constexpr, CHUNK: tl.constexpr,
                CAP: tl.constexpr):  # fmt: skip
    """Find the top key and the second score in the best chunk, and the weights of first, own, previous and top key."""
    z = tl.program_id(1)
    entry = z // HEADS
    head = z % HEADS
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    live = rows < NQ
    place = rows + NK - NQ
    first = tl.load(FIRST + entry * NQ + rows, mask=live, other=0)
    last = tl.load(LAST + entry * NQ + rows, mask=live, other=0)
    o = z.to(tl.int64) * NQ + rows
    step = Z.to(tl.int64) * NQ
    Q += entry.to(tl.int64) * qb + head.to(tl.int64) * qh
    K += entry.to(tl.int64) * kb + (head // SHARED).to(tl.int64) * kh
    q = _read(Q, tl.minimum(rows, NQ - 1), qn, D, W)
    code = tl.load(CODE + o, mask=live, other=0)
    second = tl.load(OUT + 5 * step + o, mask=live, other=0.0)
    best = tl.full([BR], LOWEST, tl.float32)
    at = tl.zeros([BR], tl.int32)
    base = (code // 4) * (4 * CHUNK) + (code % 4) * 2
    for y in tl.static_range(CHUNK):
        key = base + (y // 2) * 8 + y % 2
        seen = live & (key >= first) & (key < last)
        s = tl.where(seen, _one(q, K, tl.where(seen, key, 0), kn, scale, cap, D, W, CAP), LOWEST)
        second = tl.maximum(second, tl.minimum(best, s))
        at = tl.where(s > best, key, at)
        best = tl.maximum(best, s)
    sees = last > first
    second = tl.where(last > first + 1, second, tl.where(sees, float("-inf"), 0.0))
    tl.store(OUT + 5 * step + o, second, mask=live)
    tl.store(CODE + o, tl.where(sees, at, -1), mask=live)
    lse = tl.load(OUT + step + o, mask=live, other=0.0)
    top = tl.load(OUT + o, mask=live, other=0.0)
    tl.store(WEIGHTS + 3 * step + o, tl.where(sees, tl.exp(top - lse), 0.0), mask=live)
    text = tl.load(HEAD_OF_TEXT + entry * NQ + rows, mask=live, other=0)
    for n in tl.static_range(3):
        key = text if n == 0 else place - (n - 1)
        seen = live & (key >= first) & (key < last)
        s = _one(q, K, tl.where(seen, key, 0), kn, scale, cap, D, W, CAP)
        tl.store(WEIGHTS + n * step + o, tl.where(seen, tl.exp(s - lse), 0.0), mask=live)
