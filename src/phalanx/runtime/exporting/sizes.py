"""Sizes that only the caller of an exported function knows: integers with a name, and what is computed of them."""

from __future__ import annotations

from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen

HELPERS = {"//": "px_floor_div", "%": "px_floor_mod"}
"""C divides towards zero; Python, and so the functions that a user wrote, towards minus infinity."""


@frozen(eq=False)
class Size:
    """An integer expression over named sizes, as C text and as a function of their values.

    The user's grid function gets these; what it returns is written into the C launcher and into the manifest, whose
    loader evaluates the same text. Example: ``px.cdiv(Size.named("m"), 128)``.
    """

    text: str
    python: str

    @staticmethod
    def named(name: str) -> Size:
        """The size that the caller passes under this name."""
        return Size(name, name)

    def _with(self, sign: str, left: Any, right: Any) -> Size:
        left, right = _size(left), _size(right)
        python = f"({left.python} {sign} {right.python})"
        if sign in HELPERS:
            return Size(f"{HELPERS[sign]}({left.text}, {right.text})", python)
        return Size(f"({left.text} {sign} {right.text})", python)

    def __add__(self, other: Any) -> Size:
        return self._with("+", self, other)

    def __radd__(self, other: Any) -> Size:
        return self._with("+", other, self)

    def __sub__(self, other: Any) -> Size:
        return self._with("-", self, other)

    def __rsub__(self, other: Any) -> Size:
        return self._with("-", other, self)

    def __mul__(self, other: Any) -> Size:
        return self._with("*", self, other)

    def __rmul__(self, other: Any) -> Size:
        return self._with("*", other, self)

    def __floordiv__(self, other: Any) -> Size:
        return self._with("//", self, other)

    def __rfloordiv__(self, other: Any) -> Size:
        return self._with("//", other, self)

    def __mod__(self, other: Any) -> Size:
        return self._with("%", self, other)

    def __rmod__(self, other: Any) -> Size:
        return self._with("%", other, self)

    def __neg__(self) -> Size:
        return Size(f"(-{self.text})", f"(-{self.python})")

    def __bool__(self) -> bool:
        raise _undecided(self)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        raise _undecided(self)

    __lt__ = __le__ = __gt__ = __ge__ = __eq__

    def __index__(self) -> int:
        raise _undecided(self)


def _size(value: Any) -> Size:
    if isinstance(value, Size):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no integer")
    text = str(value) if value >= 0 else f"({value})"
    return Size(text, text)


def written(value: Any) -> Size:
    """A size or an integer as an expression."""
    return _size(value)


def _undecided(size: Size) -> Error:
    return Error(
        f"a grid decides by {size.python}, which only the caller of the exported function knows",
        remedy="compute the grid by + - * // % and px.cdiv; for the smaller of two numbers of CTAs deal tiles by "
        "px.persistent and leave the grid to px.auto",
    )
