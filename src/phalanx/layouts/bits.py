"""Arithmetic on bits: powers of two, and linear algebra over F2 with integers as vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def is_power_of_two(n: int) -> bool:
    """Whether n is 1, 2, 4, 8 and so on."""
    return n > 0 and n & (n - 1) == 0


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is at least n (and at least 1)."""
    return 1 << (n - 1).bit_length() if n > 1 else 1


def previous_power_of_two(n: int) -> int:
    """The largest power of two that is at most n (n >= 1)."""
    return 1 << (n.bit_length() - 1)


def power_of_two_divisor(n: int) -> int:
    """The largest power of two that divides n (n >= 1)."""
    return n & -n


def log2(n: int) -> int:
    """The exact binary logarithm of a power of two."""
    if not is_power_of_two(n):
        raise ValueError(f"{n} is not a power of two")
    return n.bit_length() - 1


def round_up(n: int, multiple: int) -> int:
    """The smallest multiple that is at least n."""
    return -(-n // multiple) * multiple


def set_bits(mask: int) -> Iterator[int]:
    """The positions of the set bits of a mask, from low to high."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def parity(n: int) -> int:
    """1 if an odd number of bits of n are set, else 0."""
    return n.bit_count() & 1


def xor_combination(images: tuple[int, ...], index: int) -> int:
    """The XOR of the images of the set bits of index: how every linear map here is applied."""
    result = 0
    for bit in set_bits(index):
        result ^= images[bit]
    return result


class Span:
    """The space spanned by vectors added one at a time; remembers how each element is made of them.

    Vectors are numbered in the order of `add`. Vectors that depend on earlier ones are numbered too, but
    never used to express anything: the first vectors added are the preferred ones.
    """

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self._count = 0
        # Top bit -> (vector, mask of the added vectors it is made of).
        self._rows: dict[int, tuple[int, int]] = {}
        self.independent: list[int] = []
        self.dependent: list[int] = []
        for vector in vectors:
            self.add(vector)

    @property
    def rank(self) -> int:
        """The dimension of the span."""
        return len(self._rows)

    def add(self, vector: int) -> bool:
        """Add a vector; False if it was in the span already."""
        number = self._count
        self._count += 1
        rest, mask = self._reduce(vector)
        if rest == 0:
            self.dependent.append(number)
            return False
        self._rows[rest.bit_length()] = (rest, mask ^ (1 << number))
        self.independent.append(number)
        return True

    def express(self, vector: int) -> int | None:
        """A mask of added vectors whose XOR is `vector`, or None if it is outside the span."""
        rest, mask = self._reduce(vector)
        return None if rest else mask

    def __contains__(self, vector: int) -> bool:
        return self._reduce(vector)[0] == 0

    def _reduce(self, vector: int) -> tuple[int, int]:
        """What the rows leave of a vector, and the mask of added vectors that cancel the rest."""
        mask = 0
        kept = 0
        while vector:
            top = vector.bit_length()
            row = self._rows.get(top)
            if row is None:  # nothing cancels this bit, and rows of lower bits never touch it
                kept |= 1 << (top - 1)
                vector ^= 1 << (top - 1)
            else:
                vector ^= row[0]
                mask ^= row[1]
        return kept, mask
