"""Device functions of the generated text, one per instruction variant, built from the instruction's modifiers.

A function is named after its PTX (`mbarrier.arrive.shared::cta.b64` becomes `mbarrier_arrive_shared_cta`), and only
those that a kernel uses are written before it. Shared memory is addressed by 32-bit shared addresses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from phalanx.cuda.text.helper import Helper
from phalanx.ir.effects import Span

# How inline asm takes an operand of a C++ type.
_CONSTRAINTS = {
    "bool": "r",
    "int": "r",
    "unsigned": "r",
    "unsigned short": "h",
    "float": "f",
    "long long": "l",
    "unsigned long long": "l",
    "const void*": "l",
    "void*": "l",
}
WIDTH = 112
Parameter = tuple[str, str]
"""(C++ type, name)."""


def function_name(mnemonic: str) -> str:
    """The C++ name of a PTX instruction: its parts joined by underscores, a final `.b64` or `.u32` dropped."""
    return re.sub(r"\W+", "_", re.sub(r"\.[bu](32|64)$", "", mnemonic))


def device_function(
    name: str, result: str, parameters: Sequence[Parameter], body: str, *needs: Helper, inline: bool = True
) -> Helper:
    """A `__device__ __forceinline__` function with a body of C++ lines; one that is called where not `inline`."""
    how = "__forceinline__" if inline else "__noinline__"
    signature = ", ".join(f"{ctype} {parameter}" for ctype, parameter in parameters)
    lines = "\n".join(f"  {line}" if line else "" for line in body.split("\n"))
    head = f"__device__ {how} {result} {name}({signature}) {{"
    if len(head) > WIDTH:
        head = f"__device__ {how} {result} {name}(\n    {signature}) {{"
    return Helper(name, f"{head}\n{lines}\n}}", needs)


@cache
def instruction(
    mnemonic: str, operands: str = "", parameters: tuple[Parameter, ...] = (), *, name: str = "", memory: bool = True
) -> Helper:
    """A function that executes one PTX instruction without a result.

    `operands` is the operand text with the parameters in braces, e.g. ``"_, [{bar}], {bytes}"``. `memory` False lets
    the compiler move it past loads and stores.
    """
    numbered = {parameter: f"%{n}" for n, (_, parameter) in enumerate(parameters)}
    text = f"{mnemonic} {_fill(operands, numbered)}".rstrip() + ";"
    inputs = ", ".join(f'"{_CONSTRAINTS[ctype]}"({parameter})' for ctype, parameter in parameters)
    clobbers = ' : "memory"' if memory else ""
    body = f'asm volatile("{text}" :: {inputs}{clobbers});'.replace("::  :", ":::")
    if len(body) > WIDTH:
        body = f'asm volatile("{text}"\n             :: {inputs}{clobbers});'
    return device_function(name or function_name(mnemonic), "void", parameters, body)


@cache
def predicate(mnemonic: str, operands: str, parameters: tuple[Parameter, ...], *, name: str = "") -> Helper:
    """A function whose result is the predicate that an instruction sets (`{p}` in the operand text)."""
    numbered = {parameter: f"%{n + 1}" for n, (_, parameter) in enumerate(parameters)} | {"p": "p"}
    inputs = ", ".join(f'"{_CONSTRAINTS[ctype]}"({parameter})' for ctype, parameter in parameters)
    body = (
        "unsigned done;\n"
        f'asm volatile("{{ .reg .pred p; {mnemonic} {_fill(operands, numbered)}; selp.u32 %0, 1, 0, p; }}"\n'
        f'             : "=r"(done) : {inputs} : "memory");\n'
        "return done != 0;"
    )
    return device_function(name or function_name(mnemonic), "bool", parameters, body)


@cache
def special_register(register: str, name: str = "") -> Helper:
    """A function that reads a special register, such as `%cluster_ctarank`."""
    body = f'unsigned value;\nasm("mov.u32 %0, %%{register};" : "=r"(value));\nreturn (int)value;'
    return device_function(name or function_name(register), "int", (), body)


def _fill(operands: str, numbered: dict[str, str]) -> str:
    """Puts the numbered operands in the place of the names in braces; other braces are PTX's vectors."""
    return re.sub(r"\{(\w+)\}", lambda match: numbered[match[1]] if match[1] in numbered else match[0], operands)


SHARED_ADDRESS = device_function(
    "shared_address",
    "unsigned",
    (("const void*", "pointer"),),
    "unsigned address;\n"
    'asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));\n'
    "return address;",
)

UNKNOWN_ZERO = Helper(
    "unknown_zero",
    "// A zero that only the running machine knows: no compiler can share what was computed before it was added with\n"
    "// what is computed after.\n"
    "__device__ __forceinline__ unsigned unknown_zero() {\n"
    "  unsigned size;\n"
    "  asm volatile(\"mov.u32 %0, %%dynamic_smem_size;\" : \"=r\"(size));\n"
    "  return size >> 31;\n"
    "}",
)

