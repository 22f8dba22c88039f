"""Launches that can report from the GPU: bounded waits and assertions write a record and trap.

The record lies in mapped host memory, 64-bit words: claim flag, site, linear block, warp, parity, barrier index. Behind it
lies what a build that is shaken reads: the seed of its delays, and a bit for each place that may delay.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from phalanx.cuda.abi import MOST_SITES
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.runtime.device.driver import DriverError, HostBuffer
from phalanx.runtime.launch.launch_list import recording

if TYPE_CHECKING:
    from phalanx.runtime.compiled import Compiled

RECORD_WORDS = 16
SEED_WORD = 8
DEBUG_WORDS = RECORD_WORDS + MOST_SITES // 64
ENVIRONMENT: Any = getattr(os.environ, "_data", os.environ)
"""What `os.environ` looks into: it takes a microsecond itself to say that something is not there."""
NAME_THERE: Any = "PHALANX_WATCHDOG" if ENVIRONMENT is os.environ else os.environ.encodekey("PHALANX_WATCHDOG")
"""What is in the environment wherever that says anything of bounded waits."""
_BUFFERS: dict[int, HostBuffer] = {}


@frozen
class Delays:
    """The delays of a launch: those that follow from `seed`, at all places, or only at the sites with these numbers."""

    seed: int
    sites: tuple[int, ...] | None = None

    def words(self) -> bytes:
        """What the kernel reads, as it lies in the debug buffer from `SEED_WORD` on."""
        allowed = (1 << MOST_SITES) - 1 if self.sites is None else sum(1 << site for site in self.sites)
        seed = struct.pack("<Q", self.seed & 0xFFFFFFFFFFFFFFFF)
        return seed.ljust(8 * (RECORD_WORDS - SEED_WORD), b"\0") + allowed.to_bytes(MOST_SITES // 8, "little")


_SHAKEN: list[Delays] = []
"""The delays of launches made now: the last one counts."""


def delays() -> Delays | None:
    """The delays that kernels are launched with now; None outside `shaken`."""
    return _SHAKEN[-1] if _SHAKEN else None


@contextmanager
def shaken(wanted: Delays) -> Iterator[None]:
    """Kernels that are launched meanwhile, those of the library too, have delays, and their waits are bounded.

    In the simulator they run in an order that follows from the seed.
    """
    _SHAKEN.append(wanted)
    try:
        with recording():
            yield
    finally:
        _SHAKEN.pop()


@contextmanager
def bounded_waits() -> Iterator[None]:
    """Kernels that are launched meanwhile have their waits bounded, unless their own `watchdog=False` forbids it.

    Recording keeps launches from the short ways, which would repeat what an earlier one compiled without bounds.
    """
    former = os.environ.get("PHALANX_WATCHDOG")
    os.environ["PHALANX_WATCHDOG"] = "1"
    try:
        with recording():
            yield
    finally:
        if former is None:
            del os.environ["PHALANX_WATCHDOG"]
        else:
            os.environ["PHALANX_WATCHDOG"] = former


def run_watched(
    launcher: Any,
    compiled: Compiled,
    grid: tuple[int, int, int],
    values: list[Any],
    ordinal: int,
) -> None:
    """Launches, waits for the end, and raises what the kernel reported."""
    driver = launcher.driver
    with driver.context(ordinal):
        buffer = _BUFFERS.get(ordinal)
        if buffer is None:
            buffer = _BUFFERS[ordinal] = HostBuffer(driver, 8 * DEBUG_WORDS)
        buffer.clear()
        wanted = delays()
        if wanted is not None:
            buffer.memory[8 * SEED_WORD :] = wanted.words()
        launcher.launch(grid, values, debug=buffer.device_pointer)
        try:
            driver.synchronize()
        except DriverError as failure:
            launcher.abandon()
            record = struct.unpack(f"<{RECORD_WORDS}Q", bytes(buffer.memory[: 8 * RECORD_WORDS]))
            if record[0]:
                raise report(compiled, grid, record) from failure
            raise


def report(compiled: Compiled, grid: tuple[int, int, int], record: tuple[int, ...]) -> Error:
    """The error that a record stands for."""
    _, site_number, block, warp, parity, index = record[:6]
    site = compiled.sites[site_number]
    x, y = block % grid[0], block // grid[0] % grid[1]
    z = block // (grid[0] * grid[1])
    where = f"CTA ({x}, {y}, {z}), {site.who(warp)}, warp {warp}"
    if site.kind == "assert":
        return Error(
            f"assertion failed on the GPU in {where}: {site.name}", location=site.location, kind="assert"
        )
    return Error(
        f"a wait did not end on the GPU: {site.name}[{index}] for parity {parity} in {where}",
        location=site.location,
        kind="watchdog",
        remedy="run the kernel in the simulator: it names every blocked role and what its barrier is short of",
    )
