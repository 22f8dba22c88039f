"""What an export writes: a C function with its arguments, the tree of its ways, and the launches at their ends.

A kernel's export is a function's with one way and one launch. What its arrays have to be like, the kernel was compiled for.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.frozen import frozen
from phalanx.runtime.compiled import Compiled
from phalanx.runtime.exporting.endings import Endings, Result
from phalanx.runtime.exporting.exported_ways import Tree
from phalanx.runtime.exporting.parameters import ArrayKind
from phalanx.runtime.symbolic.expressions import Expression
from phalanx.runtime.symbolic.tracing import ArrayGiven, Given, ScalarGiven


@frozen
class CFunction:
    """A function's arguments, the sizes that its caller passes, its tree of ways, and what is done at their ends.

    `kinds` says by name what the arrays among the arguments have to be like.
    """

    name: str
    described: str
    archs: tuple[str, ...]
    sizes: tuple[str, ...]
    arguments: tuple[Given, ...]
    kinds: dict[str, ArrayKind]
    tree: Tree
    endings: Endings

    @property
    def arrays(self) -> tuple[ArrayGiven, ...]:
        """The arrays among its arguments."""
        return tuple(given for given in self.arguments if isinstance(given, ArrayGiven))

    @property
    def scalars(self) -> tuple[ScalarGiven, ...]:
        """The numbers among its arguments."""
        return tuple(given for given in self.arguments if isinstance(given, ScalarGiven))

    @property
    def programs(self) -> tuple[tuple[Compiled, ...], ...]:
        """The kernels of a function, each for every target."""
        return self.endings.programs

    @property
    def results(self) -> tuple[Result, ...]:
        """The arrays that it writes, for which its caller gives memory."""
        return self.endings.results

    @property
    def has_workspace(self) -> bool:
        """Whether its caller lends it memory."""
        return self.endings.has_workspace

    def code_name(self, program: int, arch: str) -> str:
        """What the machine code of a kernel for a target is called; kernels have a number where there are several."""
        return f"{self.name}_{program}_{arch}" if len(self.programs) > 1 else f"{self.name}_{arch}"

    def knows(self, expression: Expression) -> bool:
        """Whether an expression depends on named sizes alone."""
        return expression.symbols <= set(self.sizes)


def named_sizes(arrays: Iterable[ArrayGiven]) -> tuple[str, ...]:
    """The names among all sizes, in the order of their first use."""
    return tuple(dict.fromkeys(size for array in arrays for size in array.sizes if isinstance(size, str)))
