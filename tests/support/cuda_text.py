"""Kernels as CUDA text in tests: lowered, written, and compiled on a machine without a GPU."""

from __future__ import annotations

from typing import Any

from phalanx.cuda.abi import Extras
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import Module, generate
from phalanx.cuda.nvrtc import Resources, compile_cuda
from phalanx.cuda.plan import Plan
from phalanx.ir.archs import arch_of
from phalanx.language.kernel import Kernel
from support.front import Types, prepared

ARCHS = ("sm_90a", "sm_100a")


def plan_of(kernel: Kernel, types: Types, *, arch: str = "sm_90a", watchdog: bool = False, **constants: Any) -> Plan:
    return lower(prepared(kernel, types, **constants), arch_of(arch), extras=Extras(watchdog=watchdog))


def module_of(kernel: Kernel, types: Types, **options: Any) -> Module:
    return generate(plan_of(kernel, types, **options))


def body(module: Module) -> str:
    """The kernel itself, without the device functions before it."""
    return module.source[module.source.index('extern "C"') :]


def compiles(kernel: Kernel, types: Types, **options: Any) -> Resources:
    """Compiles for both architectures, expects no spills; returns what the kernel uses on the first."""
    found = []
    for arch in ARCHS:
        module = module_of(kernel, types, arch=arch, **options)
        resources = compile_cuda(module.source, arch).resources_of(module.entry)
        assert (resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0), arch
        found.append(resources)
    return found[0]
