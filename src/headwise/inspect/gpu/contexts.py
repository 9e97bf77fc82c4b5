"""The GPU program for statistics with contexts, and with what the noise of key lengths does to them."""

import triton
import triton.language as tl

from headwise.inspect.gpu.lengths import unit
from headwise.inspect.gpu.tiles import (
    LOG2E,
    LOWEST,
    crossed,
    halves,
    hidden,
    joined,
    lanes,
    met,
    peaked,
    placed,
    ranged,
    scored,
    summed_up,
)

# Octaves from what a row's sums are relative to up to its largest score: within these, sums of squares do not overflow.
ROOM = tl.constexpr(50.0)


@triton.jit
def _exponentiated(t, grows, start, scale, peak, sums, shift, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr,
                   CAP: tl.constexpr, HALF: tl.constexpr, KIND: tl.constexpr):  # fmt: skip
    """Take some columns of a tile into maxima and sums; return what values are to be weighted with."""
    peak = peaked(lanes(t, BM, BN), start, peak[0], peak[1], peak[2], BM, BN, CHUNK)
    l, e, p2, g = sums
    p = tl.exp2(t * (scale * LOG2E) - shift[:, None])
    w = p * t
    l += tl.sum(lanes(p, BM, BN), 2)
    e += tl.sum(lanes(w, BM, BN), 2)
    p2 += tl.sum(lanes(p * p, BM, BN), 2)
    if CAP:
        w = p * grows
    w = w * w
    g += tl.sum(lanes(w, BM, BN), 2)
    if HALF:
        w = w * (scale * scale)  # raw scores squared overflow float16
    return p.to(KIND), w.to(KIND), peak, (l, e, p2, g)


@triton.jit
def _risen(t, scale, ref, sums, products, BM: tl.constexpr, NOISE: tl.constexpr):
    """Make everything relative to a maximum that takes a tile in."""
    acc, wide, side = products
    qs = scale * LOG2E
    new = tl.maximum(ref[0], tl.max(t, 1))
    # The factor is found twice, for rows and for their four lanes: cheaper than moving it from one layout to the other.
    a = tl.exp2((ref[0] - new) * qs)
    a4 = tl.exp2((ref[1] - new[:, None]) * qs)
    acc = acc * a[:, None]
    if NOISE:
        wide = wide * (a * a)[:, None]
        side = side * (a * a)[:, None]
    ref = (new, tl.broadcast_to(new[:, None], [BM, 4]))
    return ref, (sums[0] * a4, sums[1] * a4, sums[2] * (a4 * a4), sums[3] * (a4 * a4)), (acc, wide, side)


