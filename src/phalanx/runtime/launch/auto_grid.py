"""`kernel[px.auto]`: a grid of as many clusters as fit on the device, for kernels that deal their tiles to any number.

Any grid gives the right result, so that what is said here is a matter of speed alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Function
from phalanx.ir.ops.memory import Extent
from phalanx.ir.types import ArrayType
from phalanx.ir.values import Value
from phalanx.language.auto import Auto, auto
from phalanx.language.kernel import Kernel
from phalanx.passes.tile_counts import deals_tiles, tile_count

if TYPE_CHECKING:
    from phalanx.runtime.launch.launcher import Launcher
    from phalanx.runtime.launch.specialise import Argument


@frozen
class FittingGrid:
    """As many clusters as fit at once, and no more than there are tiles; `tiles` is None where only a run knows them.

    `one_each`: a cluster for every tile, of which the hardware starts what fits.
    """

    tiles: int | None
    cluster: tuple[int, int, int]
    one_each: bool = False

    def on_device(self, launcher: Launcher) -> tuple[int, int, int]:
        """The grid for a kernel that is loaded on a device, which the driver is asked about once."""
        return self.of(launcher.clusters_at_once)

    def in_simulator(self) -> tuple[int, int, int]:
        """The grid of a run in the simulator: few clusters, so that each of them takes several tiles."""
        from phalanx.sim.machine import clusters_held

        return self.of(clusters_held())

    def of(self, fitting: int) -> tuple[int, int, int]:
        """The grid where so many clusters fit at once."""
        clusters = fitting if self.tiles is None else self.tiles if self.one_each else min(fitting, self.tiles)
        clusters = max(1, clusters)
        x, y, z = self.cluster
        return clusters * x, y, z


def leaves_grid(grid: Any) -> bool:
    """Whether a grid is left to the compiler."""
    return isinstance(grid, Auto)


def fitting_grid(
    kernel: Kernel, grid: Auto, function: Function, arguments: list[Argument], *, numbers: bool
) -> FittingGrid:
    """What `kernel[px.auto]` asks for; an error for a kernel that does not deal its tiles.

    With `numbers`, the number of tiles may depend on scalar arguments; without, on the shapes of arrays alone, as what is
    remembered of a launch does.
    """
    if grid != auto:
        raise Error(
            f"the grid of kernel '{kernel.name}' is {grid!r}",
            location=kernel.location,
            remedy=f"bounds are for constants: write {kernel.name}[px.auto](...), or the number of CTAs",
        )
    if not deals_tiles(function):
        raise Error(
            f"kernel '{kernel.name}' has no px.persistent loop, so that px.auto can't be its grid",
            location=kernel.location,
            remedy=f"give the number of CTAs, {kernel.name}[grid](...); or deal the tiles to however many there are: "
            "for t in px.persistent(n)",
        )
    one_each = any(op.draw is not None and op.draw.takes_over for op in function.walk())
    return FittingGrid(tile_count(function, _known(function, arguments, numbers)), function.cluster, one_each)


def _known(function: Function, arguments: list[Argument], numbers: bool) -> dict[Value, int]:
    """What arguments say of a kernel's values: the extents of arrays, and the integers among the scalars."""
    given = [argument for argument in arguments if argument.type is not None]
    known: dict[Value, int] = {}
    for op in function.walk():
        if isinstance(op, Extent):
            argument = given[op.array.index]
            shape = argument.value.shape if argument.info is None else argument.info.shape
            known[op.result] = int(shape[op.axis])
    if numbers:
        for param, argument in zip(function.params, given, strict=True):
            if not isinstance(param.type, ArrayType) and param.type.dtype.is_integer:
                known[param] = int(argument.value)
    return known
