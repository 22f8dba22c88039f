"""`px.device()`: what persistent kernels size their grids by."""

from __future__ import annotations

from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.ir.archs import SHARED_LIMIT
from phalanx.machines.h200 import H200
from phalanx.runtime.device.outlines import assumed_device

SIMULATED_SMS = H200.sms
"""CTAs that are resident at the same time in the simulator, one on each SM of the GPU that it stands for."""


@frozen
class Device:
    """A GPU, or the simulated H200 where there is none."""

    name: str
    arch: str
    sms: int
    l2_bytes: int
    shared_limit: int
    ordinal: int | None

    @property
    def simulated(self) -> bool:
        """Whether it stands for a GPU where there is none."""
        return self.ordinal is None

    def clusters(self, of: Any = 1) -> int:
        """How many clusters run at once: of a compiled kernel (asked of the driver), or of a size with one CTA per SM.

        Example: ``grid = 2 * px.device().clusters(2)`` for a persistent kernel with clusters of 2.
        """
        if not isinstance(of, int):
            from phalanx.runtime.compiled import Compiled

            if isinstance(of, Compiled):
                x, y, z = of.cluster
                return self.clusters(x * y * z) if self.ordinal is None else of.load(self.ordinal).max_active_clusters()
        if not isinstance(of, int) or not 1 <= of <= 16:
            raise Error(
                f".clusters() takes a compiled kernel or the size of a cluster, not {of!r}",
                location=caller_location(),
                remedy="a cluster has 1 to 16 CTAs",
            )
        if self.sms == H200.sms:
            return H200.clusters_at_once.get(of, H200.clustered_sms // of)
        return self.sms // of


def described(arch: str) -> Device:
    """A GPU of some target that is described and not there, with as many SMs as an H200."""
    return Device("simulated H200", arch, SIMULATED_SMS, H200.l2_bytes, SHARED_LIMIT, None)


def device(ordinal: int = 0) -> Device:
    """The GPU, with its SMs and co-resident clusters; without a GPU the H200 that the simulator models.

    Anyone may call it, outside kernels. Example: ``kernel[px.device().sms](...)``.
    """
    assumed = assumed_device()
    if assumed is not None:
        return assumed  # type: ignore[no-any-return]
    from phalanx.runtime.device import driver as cuda

    if not cuda.has_gpu():
        return described("sm_90a")
    driver = cuda.get_driver()
    found: Device | None = driver.kept.get(ordinal)
    if found is None:
        try:
            info = driver.device(ordinal)
        except cuda.DriverError as error:
            raise error.at(caller_location()) from None
        found = Device(info.name, info.arch, info.sm_count, info.l2_bytes, info.shared_bytes_per_block, ordinal)
        driver.kept[ordinal] = found
    return found
