"""Names for annotations: what the parameters of kernels and of `@px.func` are.

Annotations are for readers, editors and type checkers; the compiler takes none of them but a `@px.struct`. Example::

    from phalanx.types import Array, Tile

    @px.func
    def sums(x: Tile) -> Tile:
        return px.sum(x, 1)

    @px.kernel(warps=4)
    def rows(X: Array, Y: Array, *, BM: int = 64) -> None:
        ...

What these classes can do is written in `types.pyi`, which `make golden` makes from the functions of the language.
"""

from __future__ import annotations

from typing import Any

Array = Any
"""An array that a kernel is launched with: NumPy's, torch's, CuPy's, or a `px.spec`; None where it may be left out."""


class Tile:
    """A tile of values in registers, or one value of it."""


class View:
    """A region of shared, tensor or global memory."""


class Barrier:
    """A barrier in shared memory, or an array of them."""


class Ring:
    """Where one side of a ring of stages is: `stage` and `parity`."""


class Pipe:
    """A ring of stages with its barriers."""


class Kernel:
    """What `@px.kernel` makes of a function, by the function's parameters."""


class Launch:
    """A kernel with its grid, by the function's parameters."""
