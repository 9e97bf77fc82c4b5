"""Scores of a tile made block by block and taken into the sums of its rows: compiled, without the interpreter's lock."""

import numpy as np
from numba import njit

from headwise.core.loops import F, exponential, largest

_STRICT = {"contract"}
_LOOSE = {"contract", "reassoc", "nnan", "nsz"}
# Terms further below the peak are 0: a million of them add 1e-11, but their squares would be denormal, which takes long.
_FAR = F(-40.0)
# Rows and keys of one block; measured on two cores with 1 MB of second-level cache each.
HEIGHT, WIDTH = 128, 512
# Scores among which the largest is looked for one by one.
PIECE = 64
# The columns of `known`.
PEAK, SECOND, TOTAL, MOMENT, SQUARE, GAIN, SPREAD = range(7)


@njit(nogil=True)
def _place(x, best):  # type: ignore[no-untyped-def]
    """Return where the largest of some float32 is first; maxima of pieces are compared first, many at a time."""
    start = 0
    while start + PIECE < len(x) and largest(x[start : start + PIECE]) < best:
        start += PIECE
    for i in range(start, len(x)):
        if x[i] == best:
            return i
    return -1


@njit(nogil=True, fastmath=_STRICT)
def _exponentials(x, peak, terms):  # type: ignore[no-untyped-def]
    """Fill in e^(x - peak); 0 far below the peak."""
    for i in range(len(x)):
        y = x[i] - peak
        seen = y > _FAR
        term = exponential(y if seen else _FAR)
        terms[i] = term if seen else F(0)


@njit(nogil=True, fastmath=_LOOSE)
def _summed(x, peak, terms, lengths):  # type: ignore[no-untyped-def]
    """Turn scores into squared movements, and return all sums of a row."""
    total = moment = square = gain = spread = F(0)
    for i in range(len(x)):
        term = terms[i]
        total += term
        moment += term * (x[i] - peak)
        square += term * term
        w = term * x[i]
        w = w * w
        x[i] = w
        gain += w
        spread += w * lengths[i]
    return total, moment, square, gain, spread


@njit(nogil=True)
def _raised(known, peak, sums, values, lengths, top):  # type: ignore[no-untyped-def]
    """Scale everything that is known of a row to a larger peak, and take the old top key in."""
    before, rise = known[PEAK], peak - known[PEAK]
    factor = np.exp(-rise)
    known[MOMENT] = factor * (known[MOMENT] - rise * known[TOTAL])
    known[TOTAL] *= factor
    known[SQUARE] *= factor * factor
    known[GAIN] *= factor * factor
    known[SPREAD] *= factor * factor
    known[PEAK] = peak
    moved = (factor * before) ** 2 if top >= 0 else 0.0
    if top >= 0:
        known[TOTAL] += factor
        known[MOMENT] -= factor * rise
        known[SQUARE] += factor * factor
        known[GAIN] += moved
        known[SPREAD] += moved * lengths[top]
    by = F(factor)
    for n in range(len(sums)):
        term = F(0) if top < 0 else F(factor) if n == 0 else F(moved)
        for j in range(sums.shape[1]):
            sums[n, j] = sums[n, j] * by + term * values[top, j]
        by *= by


@njit(nogil=True)
def _row(x, terms, start, r, values, lengths, known, top, sums):  # type: ignore[no-untyped-def]
    """Take some scores of a row in; leave their terms, and in place of the scores the squared movements.

    The top key stays out of all sums: beside it, what the others add would be rounded away.
    """
    best, own = largest(x), -1
    if best > known[SECOND]:
        at = _place(x, best)
        known[SECOND] = max(min(np.float64(best), known[PEAK]), known[SECOND])
        for rest in (x[:at], x[at + 1 :]):
            if len(rest):
                known[SECOND] = max(known[SECOND], np.float64(largest(rest)))
        if best > known[PEAK]:
            _raised(known, np.float64(best), sums, values, lengths, top[r])
            own, top[r] = at, start + at
    peak = F(known[PEAK])
    _exponentials(x, peak, terms)
    if own >= 0:
        terms[own] = F(0)
    total, moment, square, gain, spread = _summed(x, peak, terms, lengths[start : start + len(x)])
    known[TOTAL] += total
    known[MOMENT] += moment
    known[SQUARE] += square
    known[GAIN] += gain
    known[SPREAD] += spread


