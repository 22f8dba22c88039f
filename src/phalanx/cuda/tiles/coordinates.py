"""Coordinates of a thread's elements as text, and the conditions that go with them: alive, owned."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.index import SlotTexts, atom, local, plus, slot_offsets
from phalanx.layouts.registers import RegisterLayout


class Coordinates:
    """The coordinates of slot `var` along each dimension: a thread part, declared once, and a part of the slot.

    `declare` writes the thread parts (`const int c0 = ...;`); `at(dim, var)` is the whole coordinate. `slots`: those
    that take part; texts count their positions in that list. `fold`: a dimension and a power of two, the coordinates
    along it are taken modulo that.
    """

    def __init__(
        self,
        w: Writer,
        layout: RegisterLayout,
        name: str = "c",
        slots: Sequence[int] | None = None,
        fold: tuple[int, int] | None = None,
    ) -> None:
        self.w = w
        self.layout = layout
        masks = [extent - 1 for extent in layout.linear.shape]
        if fold is not None:
            masks[fold[0]] = fold[1] - 1
        self.threads = [layout.thread_expression(dim, w.lane, w.warp, mask) for dim, mask in enumerate(masks)]
        self.chosen = range(layout.num_registers) if slots is None else slots
        everything = [slot_offsets(layout, dim) for dim in range(layout.rank)]
        self.slots = [
            [offsets[slot] & mask for slot in self.chosen] for offsets, mask in zip(everything, masks, strict=True)
        ]
        self.additive = [layout.is_additive(dim) for dim in range(layout.rank)]
        self.name = name
        self._declared: dict[int, str] = {}

    def declare(self, dim: int) -> str:
        """The name of the thread's part along `dim`, declared at the current line at first use (numbers stay)."""
        if dim not in self._declared:
            text = self.threads[dim]
            if text.isdigit() or text.isidentifier():
                self._declared[dim] = text
            else:
                name = local(self.w, f"{self.name}{dim}")
                self.w.line(f"const int {name} = {text};")
                self._declared[dim] = name
        return self._declared[dim]

    def slot(self, dim: int, var: str, step: int = 1) -> str:
        """The slot's part along `dim`."""
        if var.isdigit():
            return str(self.slots[dim][int(var)])
        return SlotTexts(self.w).at(self.slots[dim][::step], var, step, f"at{dim}")

    def at(self, dim: int, var: str, step: int = 1) -> str:
        """The coordinate of slot `var` along `dim`; `var` counts in steps of `step`."""
        thread, slot = self.declare(dim), self.slot(dim, var, step)
        if slot == "0":
            return thread
        if thread == "0":
            return slot
        return plus(thread, slot) if self.additive[dim] else f"({atom(thread)} ^ {atom(slot)})"

    def masked_dims(self) -> tuple[int, ...]:
        """Dimensions in which some threads' slots lie outside the tile's real extent."""
        dims: set[int] = set()
        registers = self.layout.live_registers()
        for slot in self.chosen:
            dims.update(self.layout.mask_dims(registers[slot]))
        return tuple(sorted(dims))

    def alive(self, var: str, step: int = 1, dims: Sequence[int] | None = None) -> list[str]:
        """Conditions under which slot `var` holds an element of the tile (as far as `dims` say); empty if it always does."""
        wanted = [dim for dim in self.masked_dims() if dims is None or dim in dims]
        return [f"{self.at(dim, var, step)} < {self.layout.shape[dim]}" for dim in wanted]


def owner_conditions(w: Writer, layout: RegisterLayout) -> list[str]:
    """Conditions that hold in one of the threads that hold the same elements; empty where there is only one."""
    replication = layout.replication
    conditions = []
    if replication.lane_mask:
        conditions.append(none_set(w.lane, replication.lane_mask, 31))
    if warp_replicas(layout):
        conditions.append(none_set(w.warp, replication.warp_mask, layout.linear.in_size("warp") - 1))
    return conditions


def warp_replicas(layout: RegisterLayout) -> bool:
    """Whether several warps (that exist) hold the same elements."""
    return any(warp & layout.replication.warp_mask for warp in range(layout.warps))


def none_set(name: str, mask: int, whole: int) -> str:
    """A condition under which a variable of the bits `whole` has none of the bits of `mask`."""
    return f"{name} == 0" if mask == whole else f"({name} & {mask}) == 0"


def first_thread(w: Writer) -> str:
    """True in one thread of the agent, always the same."""
    return f"{w.thread} == 0"
