"""JAX's foreign functions around an exported function: a handler that `jax.ffi` registers, and a file that does it.

The handler is C against the header that jaxlib brings (`jax.ffi.include_dir()`). Buffers of XLA are contiguous; sizes are
theirs. It runs on the stream that XLA gives it, and what the function needs for a workspace is XLA's scratch memory.
"""

from __future__ import annotations

import json

from phalanx.runtime.exporting.interface import ArrayItem, Interface, is_known, sizes_struct
from phalanx.runtime.exporting.parameters import ScalarParameter

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

HELPERS = r"""
static XLA_FFI_Error *px_error(const XLA_FFI_Api *api, XLA_FFI_Error_Code code, const char *text) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, code};
  return api->XLA_FFI_Error_Create(&args);
}

/* XLA asks a handler which version of its interface it was built for. */
static XLA_FFI_Error *px_metadata(XLA_FFI_Metadata_Extension *extension) {
  extension->metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  extension->metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  extension->metadata->traits = {traits};
  return NULL;
}

static int px_is(const XLA_FFI_Buffer *buffer, int rank, int dtype) {
  return buffer->rank == rank && (int)buffer->dtype == dtype;
}

static XLA_FFI_Error *px_failed(const XLA_FFI_Api *api, int status, const char *text) {
  return px_error(api, status < 0 ? XLA_FFI_Error_Code_INVALID_ARGUMENT : XLA_FFI_Error_Code_INTERNAL, text);
}

static CUdeviceptr px_data(const XLA_FFI_Buffer *buffer) { return (CUdeviceptr)(uintptr_t)buffer->data; }

#define PX_WRONG(text) return px_error(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, text)
#define PX_TRY(call)               \
  do {                             \
    XLA_FFI_Error *error = (call); \
    if (error) return error;       \
  } while (0)
"""

ATTRIBUTE = r"""
/* A number that is passed as an attribute of the call. */
static int px_attribute(const XLA_FFI_Attrs *attrs, const char *name, int64_t *whole, double *real) {
  int64_t n;
  for (n = 0; n < attrs->size; ++n) {
    const XLA_FFI_ByteSpan *called = attrs->names[n];
    if (attrs->types[n] != XLA_FFI_AttrType_SCALAR || called->len != strlen(name) || strncmp(called->ptr, name, called->len))
      continue;
    const XLA_FFI_Scalar *scalar = (const XLA_FFI_Scalar *)attrs->attrs[n];
    switch (scalar->dtype) {
      case XLA_FFI_DataType_F32: *real = *(const float *)scalar->value; *whole = (int64_t)*real; return 1;
      case XLA_FFI_DataType_F64: *real = *(const double *)scalar->value; *whole = (int64_t)*real; return 1;
      case XLA_FFI_DataType_S32: *whole = *(const int32_t *)scalar->value; break;
      case XLA_FFI_DataType_S64: *whole = *(const int64_t *)scalar->value; break;
      case XLA_FFI_DataType_U32: *whole = *(const uint32_t *)scalar->value; break;
      case XLA_FFI_DataType_PRED: *whole = *(const unsigned char *)scalar->value; break;
      default: return 0;
    }
    *real = (double)*whole;
    return 1;
  }
  return 0;
}
"""