LANE_HERE = device_function(
    "lane_here",
    "int",
    (),
    'int lane;\nasm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));\nreturn lane;',
)
"""The lane, read where it stands: what follows from it is not computed before."""

ELECT = device_function(
    "elect_sync",
    "bool",
    (),
    "unsigned elected;\n"
    'asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));\n'
    "return elected != 0;",
)

BAR_SYNC = Helper(
    "bar_sync",
    "template <int id, int threads>\n"  # a barrier number in a register would reserve all 16
    "__device__ __forceinline__ void bar_sync() {\n"
    '  asm volatile("bar.sync %0, %1;" :: "n"(id), "n"(threads) : "memory");\n'
    "}",
)
BAR_SYNC_OF = Helper(
    "bar_sync_of",
    "template <int threads>\n"
    "__device__ __forceinline__ void bar_sync_of(int id) {\n"
    '  asm volatile("bar.sync %0, %1;" :: "r"(id), "n"(threads) : "memory");\n'
    "}",
)
"""For copies of a role, which have the same code and a barrier each."""
BAR_RED_AND_OF = Helper(
    "bar_red_and_of",
    "template <int threads>\n"
    "__device__ __forceinline__ bool bar_red_and_of(int id, bool value) {\n"
    "  unsigned all;\n"
    '  asm volatile("{ .reg .pred p, q; setp.ne.u32 q, %1, 0; bar.red.and.pred p, %2, %3, q; selp.u32 %0, 1, 0, p; }"\n'
    '               : "=r"(all) : "r"((unsigned)value), "r"(id), "n"(threads) : "memory");\n'
    "  return all != 0;\n"
    "}",
)
BAR_RED_AND = Helper(
    "bar_red_and",
    "template <int id, int threads>\n"
    "__device__ __forceinline__ bool bar_red_and(bool value) {\n"
    "  unsigned all;\n"
    '  asm volatile("{ .reg .pred p, q; setp.ne.u32 q, %1, 0; bar.red.and.pred p, %2, %3, q; selp.u32 %0, 1, 0, p; }"\n'
    '               : "=r"(all) : "r"((unsigned)value), "n"(id), "n"(threads) : "memory");\n'
    "  return all != 0;\n"
    "}",
)

MAPA = device_function(
    "mapa_shared_cluster",
    "unsigned",
    (("unsigned", "address"), ("unsigned", "cta")),
    "unsigned remote;\n"
    'asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));\n'
    "return remote;",
)

GLOBALTIMER = device_function(
    "globaltimer",
    "unsigned long long",
    (),
    'unsigned long long time;\nasm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));\nreturn time;',
)

SETMAXNREG = {
    action: Helper(
        f"setmaxnreg_{action}",
        "template <int registers>\n"
        f"__device__ __forceinline__ void setmaxnreg_{action}() {{\n"
        f'  asm volatile("setmaxnreg.{action}.sync.aligned.u32 %0;" :: "n"(registers));\n'
        "}",
    )
    for action in ("inc", "dec")
}

STOP = device_function(
    "px_stop",
    "void",
    (("unsigned long long*", "debug"), ("int", "site"), ("unsigned", "parity"), ("int", "index")),
    "// The first thread to come here leaves a record for the host and ends the grid; the others give it the time.\n"
    "unsigned long long claimed;\n"
    f'asm volatile("atom.relaxed.{Span.SYSTEM.value}.global.cas.b64 %0, [%1], 0, 1;" '
    ': "=l"(claimed) : "l"(debug) : "memory");\n'
    "if (claimed == 0) {\n"
    "  volatile unsigned long long* record = debug;\n"
    "  record[1] = site;\n"
    "  record[2] = blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);\n"
    "  record[3] = threadIdx.x / 32;\n"
    "  record[4] = parity;\n"
    "  record[5] = (long long)index;\n"
    "  __threadfence_system();\n"
    "  record[0] = 2;\n"
    "  __threadfence_system();\n"
    "} else {\n"
    "  for (int i = 0; i < 1000; ++i) __nanosleep(1000000);\n"
    "}\n"
    'asm volatile("trap;");',
    inline=False,
)
"""Called, not inlined: a bounded wait, or an assertion on a tile, has it at many places, and a compiler that finds its loop
at each of them takes a minute for what it does in less than a second.

The debug buffer in 64-bit words: [0] 0 free, 1 claimed, 2 written; [1] site; [2] linear block; [3] warp;
[4] parity; [5] index of the barrier."""

TENSOR_MAP = Helper("px_tensor_map", "struct alignas(128) px_tensor_map { unsigned long long opaque[16]; };")

ARRAY = Helper(
    "px_array",
    "template <class T, int rank>\n"
    "struct px_array {\n"
    "  T* data;\n"
    "  long long stride[rank];  // in elements\n"
    "  int shape[rank];\n"
    "};",
)
