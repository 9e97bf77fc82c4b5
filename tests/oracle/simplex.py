"""An exact oracle for the question behind `design`, sharing no code with it: phase 1 of the simplex method in fractions."""

from fractions import Fraction


def mixture_exists(keys, inside):
    """Say whether a mixture of the outside keys is a combination, with sum 1, of the inside keys.

    Columns: the outside keys, not negative and of sum 1; differences of inside keys, of any sign (each as two columns).
    """
    rows = [[Fraction(float(entry)) for entry in key] for key in keys]
    first, *others = (rows[i] for i in inside)
    outside = [row for i, row in enumerate(rows) if i not in set(inside)]
    if not outside:
        return False
    differences = [[a - b for a, b in zip(row, first, strict=True)] for row in others]
    columns = [[*row, Fraction(1)] for row in outside]
    for sign in (1, -1):
        columns += [[*(sign * entry for entry in row), Fraction(0)] for row in differences]
    return _feasible(columns, [*first, Fraction(1)])


def _feasible(columns, wanted):
    """Say whether non-negative weights of the columns give `wanted`; Bland's rule, so that it ends."""
    height, width = len(wanted), len(columns)
    table = [[column[r] for column in columns] + [wanted[r]] for r in range(height)]
    table = [[-entry for entry in row] if row[-1] < 0 else row for row in table]
    basis = [width + r for r in range(height)]
    cost = [-sum(row[c] for row in table) for c in range(width + 1)]
    while True:
        entering = next((c for c in range(width) if cost[c] < 0), None)
        if entering is None:
            return cost[-1] == 0
        ratios = [(row[-1] / row[entering], basis[r], r) for r, row in enumerate(table) if row[entering] > 0]
        _, _, leaving = min(ratios)
        pivot = table[leaving][entering]
        table[leaving] = [entry / pivot for entry in table[leaving]]
        for r, row in enumerate(table):
            if r != leaving and row[entering]:
                factor = row[entering]
                table[r] = [a - factor * b for a, b in zip(row, table[leaving], strict=True)]
        factor = cost[entering]
        cost = [a - factor * b for a, b in zip(cost, table[leaving], strict=True)]
        basis[leaving] = entering