def jax_source(interface: Interface) -> str:
    """The text of NAME_jax.c: the handler NAME_xla."""
    name = interface.name
    scalars = [item for item in interface.items if isinstance(item, ScalarParameter)]
    traits = "0" if interface.space else "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE"
    helpers = HELPERS.replace("{traits}", traits) + (ATTRIBUTE if scalars else "")
    lines = [
        "  const XLA_FFI_Api *api = frame->api;",
        "  px_sizes sizes;",
        "  const px_sizes *g = &sizes;",
        "  XLA_FFI_Stream_Get_Args stream = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, frame->ctx, NULL};",
        "  int status;",
        *(f"  const XLA_FFI_Buffer *px_{item.name};" for item in interface.arrays),
        *(f"  const XLA_FFI_Buffer *px_{result.name};" for result in interface.results),
        *(f"  {item.ctype} px_{item.name};" for item in scalars),
        *["  int64_t whole = 0;\n  double real = 0;"] * bool(scalars),
        "  (void)g;",
        "  if (frame->extension_start && frame->extension_start->type == XLA_FFI_Extension_Metadata)",
        "    return px_metadata((XLA_FFI_Metadata_Extension *)frame->extension_start);",
        "  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;",
        f"  if (frame->args.size != {len(interface.arrays)} || frame->rets.size != {len(interface.results)})",
        f'    PX_WRONG("{name} takes {len(interface.arrays)} arrays and gives {len(interface.results)}");',
    ]
    seen: set[str] = set()
    for number, item in enumerate(interface.arrays):
        lines += _buffer(interface, item, f"frame->args.args[{number}]", seen)
    for scalar in scalars:
        value = "real" if scalar.dtype in ("f32", "f64") else "whole"
        found = f'px_attribute(&frame->attrs, "{scalar.name}", &whole, &real)'
        lines.append(f'  if (!{found}) PX_WRONG("{name}: no number {scalar.name}");')
        lines.append(f"  px_{scalar.name} = ({scalar.ctype}){value};")
    for number, result in enumerate(interface.results):
        buffer = f"px_{result.name}"
        lines.append(f"  {buffer} = (const XLA_FFI_Buffer *)frame->rets.rets[{number}];")
        shape = ", ".join(size.text for size in result.shape)
        checks = [f"!px_is({buffer}, {len(result.shape)}, {XLA_TYPES[result.dtype]})"]
        known = [(n, size) for n, size in enumerate(result.shape) if is_known(interface, size)]
        checks += [f"{buffer}->dims[{n}] != ({size.c()})" for n, size in known]
        lines.append(f'  if ({" || ".join(checks)}) PX_WRONG("{name}: {result.name} is no {result.dtype} ({shape})");')
    lines += ["#ifndef PX_WITHOUT_STREAM", "  PX_TRY(api->XLA_FFI_Stream_Get(&stream));", "#endif"]  # tests run on a CPU
    passed = ["(CUstream)stream.stream", *(f"sizes.{size}" for size in interface.sizes)]
    for each in interface.items:
        passed += [f"px_{each.name}"] if isinstance(each, ScalarParameter) else [f"px_data(px_{each.name})", "NULL"]
    passed += [f"px_data(px_{each.name})" for each in interface.results]
    lines += _workspace(interface, passed) if interface.space else [f"  status = {name}({', '.join(passed)});"]
    lines += [
        f"  if (status != 0) return px_failed(api, status, {name}_message(status));",
        "  return NULL;",
    ]
    body = "\n".join(lines)
    return f"""/* {interface.described}: for JAX. The header comes with jaxlib, in jax.ffi.include_dir(). */
#include "{name}.h"

#include <stddef.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

{sizes_struct(interface)}{helpers}
XLA_FFI_Error *{name}_xla(XLA_FFI_CallFrame *frame);
XLA_FFI_Error *{name}_xla(XLA_FFI_CallFrame *frame) {{
{body}
}}
"""


def _buffer(interface: Interface, item: ArrayItem, place: str, seen: set[str]) -> list[str]:
    buffer = f"px_{item.name}"
    shape = ", ".join(map(str, item.shape))
    wrong = f'PX_WRONG("{interface.name}: {item.name} is no {item.dtype} ({shape})");'
    lines = [f"  {buffer} = (const XLA_FFI_Buffer *){place};"]
    lines.append(f"  if (!px_is({buffer}, {len(item.shape)}, {XLA_TYPES[item.dtype]})) {wrong}")
    for axis, size in enumerate(item.shape):
        if isinstance(size, str) and size not in seen:
            lines.append(f"  sizes.{size} = {buffer}->dims[{axis}];")
            seen.add(size)
        else:
            wanted = f"sizes.{size}" if isinstance(size, str) else str(size)
            lines.append(f"  if ({buffer}->dims[{axis}] != {wanted}) {wrong}")
    return lines


