"""The calling convention of tvm-ffi around an exported function: `__tvm_ffi_NAME`, which takes DLPack tensors.

The arguments are the function's arrays and numbers in their order, then its results, then its workspace, if it has one;
sizes are those of the tensors, strides too. It runs on the stream that tvm-ffi has for the tensors' device. Where there is a
workspace, `__tvm_ffi_NAME_workspace` takes the same arguments but for that one, and gives the bytes that it needs.
"""

from __future__ import annotations

from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.c_parts import c_text
from phalanx.runtime.exporting.c_source import ctype, sizes_struct
from phalanx.runtime.exporting.endings import Result
from phalanx.runtime.symbolic.tracing import ArrayGiven, ScalarGiven

DLPACK_TYPES = {
    "f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "i8": (0, 8), "i16": (0, 16), "i32": (0, 32),
    "i64": (0, 64), "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64), "bool": (6, 8), "f8e4m3": (10, 8),
    "f8e5m2": (12, 8), "f8e8m0": (14, 8), "f6e2m3": (15, 6), "f6e3m2": (16, 6), "f4e2m1": (17, 4),
}  # fmt: skip
"""Code and bits of DLPack by our names; the value of an enumerator of dlpack.h."""


def tvm_ffi_source(made: CFunction) -> str:
    """The text of NAME_tvm_ffi.c."""
    functions = [_function(made, query=False)]
    if made.has_workspace:
        functions.append(_function(made, query=True))
    return f"""/* {made.described}: for tvm-ffi. Its headers come with the package apache-tvm-ffi. */
#include "{made.name}.h"

#include <stddef.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

{sizes_struct(made)}{c_text("tvm_ffi.c")}
{chr(10).join(functions)}"""


