"""The whole text of a kernel: device functions, parameters, body. It includes nothing and stands on its own."""

from __future__ import annotations

import re

import phalanx.cuda.ops  # registers the emitters
import phalanx.cuda.text.delays  # noqa: F401  registers what stands before them in a shaken build
from phalanx.cuda.abi import ArraySlot, ScalarSlot, Signature
from phalanx.cuda.plan import Plan
from phalanx.cuda.text.helper import helper
from phalanx.cuda.text.prelude import instruction
from phalanx.cuda.text.registry import emit_block
from phalanx.cuda.text.stamps import enter_kernel, leave_kernel
from phalanx.cuda.text.writer import TYPEDEFS, Site, Writer
from phalanx.cuda.text.written_agent import WrittenAgent
from phalanx.frozen import frozen
from phalanx.ir.printer import text as listing
from phalanx.ir.types import ArrayType, ScalarType

SHARED_ALIGNMENT = 1024


@frozen
class Module:
    """CUDA C++ text and what the host must know to launch it and to read its debug records.

    `ir` is the listing that the text was written from, `entry` the kernel's name in the text; a record's site number
    is an index into `sites`.
    """

    source: str
    ir: str
    entry: str
    signature: Signature
    sites: tuple[Site, ...]
    threads: int
    cluster: tuple[int, int, int]
    shared_bytes: int
    addresses_cluster: bool
    """It maps addresses of its cluster's shared memory, if only its own: that needs a launch as a cluster."""


def generate(plan: Plan) -> Module:
    """The text of a plan with its signature and sites. No GPU or compiler is involved.

    Example: ``compile_cuda(generate(plan).source, "sm_90a")``.
    """
    function = plan.function
    w = Writer(plan)
    entry = entry_name(function.name)
    for param in function.params:
        w.name(param)  # parameters keep their names
    w.tensor_maps += [w.unique(f"{function.params[slot.array].name}_map") for slot in plan.tensor_maps]
    with w.as_agent(WrittenAgent("", 0, function.warps, 0)):
        enter_kernel(w)
        _prefetch_descriptors(w)
        emit_block(w, function.body)
        leave_kernel(w)
    body = w.body()
    prologue = w.prologue()
    parameters = _parameters(w)
    lines = [*_title(plan), *_prelude(w), *_head(w, entry, parameters)]
    if w.uses_shared:
        lines.append(f"  extern __shared__ __align__({SHARED_ALIGNMENT}) unsigned char px_smem[];")
    lines += [*prologue, *body, "}", ""]
    return Module(
        source="\n".join(lines),
        ir=listing(function, layouts=plan.layouts, notes=plan.notes),
        entry=entry,
        signature=signature(plan, debug=w.uses_debug),
        sites=tuple(w.sites),
        threads=32 * function.warps,
        cluster=function.cluster,
        shared_bytes=plan.shared_bytes,
        addresses_cluster="mapa_shared_cluster" in w.helpers,
    )


def signature(plan: Plan, *, debug: bool) -> Signature:
    """The kernel's parameters as the launcher packs them."""
    slots: list[ArraySlot | ScalarSlot] = []
    for param in plan.function.params:
        kind = param.type
        if isinstance(kind, ArrayType):
            facts = kind.unit_inner, kind.aligned
            slots.append(ArraySlot(kind.rank, kind.dtype.name, *facts, name=param.name, whole_rows=kind.whole))
        else:
            assert isinstance(kind, ScalarType)
            slots.append(ScalarSlot(kind.dtype.name, param.name))
    return Signature(tuple(slots), plan.tensor_maps, debug, plan.function.counters)


def entry_name(name: str) -> str:
    """The kernel's name as a C identifier that nothing else has."""
    return f"{re.sub(r'[^0-9A-Za-z_]', '_', name)}_kernel".lstrip("_")


def _title(plan: Plan) -> list[str]:
    function = plan.function
    constants = ", ".join(f"{name}={value}" for name, value in function.constants)
    x, y, z = function.cluster
    lines = [f"// {function.name}({constants}) for {plan.arch}, from {function.loc.short}"]
    shape = f"{32 * function.warps} threads, {plan.shared_bytes} bytes of shared memory"
    clusters = f", clusters of {x} x {y} x {z} (set at launch)" if function.cluster_size > 1 else ""
    lines.append(f"// {shape}{clusters}")
    return [line.replace("\\", "/").replace("\n", " ") for line in lines]


def _prelude(w: Writer) -> list[str]:
    lines = [""]
    for name, bits in TYPEDEFS.items():
        if name in w.typedefs:
            lines.append(f"typedef {bits} {name};")
    arrays = [param.type for param in w.plan.function.params if isinstance(param.type, ArrayType)]
    if arrays:
        lines += [helper("px_array").text, ""]
    if any(array.rank == 0 for array in arrays):
        lines += ["template <class T>\nstruct px_array<T, 0> {\n  T* data;\n};", ""]
    if w.plan.tensor_maps:
        lines += [helper("px_tensor_map").text, ""]
    if w.helpers:
        lines += ["namespace ptx {", ""]
        for used in w.helpers.values():
            lines += [used.text, ""]
        lines += ["}  // namespace ptx", ""]
    return lines


def _parameters(w: Writer) -> list[str]:
    texts = []
    for param in w.plan.function.params:
        if isinstance(param.type, ArrayType):
            ctype = w.ctype(param.type.dtype)
            texts.append(f"const __grid_constant__ px_array<{ctype}, {param.type.rank}> {w.name(param)}")
        else:
            assert isinstance(param.type, ScalarType)
            texts.append(f"const {w.ctype(param.type.dtype)} {w.name(param)}")
    texts += [f"const __grid_constant__ px_tensor_map {name}" for name in w.tensor_maps]
    if w.uses_debug:
        texts.append("unsigned long long* px_debug")
    return texts


def _head(w: Writer, entry: str, parameters: list[str]) -> list[str]:
    function = w.plan.function
    bounds = f"{32 * function.warps}, {function.ctas_per_sm}"
    head = f'extern "C" __global__ void __launch_bounds__({bounds}) {entry}('
    if not parameters:
        return [f"{head}) {{"]
    return [head, *(f"    {text}{',' if n < len(parameters) else ') {'}" for n, text in enumerate(parameters, 1))]


def _prefetch_descriptors(w: Writer) -> None:
    if not w.tensor_maps:
        return
    prefetch = w.use(instruction("prefetch.tensormap", "[{map}]", (("const void*", "map"),)))
    with w.block("if (threadIdx.x == 0)"):
        for name in w.tensor_maps:
            w.line(f"{prefetch}(&{name});")
