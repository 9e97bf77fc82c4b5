"""The GPU program for statistics with contexts, and with what the noise of key lengths does to them."""

import triton
import triton.language as tl

from headwise.inspect.gpu.tiles import LOG2E, LOWEST, lanes, met, peaked, placed, ranged, scored, summed_up

# Nats that a bound on the scores may be above 0: below this many, squares of weights cannot vanish.
CLOSE = tl.constexpr(27.0)


@triton.jit
def _taken(t, grows, start, values, sides, entry, head, qs, scale, top, second, chunk, ref, ref4, l, e, p2, g, acc, wide, side,
           D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr, CAP: tl.constexpr,
           NOISE: tl.constexpr, HALF: tl.constexpr, FIXED: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Take a tile into the running sums, which are relative to `ref`: the maximum so far, or a bound known beforehand."""
    top, second, chunk = peaked(lanes(t, BM, BN), start, top, second, chunk, BM, BN, CHUNK)
    if not FIXED:
        # The factor is found twice, for rows and for their four lanes: cheaper than moving it from one layout to the other.
        new = tl.max(top, 1)
        a = tl.exp2((ref - new) * qs)
        a4 = tl.exp2((ref4 - new[:, None]) * qs)
        ref = new
        ref4 = tl.broadcast_to(new[:, None], [BM, 4])
        acc = acc * a[:, None]
        l = l * a4
        e = e * a4
        a4 = a4 * a4
        p2 = p2 * a4
        g = g * a4
        if NOISE:
            a = a * a
            wide = wide * a[:, None]
            side = side * a[:, None]
    p = tl.exp2(t * qs - (ref * qs)[:, None])
    w = p * t
    l += tl.sum(lanes(p, BM, BN), 2)
    e += tl.sum(lanes(w, BM, BN), 2)
    p2 += tl.sum(lanes(p * p, BM, BN), 2)
    if CAP:
        w = p * grows
    w = w * w
    g += tl.sum(lanes(w, BM, BN), 2)
    v = tl.reshape(values.load([entry, head, start, 0]), [BN, D])
    acc = tl.dot(p.to(v.dtype), v, acc, input_precision=PRECISION)
    if NOISE:
        # One rounding of w for all three sums, or their difference is no sum of squares.
        x = tl.reshape(sides.load([entry, head, start, 0]), [BN, 16])
        if HALF:
            w = w * (scale * scale)  # raw scores squared overflow float16
        w = w.to(x.dtype)
        side = tl.dot(w, x, side, input_precision=PRECISION)
        wide = tl.dot(w, v, wide, input_precision=PRECISION)
    return top, second, chunk, ref, ref4, l, e, p2, g, acc, wide, side


@triton.jit(do_not_specialize=["NQ", "NK", "HEADS", "SHARED", "TOGETHER", "Z"])
def statistics(queries, keys, values, sides, SINKS, FIRST, LAST, LONGEST, DONE, CONTEXT, OUT, CODE, NQ, NK, scale, cap,
               HEADS, SHARED, TOGETHER, Z, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr,
               CAP: tl.constexpr, SINK: tl.constexpr, NOISE: tl.constexpr, HALF: tl.constexpr, FIXED: tl.constexpr,
               REST: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Everything about BM rows of one head, their contexts, and with NOISE the sensitivity; single keys are left out.

    With FIXED, sums are relative to 40 octaves below |q| max|k|, which no score exceeds by more: no running maximum is needed.
    Where that may be too far above the largest score, squares of weights would vanish, and the rows are left to a second run
    with REST, which takes those only.
    """
    if REST:
        if tl.load(DONE + tl.program_id(0)) != 0:
            return
    z, entry, head, shared, r0 = placed(NQ, HEADS, SHARED, TOGETHER, Z, BM)
    rows = r0 + tl.arange(0, BM)
    o = z.to(tl.int64) * NQ + rows
    step = Z.to(tl.int64) * NQ
    live = rows < NQ
    first, last, start, whole, end, before, behind = ranged(FIRST, LAST, entry, rows, NQ, BN)
    q = tl.reshape(queries.load([entry, head, r0, 0]), [BM, D])
    bound = tl.zeros([BM], tl.float32)
    if FIXED:
        square = q.to(tl.float32)
        bound = tl.sqrt(tl.sum(square * square, 1)) * tl.load(LONGEST + entry * (HEADS // SHARED) + shared)
        taken = tl.max(bound, 0) * scale < CLOSE
        tl.store(DONE + tl.program_id(0), taken.to(tl.int8))
        if taken == 0:
            return
    top = tl.full([BM, 4], LOWEST, tl.float32)
    second = tl.full([BM, 4], LOWEST, tl.float32)
    chunk = tl.zeros([BM, 4], tl.int32)
    ref = bound - 40.0 / (scale * LOG2E) if FIXED else tl.full([BM], LOWEST, tl.float32)
    ref4 = tl.full([BM, 4], LOWEST, tl.float32)
    l = tl.zeros([BM, 4], tl.float32)
    e = tl.zeros([BM, 4], tl.float32)
    p2 = tl.zeros([BM, 4], tl.float32)
    g = tl.zeros([BM, 4], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    wide = tl.zeros([BM, D], tl.float32)
    side = tl.zeros([BM, 16], tl.float32)
    qs = scale * LOG2E
    for k in tl.range(whole, end, BN):
        t, grows = scored(q, keys, entry, shared, k, first, last, cap, D, BN, CAP, False, PRECISION)
        top, second, chunk, ref, ref4, l, e, p2, g, acc, wide, side = _taken(
            t, grows, k, values, sides, entry, shared, qs, scale, top, second, chunk, ref, ref4, l, e, p2, g, acc, wide,
            side, D, BM, BN, CHUNK, CAP, NOISE, HALF, FIXED, PRECISION)  # fmt: skip
    for i in tl.range(0, before + behind):
        k = tl.where(i < before, start + i * BN, end + (i - before) * BN)
        t, grows = scored(q, keys, entry, shared, k, first, last, cap, D, BN, CAP, True, PRECISION)
        top, second, chunk, ref, ref4, l, e, p2, g, acc, wide, side = _taken(
            t, grows, k, values, sides, entry, shared, qs, scale, top, second, chunk, ref, ref4, l, e, p2, g, acc, wide,
            side, D, BM, BN, CHUNK, CAP, NOISE, HALF, FIXED, PRECISION)  # fmt: skip

    most, other, code = met(top, second, chunk)
    sink = tl.load(SINKS + head) if SINK else 0.0
    share = summed_up(OUT, CODE, o, step, live, last > first, most, ref, other, code, tl.sum(l, 1), tl.sum(e, 1),
                      tl.sum(p2, 1), tl.sum(g, 1), scale, sink, SINK)  # fmt: skip
    part = share
    if FIXED:
        # Relative to a running maximum the largest p is 1, here it is rounded. Where it is nearly all there is, the context is
        # a value and the spread about it a small difference, if contexts are divided by what p was rounded to.
        p = tl.exp2(most * qs - ref * qs)
        l = tl.sum(l, 1)
        part = share * l / (l + (p.to(CONTEXT.dtype.element_ty).to(tl.float32) - p))
    c = tl.where(share[:, None] > 0, acc * part[:, None], 0.0)
    tl.store(CONTEXT + o[:, None] * D + tl.arange(0, D)[None, :], c.to(CONTEXT.dtype.element_ty), mask=live[:, None])
    if NOISE:
        # sum w |v - c|^2 = sum w |v|^2 - 2 c . sum w v + |c|^2 sum w; the side product holds |v|^2 in three parts, then 1.
        column = tl.arange(0, 16)[None, :]
        weight = tl.sum(tl.where(column == 3, side, 0.0), 1)
        square = tl.sum(tl.where(column < 3, side, 0.0), 1)
        spread = square - 2.0 * tl.sum(wide * c, 1) + weight * tl.sum(c * c, 1)
        if not HALF:
            spread = spread * (scale * scale)
        tl.store(OUT + 6 * step + o, tl.where(share > 0, tl.maximum(spread, 0.0) * share * share, 0.0), mask=live)
