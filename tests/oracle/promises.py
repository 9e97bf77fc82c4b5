"""What a design promises, computed in 60 digits from the exact scores."""

import mpmath


def kept_promise(keys, query, inside, leak):
    """Say whether the exact weight outside is at most the leak."""
    with mpmath.workdps(60):
        numbers = [mpmath.mpf(float(entry)) for entry in query]
        scores = [mpmath.fdot(zip(map(float, key), numbers, strict=True)) for key in keys]
        top = max(scores)
        terms = [mpmath.exp(score - top) for score in scores]
        outside = mpmath.fsum(term for i, term in enumerate(terms) if i not in inside)
        return outside / mpmath.fsum(terms) <= leak
