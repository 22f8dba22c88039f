"""JAX's foreign functions around an exported function: a handler that `jax.ffi` registers, and a file that does it.

The handler is C against the header that jaxlib brings (`jax.ffi.include_dir()`). Buffers of XLA are contiguous; sizes are
theirs. It runs on the stream that XLA gives it, and what the function needs for a workspace is XLA's scratch memory.
"""

from __future__ import annotations

import json

from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.c_parts import needed
from phalanx.runtime.exporting.c_source import ctype, sizes_struct
from phalanx.runtime.symbolic.tracing import ArrayGiven, ScalarGiven

XLA_TYPES = {
    "bool": 1, "i8": 2, "i16": 3, "i32": 4, "i64": 5, "u8": 6, "u16": 7, "u32": 8, "u64": 9, "f16": 10, "f32": 11, "f64": 12,
    "bf16": 16, "f8e5m2": 19, "f8e4m3": 20, "f4e2m1": 32, "f8e8m0": 33,
}  # fmt: skip
"""XLA_FFI_DataType by our names."""
JAX_NAMES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
    "f8e5m2": "float8_e5m2", "f8e4m3": "float8_e4m3fn", "f4e2m1": "float4_e2m1fn", "f8e8m0": "float8_e8m0fnu",
}  # fmt: skip


def jax_source(made: CFunction) -> str:
    """The text of NAME_jax.c: the handler NAME_xla."""
    name = made.name
    scalars = [item for item in made.arguments if isinstance(item, ScalarGiven)]
    traits = "0" if made.has_workspace else "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE"
    lines = [
        "  const XLA_FFI_Api *api = frame->api;",
        "  px_sizes sizes;",
        "  const px_sizes *g = &sizes;",
        "  XLA_FFI_Stream_Get_Args stream = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, frame->ctx, NULL};",
        "  int status;",
        *(f"  const XLA_FFI_Buffer *px_{item.name};" for item in made.arrays),
        *(f"  const XLA_FFI_Buffer *px_{result.name};" for result in made.results),
        *(f"  {ctype(item.dtype)} px_{item.name};" for item in scalars),
        *["  int64_t whole = 0;\n  double real = 0;"] * bool(scalars),
        "  (void)g;",
        "  if (frame->extension_start && frame->extension_start->type == XLA_FFI_Extension_Metadata)",
        "    return px_metadata((XLA_FFI_Metadata_Extension *)frame->extension_start);",
        "  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;",
        f"  if (frame->args.size != {len(made.arrays)} || frame->rets.size != {len(made.results)})",
        f'    PX_WRONG("{name} takes {len(made.arrays)} arrays and gives {len(made.results)}");',
    ]
    seen: set[str] = set()
    for number, item in enumerate(made.arrays):
        lines += _buffer(made, item, f"frame->args.args[{number}]", seen)
    for scalar in scalars:
        value = "real" if scalar.dtype in ("f32", "f64") else "whole"
        found = f'px_attribute(&frame->attrs, "{scalar.name}", &whole, &real)'
        lines.append(f'  if (!{found}) PX_WRONG("{name}: no number {scalar.name}");')
        lines.append(f"  px_{scalar.name} = ({ctype(scalar.dtype)}){value};")
    for number, result in enumerate(made.results):
        buffer = f"px_{result.name}"
        lines.append(f"  {buffer} = (const XLA_FFI_Buffer *)frame->rets.rets[{number}];")
        shape = ", ".join(size.text for size in result.shape)
        checks = [f"!px_is({buffer}, {len(result.shape)}, {XLA_TYPES[result.dtype]})"]
        known = [(n, size) for n, size in enumerate(result.shape) if made.knows(size)]
        checks += [f"{buffer}->dims[{n}] != ({size.c()})" for n, size in known]
        lines.append(f'  if ({" || ".join(checks)}) PX_WRONG("{name}: {result.name} is no {result.dtype} ({shape})");')
    lines += ["#ifndef PX_WITHOUT_STREAM", "  PX_TRY(api->XLA_FFI_Stream_Get(&stream));", "#endif"]  # tests run on a CPU
    passed = ["(CUstream)stream.stream", *(f"sizes.{size}" for size in made.sizes)]
    for each in made.arguments:
        passed += [f"px_{each.name}"] if isinstance(each, ScalarGiven) else [f"px_data(px_{each.name})", "NULL"]
    passed += [f"px_data(px_{each.name})" for each in made.results]
    lines += _workspace(made, passed) if made.has_workspace else [f"  status = {name}({', '.join(passed)});"]
    lines += [
        f"  if (status != 0) return px_failed(api, status, {name}_message(status));",
        "  return NULL;",
    ]
    body = "\n".join(lines)
    return f"""/* {made.described}: for JAX. The header comes with jaxlib, in jax.ffi.include_dir(). */
#include "{name}.h"

#include <stddef.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define PX_TRAITS {traits}
{sizes_struct(made)}
{needed("jax.c", "px_metadata " + body)}
XLA_FFI_Error *{name}_xla(XLA_FFI_CallFrame *frame);
XLA_FFI_Error *{name}_xla(XLA_FFI_CallFrame *frame) {{
{body}
}}
"""


