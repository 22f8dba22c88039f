"""The target of a product of the library: the arrays' GPU, or the one that is named for the simulator."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.ir.archs import ARCHS, Arch, Feature
from phalanx.kernels.matrices import refused
from phalanx.runtime.device.arrays import ArrayInfo
from phalanx.runtime.device.devices import Device
from phalanx.runtime.device.outlines import is_outlined
from phalanx.runtime.launch.options import named_arch

TENSOR_MEMORY = "sm_100a"
"""The target of the simulator where a product needs tensor memory and nobody names one."""


@frozen
class Target:
    """The device whose sizes count, whether its products are Blackwell's, and the constants that name it to a launch.

    `arch` is what is known of it; None where nobody asked for a target and the GPU is none of those.
    """

    device: Device
    on_gpu: bool
    blackwell: bool
    named: dict[str, Any]
    arch: Arch | None = None

    @property
    def hopper(self) -> bool:
        """Whether the target has `wgmma`."""
        return self.arch is None or self.arch.has({Feature.WGMMA})


def target_of(info: ArrayInfo, arch: str | None, *, blackwell: bool = False) -> Target:
    """The target of a call with this array: of its GPU; for the simulator the one that `arch` names, or this machine's.

    `blackwell`: the product needs tensor memory. The simulator takes a target that has it; a GPU without is refused. A call
    for its result's shape alone asks no GPU.
    """
    on_gpu = info.kind == "cuda" and not is_outlined()
    device = px.device(info.device) if on_gpu else px.device()
    try:
        named = named_arch(arch)
    except Error as error:
        raise error.at(caller_location()) from None
    found = ARCHS.get(device.arch) if named is None else named
    has = found is not None and found.has({Feature.TCGEN05})
    if blackwell and not has and (on_gpu or named is not None):
        where = device.arch if named is None else named
        raise refused(
            f"block scales and BlackwellConfig are for tensor memory, which {where} does not have",
            "run it on sm_100a or its kin, or multiply bf16 operands; NumPy arrays run in the simulator, arch='sm_100a'",
        )
    if arch is None and (blackwell or has) and not on_gpu:
        arch = device.arch if has else TENSOR_MEMORY
    return Target(device, on_gpu, blackwell or has, {} if arch is None else {"arch": arch}, found)
