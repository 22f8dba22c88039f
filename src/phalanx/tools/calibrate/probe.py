"""A probe: a short kernel whose time is decided, mostly, by one number of the model of time.

Nobody writes down how the number follows from the time. The model of time says how long the kernel takes for a given
number; `solving.py` looks for the number at which that is what the card takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from phalanx.frozen import frozen


class Makes(Protocol):
    """Who makes the arrays of a probe: on the card they are large and hold numbers, in the model they need neither."""

    sms: int
    real: bool
    """Whether the arrays are those of a card, whose caches keep what is small or comes again."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of zeros."""

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of random numbers around zero."""

    def indices(self, values: Any) -> Any:
        """An array of i32 with these values."""


Arrays = Callable[[Makes, int], tuple[Any, ...]]
"""(who makes them, the largest number of steps) -> the arguments before the number of steps."""
Grid = Callable[[int], int]
"""SMs -> CTAs."""


def one(sms: int) -> int:
    """A single CTA, or cluster of two, whose latencies nobody disturbs."""
    return 1


def pair(sms: int) -> int:
    """A single cluster of two CTAs."""
    return 2


def every(sms: int) -> int:
    """A CTA on every SM."""
    return sms


@frozen
class Probe:
    """A kernel whose last run-time argument is a number of steps; what a step more costs decides a number of `Rates`.

    `card` and `model` are two numbers of steps each: the difference of the two times, by the difference of the steps, is
    the time of a step. `by_launch`: the whole time of a launch counts, of `card[1]` steps. `by_grid`: the steps are rounds
    of CTAs, and the grid has so many times `grid`.
    """

    finds: str
    """The field of `Rates`."""
    what: str
    """What a step is, for the table."""
    kernel: Any
    arrays: Arrays
    card: tuple[int, int]
    model: tuple[int, int]
    grid: Grid = one
    constants: tuple[tuple[str, Any], ...] = ()
    cold: bool = False
    """Whether L2 is emptied before each launch."""
    by_launch: bool = False
    by_grid: bool = False
    at_work: bool = False
    """Whether it is launched for milliseconds, behind a rest, and power lowers the clock."""
    by_time: bool = False
    """Whether its number is one of microseconds: a cycle then is one of the clock at work, whatever the clock was."""

    def bound(self, sms: int, steps: int) -> Any:
        """The kernel with its grid."""
        ctas = self.grid(sms)
        return self.kernel[ctas * steps if self.by_grid else ctas]

    def given(self, steps: int) -> int:
        """What the kernel is told of the steps."""
        return 0 if self.by_grid else steps
