"""Where in the user's source an instruction came from."""

from __future__ import annotations

from typing import Any, SupportsIndex

from phalanx.frozen import frozen


@frozen
class Location:
    """A span of one source line; `caller` is the place from which the enclosing function was inlined."""

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    text: str = ""
    function: str = ""
    caller: Location | None = None

    @property
    def short(self) -> str:
        """`name.py:12`, for listings."""
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"

    def called_from(self, caller: Location) -> Location:
        """This place in a function that was inlined at `caller`: asked for every expression, so no field is computed."""
        made = object.__new__(Location)
        made.__dict__.update(self.__dict__, caller=caller)
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """`NOWHERE` stays the one it is, in other processes too."""
        return "NOWHERE" if self is NOWHERE else super().__reduce_ex__(protocol)


NOWHERE = Location(file="<unknown>", line=0)
