"""The search of the peers' settings: the fastest for each shape is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from phalanx.runtime.device.timing import Run, Timer

T = TypeVar("T")


def fastest(
    choices: Iterable[T], make: Callable[[T], Run], timer: Timer, *, repeats: int = 10, rounds: int = 3
) -> tuple[T, Run]:
    """The choice whose runs take least time, in turns; those that do not compile or launch are left out."""
    runs: list[tuple[T, Run]] = []
    problem: Exception | None = None
    for choice in choices:
        try:
            run = make(choice)
            run()
            timer(run, 1)
            runs.append((choice, run))
        except Exception as found:  # too much shared memory, an unknown option of another version
            problem = found
    if not runs:
        raise RuntimeError(f"no setting works: {problem}") from problem
    best = [min(timer(run, repeats) for _ in range(rounds)) for _, run in runs]
    return runs[best.index(min(best))]


class FastestSetting:
    """A matmul with the fastest of its settings for each shape; rows are multiples of 16 bytes."""

    settings: tuple[Any, ...]

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.chosen: dict[tuple[int, int, int], Any] = {}

    def fits(self, m: int, n: int, k: int) -> bool:
        """Rows of both operands and of the result are multiples of 16 bytes."""
        return k % 8 == 0 and n % 8 == 0

    def bind(self, setting: Any, a: Any, b: Any, c: Any) -> Run:
        """A run with one setting."""
        raise NotImplementedError

    def launch(self, a: Any, b: Any, c: Any) -> Run:
        """A function that runs the product once, with the setting that was fastest for its shape."""
        shape = (a.shape[0], b.shape[0], a.shape[1])
        if shape not in self.chosen:
            self.chosen[shape], _ = fastest(self.settings, lambda setting: self.bind(setting, a, b, c), self.timer)
        return self.bind(self.chosen[shape], a, b, c)

    def watched(self, a: Any, b: Any, c: Any) -> Run | None:
        """None: the waits of others are not ours to bound."""
        return None
