"""What values in kernels can do, for editors and type checkers.

Written by `make golden` from the functions of the language; do not edit.
"""

import builtins as _b
from contextlib import AbstractContextManager
from typing import Any, Generic, ParamSpec, TypeAlias, overload

from phalanx.ir.types import DType
from phalanx.language.kernel import Kernel as _Kernel
from phalanx.runtime.launch.dispatch import BoundLaunch as _BoundLaunch

_P = ParamSpec("_P")

Array: TypeAlias = Any
Number: TypeAlias = Tile | View | float
Shape: TypeAlias = int | tuple[int, ...]

class _Value:
    """Arithmetic: of tiles, and of elements of memory, which are read where they are used."""

    def __add__(self, other: Number) -> Tile: ...
    def __radd__(self, other: Number) -> Tile: ...
    def __sub__(self, other: Number) -> Tile: ...
    def __rsub__(self, other: Number) -> Tile: ...
    def __mul__(self, other: Number) -> Tile: ...
    def __rmul__(self, other: Number) -> Tile: ...
    def __truediv__(self, other: Number) -> Tile: ...
    def __rtruediv__(self, other: Number) -> Tile: ...
    def __floordiv__(self, other: Number) -> Tile: ...
    def __rfloordiv__(self, other: Number) -> Tile: ...
    def __mod__(self, other: Number) -> Tile: ...
    def __rmod__(self, other: Number) -> Tile: ...
    def __pow__(self, other: Number) -> Tile: ...
    def __lshift__(self, other: Number) -> Tile: ...
    def __rlshift__(self, other: Number) -> Tile: ...
    def __rshift__(self, other: Number) -> Tile: ...
    def __rrshift__(self, other: Number) -> Tile: ...
    def __and__(self, other: Number) -> Tile: ...
    def __rand__(self, other: Number) -> Tile: ...
    def __or__(self, other: Number) -> Tile: ...
    def __ror__(self, other: Number) -> Tile: ...
    def __xor__(self, other: Number) -> Tile: ...
    def __rxor__(self, other: Number) -> Tile: ...
    def __neg__(self) -> Tile: ...
    def __pos__(self) -> Tile: ...
    def __invert__(self) -> Tile: ...
    def __lt__(self, other: Number) -> Tile: ...
    def __le__(self, other: Number) -> Tile: ...
    def __gt__(self, other: Number) -> Tile: ...
    def __ge__(self, other: Number) -> Tile: ...
    def __eq__(self, other: object) -> Tile: ...  # type: ignore[override]
    def __ne__(self, other: object) -> Tile: ...  # type: ignore[override]
    def __index__(self) -> int: ...

class Tile(_Value):
    """A tile of values in registers, or one value of it."""

    def __getitem__(self, index: Any) -> Tile: ...
    @property
    def T(self) -> Tile:
        """The axes in reverse order."""

    @property
    def dtype(self) -> DType:
        """Its element type."""

    def permute(self, *axes: Any) -> Tile:
        """The axes in another order: axis d of the result is axis `axes[d]`."""

    def reshape(self, *shape: Any) -> Tile:
        """The tile's elements in row-major order under another shape."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents, a tuple of constants; () for a scalar."""

    def to(self, dtype: DType) -> Tile:
        """Converted to another element type."""

class View(_Value):
    """A region of shared, tensor or global memory."""

    def __getitem__(self, index: Any) -> View: ...
    @property
    def T(self) -> View:
        """The axes of a shared view in reverse order."""

    def at(self, cta: Any) -> View:
        """This region in the shared memory of CTA `cta` of the cluster."""

    @property
    def dtype(self) -> DType:
        """Its element type."""

    @property
    def nbytes(self) -> int:
        """How many bytes it has, as a barrier counts them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents, a tuple of constants."""

    def within(self, start: Any, stop: Any) -> View:
        """This view of a global array, of which along the last axis only the elements from `start` to before
        `stop` are there, as counted in the array: others load as `fill`, and are not stored."""

class Barrier:
    """A barrier in shared memory, or an array of them."""

    def __getitem__(self, index: Any) -> Barrier: ...
    def arrive(self, count: Any = 1, ctas: Number | None = None) -> None:
        """`count` arrivals of this role, here or in each CTA of the mask `ctas`."""

    def arrive_and_expect_tx(self, nbytes: Number, ctas: Number | None = None) -> None:
        """Expects `nbytes`, then arrives once; here or in each CTA of the mask `ctas`."""

    def expect_tx(self, nbytes: Number, ctas: Number | None = None) -> None:
        """The current phase waits for `nbytes` more; here or in each CTA of the mask `ctas`."""

    def init(self, count: Any) -> None:
        """Initialises a barrier made with init=False."""

    def invalidate(self) -> None:
        """Ends the barrier's life, so that its memory may be reused."""

    def test_wait(self, parity: Number) -> Tile:
        """Whether the phase of `parity` is complete."""

    def transaction(self) -> AbstractContextManager[None]:
        """`with b.transaction():` one arrive with the bytes of the copies inside."""

    def wait(self, parity: Number) -> None:
        """Blocks until the phase of `parity` is complete."""

class Ring:
    """Where one side of a ring of stages is: `stage` and `parity`."""

    n: Any
    stage: Any
    parity: Any

    def advance(self) -> None:
        """Moves on by one stage."""

class Pipe:
    """A ring of stages with its barriers."""

    stages: Any
    full: Any
    empty: Any
    ctas: Any
    filling: Any
    filling_parity: Any
    acquired: Any
    taking: Any
    taking_parity: Any
    taken: Any

    def acquire(self) -> int:
        """Waits until the next stage may be filled, and takes it; gives its index."""

    def commit(self, nbytes: Number | None = None) -> None:
        """One arrival for the oldest stage being filled, with `nbytes` expected where copies bring them."""

    def wait(self) -> int:
        """Waits until the next stage is full, and takes it; gives its index."""

    def release(self) -> None:
        """Gives the oldest stage taken back to all who fill it, in every CTA whose copies land in it."""

    def produce(self) -> AbstractContextManager[int]:
        """`with pipe.produce() as s:` acquires stage s, and commits it with the bytes of the copies inside."""

    def consume(self) -> AbstractContextManager[int]:
        """`with pipe.consume() as s:` waits for stage s, and releases it at the end."""

class Launch(_BoundLaunch, Generic[_P]):
    """A kernel with its grid, by the function's parameters."""

    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> None: ...
    @overload
    def __call__(self, *args: Any, arch: str | None, pipelined: _b.bool = True, **constants: Any) -> None: ...
    @overload
    def __call__(self, *args: Any, pipelined: _b.bool, **constants: Any) -> None: ...

class Kernel(_Kernel, Generic[_P]):
    """What `@px.kernel` makes of a function, by the function's parameters."""

    def __getitem__(self, grid: object) -> Launch[_P]: ...
    def __call__(self) -> None:  # type: ignore[override]
        """A kernel is launched with its grid: `kernel[grid](...)`."""