def _workspace(interface: Interface, passed: list[str]) -> list[str]:
    """Scratch memory of XLA's, with its first bytes 0 before each call: nobody knows what was there."""
    name, counted = interface.name, interface.space == "counters"
    lines = [
        "  {",
        f"    int64_t bytes = {interface.zeroed if counted else 0};",
        "    XLA_FFI_DeviceMemory_Allocate_Args space = "
        "{XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE, NULL, frame->ctx, 0, 256, NULL};",
    ]
    if not counted:
        lines.append(f"    status = {name}({', '.join([*passed, '0', '&bytes'])});")
        lines.append(f"    if (status != 0) return px_failed(api, status, {name}_message(status));")
    lines += [
        "    space.size = (size_t)bytes;",
        "    PX_TRY(api->XLA_FFI_DeviceMemory_Allocate(&space));",
        f"    status = (int)cuMemsetD8Async((CUdeviceptr)(uintptr_t)space.data, 0, {interface.zeroed}, stream.stream);"
        if interface.zeroed
        else "    status = 0;",
    ]
    given = [*passed, "(CUdeviceptr)(uintptr_t)space.data", *["&bytes"] * (not counted)]
    return [*lines, f"    if (status == 0) status = {name}({', '.join(given)});", "  }"]


def jax_module(interface: Interface) -> str:
    """The text of NAME_jax.py, which needs jax alone."""
    results = [
        {"dtype": JAX_NAMES[result.dtype], "shape": [size.text for size in result.shape]} for result in interface.results
    ]
    arrays = [{"name": item.name, "shape": list(item.shape)} for item in interface.arrays]
    scalars = {item.name: JAX_NAMES[item.dtype] for item in interface.items if isinstance(item, ScalarParameter)}
    return f'''"""{interface.described}, as a function of JAX arrays that jax.jit takes."""

import ctypes
from pathlib import Path

import jax
import numpy as np

ARRAYS = {json.dumps(arrays)}
RESULTS = {json.dumps(results)}
SCALARS = {json.dumps(scalars)}
_LIBRARY = ctypes.CDLL(str(Path(__file__).with_name("{interface.name}.so")))


def register(platform="CUDA"):
    """Makes the function known to XLA, once in a process."""
    jax.ffi.register_ffi_target("{interface.name}", jax.ffi.pycapsule(_LIBRARY.{interface.name}_xla), platform=platform)


def {interface.name}(*arrays, **numbers):
    """Calls it on arrays in the order of ARRAYS; the numbers of SCALARS by name. Gives its result, or a tuple."""
    if len(arrays) != len(ARRAYS) or set(numbers) != set(SCALARS):
        raise TypeError(f"{interface.name} takes {{[array['name'] for array in ARRAYS]}} and {{list(SCALARS)}} by name")
    sizes = {{}}
    for known, array in zip(ARRAYS, arrays):
        for size, extent in zip(known["shape"], array.shape):
            if isinstance(size, str):
                sizes.setdefault(size, extent)
    # The texts are arithmetic that was written with this file: integers, names of sizes and + - * // %.
    made = [
        jax.ShapeDtypeStruct(tuple(eval(size, {{"__builtins__": {{}}}}, sizes) for size in each["shape"]), each["dtype"])
        for each in RESULTS
    ]
    given = {{name: np.dtype(SCALARS[name]).type(value) for name, value in numbers.items()}}
    found = jax.ffi.ffi_call("{interface.name}", made)(*arrays, **given)
    return found[0] if len(found) == 1 else tuple(found)
'''