def _function(made: CFunction, *, query: bool) -> str:
    name = made.name
    given: list[ArrayGiven | ScalarGiven | Result] = [*made.arguments, *made.results]
    count = len(given) + (made.has_workspace and not query)
    symbol = f"__tvm_ffi_{name}{'_workspace' if query else ''}"
    tensors = [item for item in given if not isinstance(item, ScalarGiven)]
    lines = [
        f"TVM_FFI_DLL_EXPORT int {symbol}(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);",
        f"TVM_FFI_DLL_EXPORT int {symbol}(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result) {{",
        "  px_sizes sizes;",
        "  const px_sizes *g = &sizes;",
        "  int status;",
        "  CUstream stream;",
    ]
    lines += [f"  const DLTensor *px_{item.name};" for item in tensors]
    lines += [f"  {ctype(item.dtype)} px_{item.name};" for item in made.arguments if isinstance(item, ScalarGiven)]
    if made.has_workspace:
        lines.append("  int64_t bytes = 0;")
        lines += ["  const DLTensor *px_space;"] * (not query)
    takes = ", ".join([*(item.name for item in given), *["workspace"] * (count > len(given))])
    lines += [
        "  (void)self, (void)g;",
        f'  if (num_args != {count}) return px_raise("TypeError", "{name} takes {count} arguments: {takes}");',
    ]
    seen: set[str] = set()
    for number, item in enumerate(given):
        if isinstance(item, ScalarGiven):
            lines += _scalar(name, number, item)
            continue
        code, bits = DLPACK_TYPES[item.dtype]
        sizes = item.shape if isinstance(item, Result) else item.sizes
        shape = ", ".join(size.text if not isinstance(size, int | str) else str(size) for size in sizes)
        wrong = f"{name}: {item.name} is no tensor of {item.dtype} with axes ({shape}) on a GPU"
        tensor, rank = f"px_{item.name}", len(sizes)
        lines.append(f'  if (px_tensor(&args[{number}], {rank}, {code}, {bits}, &{tensor}, "{wrong}")) return -1;')
        refused = f'return px_raise("ValueError", "{wrong}");'
        for axis, size in enumerate(sizes):
            if isinstance(size, str):
                if size in seen:
                    lines.append(f"  if ({tensor}->shape[{axis}] != sizes.{size}) {refused}")
                else:
                    lines.append(f"  sizes.{size} = {tensor}->shape[{axis}];")
                    seen.add(size)
            elif isinstance(size, int):
                lines.append(f"  if ({tensor}->shape[{axis}] != {size}) {refused}")
            elif made.knows(size):
                lines.append(f"  if ({tensor}->shape[{axis}] != ({size.c()})) {refused}")
        if isinstance(item, Result):
            lines += _result_strides(made, item, f"{name}: {item.name} has other strides than the function writes")
        first = next(each for each in tensors)
        if item is not first:
            lines.append(
                f"  if ({tensor}->device.device_id != px_{first.name}->device.device_id) "
                f'return px_raise("ValueError", "{name}: {item.name} is on another GPU than {first.name}");'
            )
    if made.has_workspace and not query:
        wrong = f"{name}: workspace is no vector of u8 on a GPU"
        lines.append(f'  if (px_tensor(&args[{len(given)}], 1, 1, 8, &px_space, "{wrong}")) return -1;')
        lines.append("  bytes = px_space->shape[0];")
    first_name = tensors[0].name
    device = f"px_{first_name}->device"
    lines.append(f"  stream = (CUstream)TVMFFIEnvGetStream({device}.device_type, {device}.device_id);")
    passed = ["stream", *(f"sizes.{size}" for size in made.sizes)]
    for item in made.arguments:
        as_array = [f"px_data(px_{item.name})", f"px_{item.name}->strides"]
        passed += [f"px_{item.name}"] if isinstance(item, ScalarGiven) else as_array
    passed += [f"px_data(px_{item.name})" for item in made.results]
    if made.has_workspace:
        passed += ["0" if query else "px_data(px_space)", "&bytes"]
    lines += [
        f"  status = px_enter(px_{first_name});",
        f'  if (status != 0) return px_raise("RuntimeError", {name}_message(status));',
        f"  status = {name}({', '.join(passed)});",
        "  px_leave();",
        f'  if (status != 0) return px_raise(status < 0 ? "ValueError" : "RuntimeError", {name}_message(status));',
    ]
    kind, value = ("Int", "bytes") if query else ("None", "0")
    lines += [f"  result->type_index = kTVMFFI{kind};", "  result->zero_padding = 0;", f"  result->v_int64 = {value};"]
    return "\n".join([*lines, "  return 0;", "}", ""])


def _scalar(name: str, number: int, item: ScalarGiven) -> list[str]:
    value, wrong = f"args[{number}]", f"{name}: {item.name} is no number"
    whole = f"{value}.type_index == kTVMFFIInt || {value}.type_index == kTVMFFIBool"
    if item.dtype in ("f32", "f64"):
        return [
            f"  if ({value}.type_index == kTVMFFIFloat) px_{item.name} = ({ctype(item.dtype)}){value}.v_float64;",
            f"  else if ({whole}) px_{item.name} = ({ctype(item.dtype)}){value}.v_int64;",
            f'  else return px_raise("TypeError", "{wrong}");',
        ]
    return [
        f'  if (!({whole})) return px_raise("TypeError", "{name}: {item.name} is no integer");',
        f"  px_{item.name} = ({ctype(item.dtype)}){value}.v_int64;",
        f"  if ((int64_t)px_{item.name} != {value}.v_int64) "
        f'return px_raise("ValueError", "{name}: {item.name} does not fit {item.dtype}");',
    ]


def _result_strides(made: CFunction, item: Result, wrong: str) -> list[str]:
    """A result lies as the function writes it; DLPack without strides is contiguous."""
    tensor, lines = f"px_{item.name}", []
    for axis, step in enumerate(item.strides):
        if made.knows(step):
            differs = f"{tensor}->strides && {tensor}->shape[{axis}] > 1 && {tensor}->strides[{axis}] != ({step.c()})"
            lines.append(f'  if ({differs}) return px_raise("ValueError", "{wrong}");')
    return lines
