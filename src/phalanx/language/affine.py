"""Integer scalars as affine forms, so that `m + BM` minus `m` is seen to be `BM`."""

from __future__ import annotations

from collections.abc import Hashable

from phalanx.frozen import frozen


@frozen
class Affine:
    """`constant + sum(coefficient * atom)`; atoms are hashable names of what is not affine."""

    terms: tuple[tuple[Hashable, int], ...]
    constant: int

    def combine(self, other: Affine, sign: int) -> Affine:
        """The sum of both forms, or with `sign` -1 their difference."""
        total = dict(self.terms)
        for atom, coefficient in other.terms:
            total[atom] = total.get(atom, 0) + sign * coefficient
        kept = sorted(((a, c) for a, c in total.items() if c), key=lambda item: hash(item[0]))
        return Affine(tuple(kept), self.constant + sign * other.constant)

    def scale(self, factor: int) -> Affine:
        """The form multiplied by a constant."""
        if factor == 0:
            return Affine((), 0)
        return Affine(tuple((a, c * factor) for a, c in self.terms), self.constant * factor)

    @property
    def number(self) -> int | None:
        """The value where it is constant."""
        return None if self.terms else self.constant


def constant(value: int) -> Affine:
    """The form of a number."""
    return Affine((), value)


def atom(name: Hashable) -> Affine:
    """The form of something that is not affine, under a name of its own."""
    return Affine(((name, 1),), 0)
