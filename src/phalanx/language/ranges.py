"""`range(...)` and `px.static_range(...)` as values of a kernel."""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.ir.values import Value
from phalanx.language.objects import KernelObject, RunTimeRange


@frozen
class StaticRange(KernelObject):
    """`px.static_range(...)`: loops over it are unrolled."""

    items: range
    kind_name = "a static range"

    def iterations(self) -> range:
        """All of them, one after the other."""
        return self.items

    def constant_items(self) -> range:
        """Its numbers."""
        return self.items


@frozen
class RangeObject(KernelObject):
    """`range(...)`: loops over it run at run time."""

    bounds: RunTimeRange
    kind_name = "a range"

    def iterations(self) -> RunTimeRange:
        """A run-time loop."""
        return self.bounds

    def constant_items(self) -> range | None:
        """Its numbers, where start, stop and step are constants."""
        start, stop, step = self.bounds.start, self.bounds.stop, self.bounds.step
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
            return range(start, stop, step)
        return None

    def held(self) -> tuple[Value, ...]:
        """The run-time values among its bounds."""
        bounds = (self.bounds.start, self.bounds.stop, self.bounds.step)
        return tuple(bound for bound in bounds if isinstance(bound, Value))
