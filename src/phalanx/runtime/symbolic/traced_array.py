"""Arrays of a traced function: no memory, but a shape, strides and an address that are numbers of the trace."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.runtime.device.arrays import _KINDS, ITEM_BYTES, PER_BYTE, ArgumentKind, numpy_dtype
from phalanx.runtime.symbolic.expressions import symbol
from phalanx.runtime.symbolic.numbers import Number, Trace, expression_of

NEW_ALIGNMENT = 16
"""Bytes at a multiple of which new arrays begin: results, which the caller is asked for, and parts of the workspace."""


class NotExported(Error):
    """What a traced function does can't be written as launches."""


class TracedMemory:
    """Where traced arrays lie: an argument, or memory that the function asked for while it ran."""

    def __init__(self, name: str, pointer: Any, dtype: str, sizes: tuple[Any, ...], *, new: bool) -> None:
        self.name, self.pointer, self.dtype, self.sizes, self.new = name, pointer, dtype, sizes, new


class TracedArray:
    """A view of some memory. It has what the library asks of arrays: shapes, views, and new arrays like it."""

    def __init__(
        self, trace: Trace, memory: TracedMemory, offset: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]
    ) -> None:
        self.trace, self.memory, self.offset, self.shape, self.strides = trace, memory, offset, shape, strides
        self.device = trace.device

    @property
    def dtype_name(self) -> str:
        """The name of its element type."""
        return self.memory.dtype

    @property
    def dtype(self) -> np.dtype:
        """The element type as NumPy has it."""
        return numpy_dtype(self.memory.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def pointer(self) -> Any:
        """The address of its first element."""
        share = PER_BYTE.get(self.dtype_name, 1)
        return self.memory.pointer + self.offset * ITEM_BYTES[self.dtype_name] // share

    def _view(self, offset: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> TracedArray:
        return TracedArray(self.trace, self.memory, offset, shape, strides)

    def new_array(self, shape: tuple[Any, ...], dtype: str) -> TracedArray:
        """A new contiguous array: a result, or memory that the caller lends."""
        made = self.trace.memories
        name = f"new_{len(made)}"
        value = NEW_POINTER + len(made) * (1 << 40)
        pointer = Number(self.trace, symbol(name, 0, 2**64, NEW_ALIGNMENT), value)
        memory = TracedMemory(name, pointer, dtype, shape, new=True)
        made.append(memory)
        return TracedArray(self.trace, memory, 0, shape, contiguous(shape))

    # Views -------------------------------------------------------------------------------------------------

    def swapaxes(self, a: int, b: int) -> TracedArray:
        """Two axes in each other's place."""
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(*order)

    def transpose(self, *order: int) -> TracedArray:
        """The axes in another order. Two axes are swapped as torch does it, where there are more."""
        if len(order) == 2 and self.ndim > 2:
            return self.swapaxes(*order)
        order = order or tuple(reversed(range(self.ndim)))
        return self._view(self.offset, tuple(self.shape[n] for n in order), tuple(self.strides[n] for n in order))

    permute = transpose

    @property
    def T(self) -> TracedArray:
        """The axes in reversed order."""
        return self.transpose()

    @property
    def mT(self) -> TracedArray:
        """The last two axes in each other's place."""
        return self.swapaxes(-1, -2)

    def __getitem__(self, item: Any) -> TracedArray:
        items = item if isinstance(item, tuple) else (item,)
        taken = sum(part is not None and part is not Ellipsis for part in items)
        if Ellipsis in [part if part is Ellipsis else 0 for part in items]:
            at = next(n for n, part in enumerate(items) if part is Ellipsis)
            items = (*items[:at], *(slice(None),) * (self.ndim - taken), *items[at + 1 :])
        else:
            items = (*items, *(slice(None),) * (self.ndim - taken))
        offset, shape, strides, axis = self.offset, [], [], 0
        for part in items:
            if part is None:
                shape.append(1)
                strides.append(0)
                continue
            size, step = self.shape[axis], self.strides[axis]
            axis += 1
            if isinstance(part, slice):
                if part.step not in (None, 1):
                    raise NotExported("a slice with a step", remedy="pass the array itself")
                begin, end = 0 if part.start is None else part.start, size if part.stop is None else part.stop
                if begin < 0 or end < begin or end > size:
                    raise NotExported("a slice that counts from the end, or goes beyond it", remedy="count from the start")
                offset = offset + begin * step
                shape.append(end - begin)
                strides.append(step)
            else:
                offset = offset + part * step
        return self._view(offset, tuple(shape), tuple(strides))

    def reshape(self, *shape: Any) -> TracedArray:
        """Its elements under another shape, where that is a view."""
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        old, steps, new = list(self.shape), list(self.strides), list(wanted)
        tail_shape: list[Any] = []
        tail_steps: list[Any] = []
        while old and new and _same(old[-1], new[-1]):  # axes at the end that stay as they are
            tail_shape.insert(0, old.pop())
            tail_steps.insert(0, steps.pop())
            new.pop()
        open_at = next((n for n, size in enumerate(new) if isinstance(size, int) and size == -1), None)
        if open_at is not None:
            others = [size for n, size in enumerate(new) if n != open_at]
            new[open_at] = _left_over(old, others)
        if not new:
            if any(size != 1 for size in old):
                raise NotExported(f"{wanted} as the shape of {self!r}", remedy="keep the number of elements")
            made: list[Any] = []
        elif len(new) == len(old) == 1:
            made = list(steps)
        else:
            step = self._merged(old, steps)
            made = [step * scale for scale in contiguous(tuple(new))]
        return self._view(self.offset, (*new, *tail_shape), (*made, *tail_steps))

    view = reshape

    def _merged(self, shape: list[Any], steps: list[Any]) -> Any:
        """The stride of some neighbouring axes as one, which they have to be."""
        long = [(size, step) for size, step in zip(shape, steps) if size != 1]
        for (_, outer), (size, inner) in pairwise(long):
            if outer != size * inner:
                raise NotExported(
                    f"axes of {shape} with strides {steps} are joined, which takes a copy",
                    remedy="pass an array that is contiguous there",
                )
        return long[-1][1] if long else 1

    def contiguous(self) -> TracedArray:
        """Itself, if its elements lie in their order without gaps."""
        for size, step, dense in zip(self.shape, self.strides, contiguous(self.shape)):
            if size > 1 and step != dense:
                raise NotExported("an array is copied", remedy="pass a contiguous one")
        return self

    # What can't be ----------------------------------------------------------------------------------------

    def copy(self) -> TracedArray:
        """A copy is no launch of a kernel."""
        raise NotExported("an array is copied", remedy="pass one that the function need not copy, or copy it by a kernel")

    def __setitem__(self, item: Any, value: Any) -> None:
        raise NotExported("elements are assigned outside of a kernel", remedy="write them by a kernel")

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise NotExported("the elements of an array are looked at", remedy="an export has none: look at shapes alone")

    def __eq__(self, other: object) -> bool:
        raise NotExported("the elements of an array are compared", remedy="an export has none: look at shapes alone")

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise NotExported("the elements of an array are looked at", remedy="an export has none: look at shapes alone")

    def __float__(self) -> float:
        raise NotExported("the element of an array is looked at", remedy="pass a number, or let the kernel read the array")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function is np.broadcast_to:
            return args[0].expand(args[1])
        return self.__array__()

    def expand(self, shape: tuple[Any, ...]) -> TracedArray:
        """The array under a larger shape, axes of one element repeated."""
        missing = len(shape) - self.ndim
        sizes, steps = (1,) * missing + self.shape, (0,) * missing + self.strides
        pairs = list(zip(sizes, steps, shape))
        made = [step if _same(size, wanted) or size == wanted else 0 for size, step, wanted in pairs]
        if any(size != wanted and size != 1 for size, _, wanted in pairs):
            raise NotExported(f"an array of shape {self.shape} as {shape}", remedy="sizes are equal, or 1")
        return self._view(self.offset, tuple(shape), tuple(made))

    def __repr__(self) -> str:
        return f"<{self.memory.name}: {self.dtype_name} {self.shape}>"


NEW_POINTER = 1 << 50
"""Where new arrays lie while a function is traced: far from arguments and from each other."""
_KINDS[TracedArray] = ArgumentKind.DEVICE_ARRAY  # it has what `describe` asks such arrays for


def contiguous(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The strides of an array whose elements lie in their order."""
    steps: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        steps.insert(0, step)
        step = step * size
    return tuple(steps)


def _same(a: Any, b: Any) -> bool:
    """Whether two sizes are the same expression, without a guard."""
    return expression_of(a).text == expression_of(b).text


def _left_over(old: list[Any], others: list[Any]) -> Any:
    """What -1 stands for: the product of the old sizes, divided by the others."""
    left = list(old)
    divisor: Any = 1
    for size in others:
        found = next((n for n, each in enumerate(left) if _same(each, size)), None)
        if found is not None:
            left.pop(found)
        else:
            divisor = divisor * size
    total: Any = 1
    for size in left:
        total = total * size
    if isinstance(divisor, int) and divisor == 1:
        return total
    if total % divisor != 0:
        raise NotExported("a shape that does not divide the number of elements", remedy="keep the number of elements")
    return total // divisor