def _buffer(made: CFunction, item: ArrayGiven, place: str, seen: set[str]) -> list[str]:
    buffer = f"px_{item.name}"
    shape = ", ".join(map(str, item.sizes))
    wrong = f'PX_WRONG("{made.name}: {item.name} is no {item.dtype} ({shape})");'
    lines = [f"  {buffer} = (const XLA_FFI_Buffer *){place};"]
    lines.append(f"  if (!px_is({buffer}, {len(item.sizes)}, {XLA_TYPES[item.dtype]})) {wrong}")
    for axis, size in enumerate(item.sizes):
        if isinstance(size, str) and size not in seen:
            lines.append(f"  sizes.{size} = {buffer}->dims[{axis}];")
            seen.add(size)
        else:
            wanted = f"sizes.{size}" if isinstance(size, str) else str(size)
            lines.append(f"  if ({buffer}->dims[{axis}] != {wanted}) {wrong}")
    return lines


def _workspace(made: CFunction, passed: list[str]) -> list[str]:
    """Scratch memory of XLA's, with its first bytes 0 before each call: nobody knows what was there."""
    name, zeroed = made.name, made.endings.counters
    cleared = f"(int)cuMemsetD8Async((CUdeviceptr)(uintptr_t)space.data, 0, {zeroed}, stream.stream)"
    return [
        "  {",
        "    int64_t bytes = 0;",
        "    XLA_FFI_DeviceMemory_Allocate_Args space = "
        "{XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE, NULL, frame->ctx, 0, 256, NULL};",
        f"    status = {name}({', '.join([*passed, '0', '&bytes'])});",
        f"    if (status != 0) return px_failed(api, status, {name}_message(status));",
        "    space.size = (size_t)bytes;",
        "    PX_TRY(api->XLA_FFI_DeviceMemory_Allocate(&space));",
        f"    status = {cleared if zeroed else 0};",
        f"    if (status == 0) status = {name}({', '.join([*passed, '(CUdeviceptr)(uintptr_t)space.data', '&bytes'])});",
        "  }",
    ]


def jax_module(made: CFunction) -> str:
    """The text of NAME_jax.py, which needs jax alone."""
    shapes = ["".join(f"{size.text}, " for size in result.shape) for result in made.results]
    results = ", ".join(f'(({shape}), "{JAX_NAMES[result.dtype]}")' for shape, result in zip(shapes, made.results))
    sizes = dict.fromkeys(size for item in made.arrays for size in item.sizes if isinstance(size, str))
    arrays = [{"name": item.name, "shape": list(item.sizes)} for item in made.arrays]
    scalars = {item.name: JAX_NAMES[item.dtype] for item in made.arguments if isinstance(item, ScalarGiven)}
    return f'''"""{made.described}, as a function of JAX arrays that jax.jit takes."""

import ctypes
from pathlib import Path

import jax
import numpy as np

ARRAYS = {json.dumps(arrays)}
SCALARS = {json.dumps(scalars)}
_LIBRARY = ctypes.CDLL(str(Path(__file__).with_name("{made.name}.so")))


def _results({", ".join(sizes)}):
    """Shapes and types of the results, by what the sizes of the arrays are."""
    return [{results}]


def register(platform="CUDA"):
    """Makes the function known to XLA, once in a process."""
    jax.ffi.register_ffi_target("{made.name}", jax.ffi.pycapsule(_LIBRARY.{made.name}_xla), platform=platform)


def {made.name}(*arrays, **numbers):
    """Calls it on arrays in the order of ARRAYS; the numbers of SCALARS by name. Gives its result, or a tuple."""
    if len(arrays) != len(ARRAYS) or set(numbers) != set(SCALARS):
        raise TypeError(f"{made.name} takes {{[array['name'] for array in ARRAYS]}} and {{list(SCALARS)}} by name")
    sizes = {{}}
    for known, array in zip(ARRAYS, arrays):
        for size, extent in zip(known["shape"], array.shape):
            if isinstance(size, str):
                sizes.setdefault(size, extent)
    made = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in _results(**sizes)]
    given = {{name: np.dtype(SCALARS[name]).type(value) for name, value in numbers.items()}}
    found = jax.ffi.ffi_call("{made.name}", made)(*arrays, **given)
    return found[0] if len(found) == 1 else tuple(found)
'''