@njit(nogil=True, cache=True)
def tile(queries, keys, values, lengths, spans, places, state, space):  # type: ignore[no-untyped-def]
    """Take every key in that the queries of some heads may look at.

    Parameters
    ----------
    queries
        (rows, d), scaled; those of one head after the other.
    keys, values, lengths
        (k, d), (k, v), and (k,) squared lengths of the values.
    spans
        (2, q): the first key of each query and the one behind its last.
    places
        (3, q): keys whose scores are kept by themselves.
    state
        What is known: (rows, 7) sums, (3, rows) scores kept, (rows,) top keys, (0 to 2, rows, v) sums of values. Sums are
        those of all keys but the top one.
    space
        (2 HEIGHT WIDTH,) to work in.
    """
    known, singles, top, sums = state
    count, products, width = spans.shape[1], sums.shape[0], values.shape[1]
    product = np.empty((2 * HEIGHT, width), F)
    for head in range(len(queries) // count):
        for q in range(0, count, HEIGHT):
            high = min(q + HEIGHT, count) - q
            rows = head * count + q
            first, last = spans[0, q : q + high].min(), spans[1, q : q + high].max()
            for start in range(first, last, WIDTH):
                stop = min(start + WIDTH, last)
                block = space[: 2 * high * (stop - start)].reshape(2, high, stop - start)
                np.dot(queries[rows : rows + high], keys[start:stop].T, block[1])
                for r in range(high):
                    low, end = max(spans[0, q + r] - start, 0), min(spans[1, q + r], stop) - start
                    if end <= low:
                        block[:, r] = F(0)
                        continue
                    x, terms = block[1, r], block[0, r]
                    for n in range(3):
                        at = places[n, q + r] - start
                        if low <= at < end:
                            singles[n, rows + r] = x[at]
                    own = sums[:, rows + r]
                    _row(x[low:end], terms[low:end], start + low, rows + r, values, lengths, known[rows + r], top, own)
                    block[:, r, :low] = F(0)
                    block[:, r, end:] = F(0)
                if products:
                    out = product[: products * high]
                    np.dot(block[:products].reshape(products * high, stop - start), values[start:stop], out)
                    sums[:, rows : rows + high] += out.reshape(products, high, width)


@njit(nogil=True, cache=True, fastmath=_LOOSE)
def sensitivities(values, known, top, added, share, sink):  # type: ignore[no-untyped-def]
    """Return the sensitivity of rows, and what it is without the part that is taken away from it.

    Parameters
    ----------
    values
        (k, v).
    known, top, added
        What `tile` found of all keys but the top ones, and those.
    share, sink
        (rows,) weights: of the top key, and of a sink.
    """
    found = np.zeros((2, len(known)))
    for r in range(len(known)):
        if top[r] < 0:
            continue
        # The top value minus the context comes from the weight that is not the top key's.
        rest = share[r] * known[r, TOTAL] + sink[r]
        cross = middle = away = 0.0
        for j in range(values.shape[1]):
            best = np.float64(values[top[r], j])
            apart = rest * best - share[r] * np.float64(added[0, r, j])
            cross += (best - apart) * np.float64(added[1, r, j])
            middle += (best - apart) ** 2
            away += apart * apart
        plain = known[r, SPREAD] + middle * known[r, GAIN]
        found[0, r] = share[r] ** 2 * (plain - 2 * cross + known[r, PEAK] ** 2 * away)
        found[1, r] = share[r] ** 2 * plain
    return found


@njit(nogil=True, cache=True)
def noise(queries, keys, values, spans, peaks, out):  # type: ignore[no-untyped-def]
    """Sum up again in float64 what the sensitivity of some rows needs, once their peaks are known.

    Parameters
    ----------
    queries
        (rows, d), scaled.
    keys, values
        (k, d), and (k, v) of float64.
    spans, peaks
        (2, rows) and (rows,).
    out
        (rows, 3 + 2 v): sums of terms, of squared movements, of those times squared lengths of values; then sums of
        terms times values, and of squared movements times values.
    """
    width = values.shape[1]
    scores, terms = np.empty((len(queries), WIDTH), F), np.empty(WIDTH, F)
    weights = np.empty((2 * len(queries), WIDTH))
    product = np.empty((2 * len(queries), width))
    for start in range(spans[0].min(), spans[1].max(), WIDTH):
        stop = min(start + WIDTH, len(keys))
        count = stop - start
        block = np.ascontiguousarray(scores.reshape(-1)[: len(queries) * count]).reshape(len(queries), count)
        np.dot(queries, keys[start:stop].T, block)
        both = weights.reshape(-1)[: 2 * len(queries) * count].reshape(2 * len(queries), count)
        lengths = (values[start:stop] ** 2).sum(axis=1)
        for r in range(len(queries)):
            _exponentials(block[r], F(peaks[r]), terms[:count])
            low, end = spans[0, r] - start, spans[1, r] - start
            for i in range(count):
                term = np.float64(terms[i]) if low <= i < end else 0.0
                moved = (term * np.float64(block[r, i])) ** 2
                both[2 * r, i], both[2 * r + 1, i] = term, moved
                out[r, 0] += term
                out[r, 1] += moved
                out[r, 2] += moved * lengths[i]
        np.dot(both, values[start:stop], product)
        for r in range(len(queries)):
            out[r, 3 : 3 + width] += product[2 * r]
            out[r, 3 + width :] += product[2 * r + 1]
