"""`px.auto`: a constant that the compiler chooses, as large as shared memory allows."""

from __future__ import annotations

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen

MOST = 16


@frozen
class Auto:
    """The value of a kernel's constant that stands for as many pipeline stages as the shared memory left has room for.

    Anyone may pass it, for one constant of a kernel, at the launch or as its default. Of 2 to 16
    (``px.auto(least=3, most=8)``: of these) it takes the most with which all buffers, barriers and scratch of the kernel
    fit into a CTA's shared memory (its share of an SM's where ``ctas_per_sm=`` asks for several). The number is the same
    in the simulator and for every target, stands among the constants of `Compiled.ir`, and `Compiled.notes` says how it
    came about. Example::

        @px.kernel(warps=12)
        def gemm(A, B, C, *, BM=128, BN=256, BK=64, STAGES=px.auto):
            a = px.shared((STAGES, BM, BK), A.dtype)
    """

    least: int = 2
    most: int = MOST

    def __call__(self, least: int = 2, most: int = MOST) -> Auto:
        """The range with bounds of one's own."""
        if not (type(least) is int and type(most) is int and 1 <= least <= most):
            raise Error(
                f"px.auto(least={least!r}, most={most!r})",
                location=caller_location(),
                remedy="give two whole numbers, 1 or more, the smaller one first: px.auto(least=2, most=8)",
            )
        return Auto(least, most)

    def __repr__(self) -> str:
        return "px.auto" if self == Auto() else f"px.auto(least={self.least}, most={self.most})"


auto = Auto()
