"""Choices that are kept by a number which changes from call to call: rows of a product, lengths of heads.

A choice takes the host longer than all the rest of a call. A second number is a sign of more: then the choice is made for
all numbers of a window around it, and later calls find theirs.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

CHOICES = 1 << 15
"""Choices that are kept, of half a kilobyte: a model in service has dozens of weights, and batches of any size."""

Asked = TypeVar("Asked")
Choice = TypeVar("Choice")
_MISSING: Any = object()


class Windows(ABC, Generic[Asked, Choice]):
    """The choices that were made, and the windows of numbers of which one was. For any thread.

    `choose` makes those for several that are asked for, which differ in their number alone, in ascending order. Where there
    is no more room each is made alone, and the oldest is forgotten.
    """

    def __init__(self, choose: Callable[[Sequence[Asked]], Sequence[Choice]]) -> None:
        self.choose = choose
        self.made: dict[Asked, Choice] = {}
        self.windows: set[Asked] = set()
        self._lock = threading.Lock()  # of what is kept: look-ups need none

    @abstractmethod
    def window(self, asked: Asked) -> range:
        """The numbers that are chosen for at once with that of what is asked for; none if it is chosen for alone."""

    @abstractmethod
    def numbered(self, asked: Asked, number: int) -> Asked:
        """`asked` with another number in place of its own."""

    def find(self, asked: Asked) -> Choice:
        """The choice for what is asked for."""
        found = self.made.get(asked, _MISSING)
        return self._make(asked) if found is _MISSING else found

    def _make(self, asked: Asked) -> Choice:
        """Makes the choice, and with it those of all its window where it is the second one there."""
        together = [asked]
        window = self.window(asked)
        if window and len(self.made) + len(window) <= CHOICES:
            first = self.numbered(asked, window[0])
            if first in self.windows:
                together = [self.numbered(asked, number) for number in window]
            self.windows.add(first)
        found = dict(zip(together, self.choose(together)))
        with self._lock:
            while self.made and len(self.made) + len(found) > CHOICES:
                del self.made[next(iter(self.made))]
            self.made |= found
        return found[asked]

    def clear(self) -> None:
        """Forgets all choices."""
        with self._lock:
            self.made.clear()
            self.windows.clear()