@triton.jit
def _taken(t, grows, k, values, sides, entry, head, scale, peak, ref, sums, products, BM: tl.constexpr, BN: tl.constexpr,
           CHUNK: tl.constexpr, D: tl.constexpr, CAP: tl.constexpr, NOISE: tl.constexpr, HALF: tl.constexpr,
           FIXED: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Take a tile into everything, relative to the maximum so far, or with FIXED to what it is relative to already."""
    if not FIXED:
        ref, sums, products = _risen(t, scale, ref, sums, products, BM, NOISE)
    acc, wide, side = products
    shift = ref[0] * (scale * LOG2E)
    H: tl.constexpr = BN // 2
    KIND: tl.constexpr = values.dtype
    if NOISE or H < 4 * CHUNK:
        p, w, peak, sums = _exponentiated(t, grows, k, scale, peak, sums, shift, BM, BN, CHUNK, CAP, HALF, KIND)
    else:
        # One half after the other: while one is summed up, the exponentials of the other are on their way.
        t0, t1 = halves(t, BM, BN)
        grows0, grows1 = halves(grows, BM, BN)
        p0, _, peak, sums = _exponentiated(t0, grows0, k, scale, peak, sums, shift, BM, H, CHUNK, CAP, HALF, KIND)
        p1, _, peak, sums = _exponentiated(t1, grows1, k + H, scale, peak, sums, shift, BM, H, CHUNK, CAP, HALF, KIND)
        p = joined(p0, p1, BM, BN)
        w = p
    v = tl.reshape(values.load([entry, head, k, 0]), [BN, D])
    acc = tl.dot(p, v, acc, input_precision=PRECISION)
    if NOISE:
        # One rounding of w for all three sums, or their difference is no sum of squares.
        x = tl.reshape(sides.load([entry, head, k, 0]), [BN, 16])
        side = tl.dot(w, x, side, input_precision=PRECISION)
        wide = tl.dot(w, v, wide, input_precision=PRECISION)
    return peak, ref, sums, (acc, wide, side)


@triton.jit
def _swept(q, keys, values, sides, entry, head, first, last, scale, cap, D: tl.constexpr, BM: tl.constexpr,
           BN: tl.constexpr, CHUNK: tl.constexpr, CAP: tl.constexpr, NOISE: tl.constexpr, HALF: tl.constexpr,
           FIXED: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Take all tiles in, relative to the maximum so far, or with FIXED to that over the first tile a row sees keys of."""
    lowest = tl.full([BM, 4], LOWEST, tl.float32)
    none = tl.zeros([BM, 4], tl.float32)
    peak = (lowest, lowest, tl.zeros([BM, 4], tl.int32))
    ref = (tl.full([BM], LOWEST, tl.float32), lowest)
    sums = (none, none, none, none)
    products = (tl.zeros([BM, D], tl.float32), tl.zeros([BM, D], tl.float32), tl.zeros([BM, 16], tl.float32))
    places, whole, end = ranged(first, last, BN)
    for i in tl.range(0, places[3]):
        k = crossed(places, i, BN)
        t, grows = scored(q, keys, entry, head, k, cap, D, BN, CAP, PRECISION)
        t, grows = hidden(t, grows, k, first, last, BN, CAP)
        if FIXED:
            # Nothing is relative to the reference of a row that has seen no key before.
            ref = (tl.where(ref[0] > LOWEST, ref[0], tl.maximum(ref[0], tl.max(t, 1))), ref[1])
        peak, ref, sums, products = _taken(t, grows, k, values, sides, entry, head, scale, peak, ref, sums, products,
                                           BM, BN, CHUNK, D, CAP, NOISE, HALF, FIXED, PRECISION)  # fmt: skip
    for k in tl.range(whole, end, BN):
        t, grows = scored(q, keys, entry, head, k, cap, D, BN, CAP, PRECISION)
        peak, ref, sums, products = _taken(t, grows, k, values, sides, entry, head, scale, peak, ref, sums, products,
                                           BM, BN, CHUNK, D, CAP, NOISE, HALF, FIXED, PRECISION)  # fmt: skip
    return peak, ref[0], sums, products


@triton.jit
def _tile(queries, keys, values, sides, SINKS, FIRST, LAST, DONE, CONTEXT, OUT, CODE, NQ, scale, cap, HEADS, SHARED, Z, z,
          tile, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr, CAP: tl.constexpr,
          SINK: tl.constexpr, NOISE: tl.constexpr, HALF: tl.constexpr, FIXED: tl.constexpr,
          PRECISION: tl.constexpr):  # fmt: skip
    """Store everything about BM rows of one head; with FIXED, also whether that is right."""
    entry = z // HEADS
    head = z % HEADS
    shared = head // SHARED
    rows = tile * BM + tl.arange(0, BM)
    o = z.to(tl.int64) * NQ + rows
    step = Z.to(tl.int64) * NQ
    live = rows < NQ
    # Loaded before the queries are waited for.
    first = tl.load(FIRST + entry * NQ + rows, mask=live, other=0)
    last = tl.load(LAST + entry * NQ + rows, mask=live, other=0)
    q = tl.reshape(queries.load([entry, head, tile * BM, 0]), [BM, D])
    peak, ref, sums, products = _swept(q, keys, values, sides, entry, shared, first, last, scale, cap, D, BM, BN, CHUNK, CAP,
                                       NOISE, HALF, FIXED, PRECISION)  # fmt: skip
    most, other, code = met(peak[0], peak[1], peak[2])
    gain = tl.sum(sums[3], 1)
    if FIXED:
        # Raw scores squared may overflow before weights do.
        near = ((most - ref) * (scale * LOG2E) < ROOM) & (gain < 1e30)
        tl.store(DONE + z * tl.cdiv(NQ, BM) + tile, tl.min((near | (last <= first)).to(tl.int32), 0).to(tl.int8))
    l = tl.sum(sums[0], 1)
    acc, wide, side = products
    sink = tl.load(SINKS + head) if SINK else 0.0
    share = summed_up(OUT, CODE, o, step, live, last > first, most, ref, other, code, l, tl.sum(sums[1], 1),
                      tl.sum(sums[2], 1), gain, scale, sink, SINK)  # fmt: skip
    # Relative to a running maximum the largest p is 1, else it is rounded. Where it is nearly all there is, the context is a
    # value and the spread about it a small difference, if contexts are divided by what p was rounded to.
    p = tl.exp2(most * (scale * LOG2E) - ref * (scale * LOG2E))
    part = share * l / (l + (p.to(CONTEXT.dtype.element_ty).to(tl.float32) - p))
    c = tl.where(share[:, None] > 0, acc * part[:, None], 0.0)
    tl.store(CONTEXT + o[:, None] * D + tl.arange(0, D)[None, :], c.to(CONTEXT.dtype.element_ty), mask=live[:, None])
    if NOISE:
        # sum w |v - c|^2 = sum w |v|^2 - 2 c . sum w v + |c|^2 sum w; the side product holds |v|^2 in three parts, then 1.
        column = tl.arange(0, 16)[None, :]
        weight = tl.sum(tl.where(column == 3, side, 0.0), 1)
        KIND: tl.constexpr = CONTEXT.dtype.element_ty
        units = tl.where(column == 0, unit(0, KIND), tl.where(column == 1, unit(1, KIND), unit(2, KIND)))
        square = tl.sum(tl.where(column < 3, side * units, 0.0), 1)
        spread = square - 2.0 * tl.sum(wide * c, 1) + weight * tl.sum(c * c, 1)
        if not HALF:
            spread = spread * (scale * scale)
        spread = tl.where(spread < 0, 0.0, spread)  # not a maximum, which would turn NaN into 0
        tl.store(OUT + 6 * step + o, tl.where(share > 0, spread * share * share, 0.0), mask=live)


@triton.jit(do_not_specialize=["NQ", "HEADS", "SHARED", "Z"])
def statistics(queries, keys, values, sides, SINKS, FIRST, LAST, DONE, CONTEXT, OUT, CODE, NQ, scale, cap, HEADS, SHARED, Z,
               D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr, CAP: tl.constexpr,
               SINK: tl.constexpr, NOISE: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Everything about all rows, their contexts, and with NOISE the sensitivity; single keys are left out."""
    z, tile = placed()
    # Weights relative to anything but the largest are too much for float16.
    _tile(queries, keys, values, sides, SINKS, FIRST, LAST, DONE, CONTEXT, OUT, CODE, NQ, scale, cap, HEADS, SHARED, Z, z, tile,
          D, BM, BN, CHUNK, CAP, SINK, NOISE, HALF, not HALF, PRECISION)  # fmt: skip


@triton.jit(do_not_specialize=["NQ", "HEADS", "SHARED", "Z"])
def rest(queries, keys, values, sides, SINKS, FIRST, LAST, DONE, CONTEXT, OUT, CODE, NQ, scale, cap, HEADS, SHARED, Z,
         D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr, CAP: tl.constexpr,
         SINK: tl.constexpr, NOISE: tl.constexpr, HALF: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Do tiles again whose largest scores are too far from what sums were relative to; a program looks after some of them."""
    z, begin = placed()
    tiles = tl.cdiv(NQ, BM)
    for tile in tl.range(begin, tiles, tl.num_programs(1)):
        if tl.load(DONE + z * tiles + tile) == 0:
            _tile(queries, keys, values, sides, SINKS, FIRST, LAST, DONE, CONTEXT, OUT, CODE, NQ, scale, cap, HEADS, SHARED, Z,
                  z, tile, D, BM, BN, CHUNK, CAP, SINK, NOISE, HALF, False, PRECISION)  # fmt: skip
