"""A number that every rank of the cluster knows when the kernel is compiled, as a choice that the rank makes at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from phalanx.frozen import frozen


@frozen
class ByRank:
    """`usual`, unless this CTA's rank is in the mask of one of `others`: (mask of ranks, their number)."""

    usual: int
    others: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(numbers: Mapping[int, int]) -> ByRank:
        """The choice that gives each rank its number. The commonest number is tested for last; without any it is 0.

        Example: `{0: 8, 1: 4, 2: 4, 3: 4}` is 4, unless the rank is in the mask 0b1, where it is 8.
        """
        if not numbers:
            return ByRank(0)
        (usual, _), *others = Counter(numbers.values()).most_common()
        return ByRank(
            usual,
            tuple((sum(1 << rank for rank, n in numbers.items() if n == other), other) for other, _ in others),
        )
