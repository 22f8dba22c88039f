"""What stubs say that no function of the language knows: operators, decorators, and what is loaded later."""

HEAD = '"""{about}\n\nWritten by `make golden` from the functions of the language; do not edit.\n"""\n'

PACKAGE = (
    HEAD.format(about="What `import phalanx as px` gives, for editors and type checkers.")
    + '''
import builtins as _b
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, dataclass_transform, overload

from phalanx.errors import Error as Error
from phalanx.ir.types import DType as DType
from phalanx.language.auto import auto as auto
from phalanx.language.examples import example as example
# LATER
from phalanx.types import Barrier, Kernel, Number, Pipe, Ring, Shape, Tile, View

_P = ParamSpec("_P")
_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C")
_V = TypeVar("_V")
_Chosen = int | Callable[..., int]
_Cluster = int | tuple[int, ...] | Callable[..., int | tuple[int, ...]]

__version__: str

# DTYPES

@overload
def kernel(fn: Callable[_P, object]) -> Kernel[_P]: ...
@overload
def kernel(
    fn: None = None,
    *,
    warps: _Chosen = 4,
    cluster: _Cluster = 1,
    exit_sync: _b.bool = True,
    watchdog: _b.bool | None = None,
    ctas_per_sm: _Chosen = 1,
    pdl: _b.bool = False,
    cooperative: _b.bool = False,
    strict: _b.bool | None = None,
    on_loss: str = "error",
) -> Callable[[Callable[_P, object]], Kernel[_P]]:
    """Makes a kernel of a Python function: positional parameters are run-time values, keyword-only ones constants."""

def choose(*values: _V) -> _V:
    """Stands for the one of several values of a kernel's constant with which a launch takes the least time on a model."""

def func(fn: _F) -> _F:
    """A helper that is inlined where kernels call it; recursion is refused."""

@dataclass_transform()
def struct(cls: type[_C]) -> type[_C]:
    """A class of values usable in kernels: annotated fields, defaults, methods (inlined like `@px.func`)."""

# FUNCTIONS

__all__ = [
# EXPORTED
]
'''
)

TYPES = (
    HEAD.format(about="What values in kernels can do, for editors and type checkers.")
    + '''
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
    # MEMBERS OF Tile

class View(_Value):
    """A region of shared, tensor or global memory."""

    def __getitem__(self, index: Any) -> View: ...
    # MEMBERS OF View

class Barrier:
    """A barrier in shared memory, or an array of them."""

    def __getitem__(self, index: Any) -> Barrier: ...
    # MEMBERS OF Barrier

class Ring:
    """Where one side of a ring of stages is: `stage` and `parity`."""

    # MEMBERS OF Ring

class Pipe:
    """A ring of stages with its barriers."""

    # MEMBERS OF Pipe

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
'''
)
