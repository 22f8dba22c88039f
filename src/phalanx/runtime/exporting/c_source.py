"""The header and the C file of an exported kernel."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.frozen import frozen
from phalanx.ir.archs import arch_of
from phalanx.runtime.compiled import Compiled
from phalanx.runtime.exporting.c_helpers import (
    APART,
    DESCRIBE,
    ENCODE,
    FITTING,
    FLOOR_DIV,
    FLOOR_MOD,
    IN_BYTES,
    LOAD_AND_LAUNCH,
    STATUSES,
    TYPES,
    packed_array,
)
from phalanx.runtime.exporting.parameters import ArrayParameter, MapParameter, Parameters
from phalanx.runtime.exporting.sizes import Size

BYTES_A_LINE = 24


@frozen
class Launch:
    """What is written: a kernel for some targets, which all take the same parameters and run on the same grid.

    `grid` is None where it is as many clusters as fit on the device.
    """

    name: str
    parameters: Parameters
    grid: tuple[Size, Size, Size] | None
    programs: tuple[Compiled, ...]
    described: str

    @property
    def model(self) -> Compiled:
        """One of the programs, for what they have in common."""
        return self.programs[0]


def header(launch: Launch) -> str:
    """The text of NAME.h."""
    return header_of(launch.name, launch.described, _contract(launch), _prototype(launch))


def header_of(name: str, described: str, contract: str, prototype: str) -> str:
    """The header of an exported kernel or function: what it promises, its codes and its prototype."""
    guard, upper = f"PX_{name.upper()}_H", name.upper()
    codes = "\n".join(f"#define {upper}_{which} ({code}) /* {text} */" for which, (code, text) in STATUSES.items())
    return f"""#ifndef {guard}
#define {guard}
/* {described}

{contract} */
#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{codes}

{prototype};

/* What a status says, in English. */
const char *{name}_message(int status);

#ifdef __cplusplus
}}
#endif
#endif
"""


def source(launch: Launch) -> str:
    """The text of NAME.c, which with NAME_code.c and the driver library is all that a program needs."""
    parameters = launch.parameters
    helpers = "\n".join([TYPES, program_tables(launch.name, [launch.programs]), *_helpers(launch)])
    return f"""/* {launch.described} */
#include "{launch.name}.h"

#include <pthread.h>
#include <string.h>

{definitions(len(launch.programs), 1)}

{helpers}
{_tables(parameters)}{_prototype(launch)} {{
{_body(launch)}
}}

{message_function(launch.name)}"""


def definitions(images: int, programs: int) -> str:
    """The numbers that the helpers ask for."""
    numbers = {"IMAGES": images, "PROGRAMS": programs, **{name: f"({code})" for name, (code, _) in STATUSES.items()}}
    return "\n".join(f"#define PX_{name} {value}" for name, value in numbers.items())


def code_name(name: str, program: int, programs: int, arch: str) -> str:
    """What the machine code of a kernel for a target is called; kernels have a number where there are several."""
    return f"{name}_{program}_{arch}" if programs > 1 else f"{name}_{arch}"


def program_tables(name: str, programs: Sequence[Sequence[Compiled]]) -> str:
    """The tables of kernels and of targets. `programs` has each kernel for all targets."""
    count, codes, kernels, images = len(programs), [], [], []
    for number, (model, *_) in enumerate(programs):
        x, y, z = model.cluster
        as_cluster = model.addresses_cluster or model.cluster != (1, 1, 1)
        numbers = model.shared_bytes, 32 * model.warps, x, y, z, int(as_cluster), int(model.pdl), int(model.cooperative)
        kernels.append(f'  {{"{model.name}", {", ".join(map(str, numbers))}}},')
        codes += [f"extern const unsigned char {code_name(name, number, count, made.arch)}[];" for made in programs[number]]
    for at, made in enumerate(programs[0] if programs else ()):
        mine = ", ".join(code_name(name, number, count, each[at].arch) for number, each in enumerate(programs))
        images.append(f'  {{"{made.arch}", {_capability(made.arch)}, {{{mine}}}}},')
    kernel_table = "static const px_program px_programs[PX_PROGRAMS] = {{\n{}\n}};\n".format("\n".join(kernels))
    image_table = "static const px_image px_images[PX_IMAGES] = {{\n{}\n}};\n".format("\n".join(images))
    return "\n".join([*codes, kernel_table, image_table])


def message_function(name: str) -> str:
    """NAME_message: what a status says."""
    messages = "\n".join(f'    case PX_{name}: return "{text}";' for name, (_, text) in STATUSES.items())
    return f"""const char *{name}_message(int status) {{
  const char *text = NULL;
  switch (status) {{
    case 0: return "success";
{messages}
    default: break;
  }}
  if (status < 0 || cuGetErrorString((CUresult)status, &text) != CUDA_SUCCESS || !text) return "unknown";
  return text;
}}
"""


def code(launch: Launch) -> str:
    """The text of NAME_code.c: the machine code of every target."""
    return code_of(launch.name, launch.described, [launch.programs])


def code_of(name: str, described: str, programs: Sequence[Sequence[Compiled]]) -> str:
    """The text with the machine code of some kernels, each for all targets."""
    parts = [f"/* Machine code: {described} */"]
    for number, each in enumerate(programs):
        for made in each:
            lines = [made.cubin[n : n + BYTES_A_LINE] for n in range(0, len(made.cubin), BYTES_A_LINE)]
            text = "\n".join("  " + ", ".join(map(str, line)) + "," for line in lines)
            called = code_name(name, number, len(programs), made.arch)
            parts.append(
                f"extern const unsigned char {called}[];\n"
                f"_Alignas(16) const unsigned char {called}[{len(made.cubin)}] = {{\n{text}\n}};"
            )
    return "\n\n".join(parts) + "\n"


def cmake(name: str) -> str:
    """A snippet for CMake: a library target of the function's name."""
    return f"""# add_subdirectory(this folder), then target_link_libraries(your_program PRIVATE {name})
find_package(CUDAToolkit REQUIRED)
find_package(Threads REQUIRED)
add_library({name} STATIC {name}.c {name}_code.c)
set_target_properties({name} PROPERTIES C_STANDARD 11 POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({name} PUBLIC CUDA::cuda_driver Threads::Threads)
"""


def _capability(name: str) -> str:
    major, minor = arch_of(name).capability
    return f"{major}, {minor}, {int(name.endswith('f'))}"


def _contract(launch: Launch) -> str:
    """What a call's arguments have to be, for the comment in the header."""
    lines = [
        "Enqueues the kernel on the stream and returns 0, a CUresult, or a code below. A context has to be current.",
        "Arrays are device pointers; strides count elements, outermost axis first, and NULL means contiguous.",
    ]
    for item in launch.parameters.items:
        if isinstance(item, ArrayParameter):
            axes = ", ".join(map(str, item.shape))
            facts = ["aligned to 16 bytes"] * item.aligned + ["last axis contiguous"] * item.unit_inner
            lines.append(f"  {item.name}: {item.dtype} ({axes})" + (", " + ", ".join(facts) if facts else ""))
    for pair in launch.parameters.apart:
        lines.append("  {} and {} share no memory".format(*(launch.parameters.items[number].name for number in pair)))
    if launch.parameters.counters:
        lines.append(
            f"  counters: {launch.parameters.counters} int32, 0 before the first launch and 0 again after each; one array "
            "for each launch in flight"
        )
    return "\n".join(lines)


def _prototype(launch: Launch) -> str:
    parts = ["CUstream stream", *(f"int64_t {name}" for name in launch.parameters.sizes)]
    for item in launch.parameters.items:
        if isinstance(item, ArrayParameter):
            parts += [f"CUdeviceptr {item.name}", f"const int64_t *{item.name}_strides"]
        else:
            parts.append(f"{item.ctype} {item.name}")
    parts += ["CUdeviceptr counters"] * bool(launch.parameters.counters)
    return f"int {launch.name}({', '.join(parts)})"


def _tables(parameters: Parameters) -> str:
    lines = []
    for item in parameters.items:
        if isinstance(item, ArrayParameter):
            facts = (item.unit_inner, item.aligned, item.whole, item.contiguous)
            numbers = ", ".join(map(str, (len(item.shape), item.share, item.nbytes, *map(int, facts))))
            lines.append(f"static const px_kind px_kind_of_{item.name} = {{{numbers}}};")
    lines += [f"static const px_map_kind px_map_{n} = {map_text(item)};" for n, item in enumerate(parameters.maps)]
    return "\n".join(lines) + "\n\n" if lines else ""


def map_text(item: MapParameter) -> str:
    """A kind of descriptor as a px_map_kind in C."""
    numbers = (
        len(item.box), item.merged, item.data_type, item.share, item.nbytes, item.swizzle, item.l2_promotion,
        int(item.fill_nan), int(item.expands),
    )  # fmt: skip
    box, axes = (", ".join(map(str, part)) for part in (item.box, item.axes))
    return f"{{{', '.join(map(str, numbers))}, {{{box}}}, {{{axes}}}}}"


CHECKED = "  if (status != 0) return status;"


def _body(launch: Launch) -> str:
    """Describe and check, find the grid, encode, pack, launch."""
    parameters = launch.parameters
    arrays = [item for item in parameters.items if isinstance(item, ArrayParameter)]
    lines = [*_variables(parameters, arrays), ""]
    lines += [f"  if ({name} < 0 || {name} > INT32_MAX) return PX_BAD_SIZE;" for name in parameters.sizes]
    for array in arrays:
        name = array.name
        call = f"px_describe(&{name}_view, &px_kind_of_{name}, {name}, {name}_shape, {name}_strides)"
        lines += [f"  status = {call};", CHECKED]
    for pair in parameters.apart:
        a, b = (parameters.items[number].name for number in pair)
        lines.append(f"  if (!px_apart(&{a}_view, &px_kind_of_{a}, &{b}_view, &px_kind_of_{b})) return PX_SHARES_MEMORY;")
    if parameters.counters:
        lines.append("  if (!counters) return PX_NULL_POINTER;")
    lines += ["  status = px_load(0, &kernel, &device);", CHECKED, *_grid(launch)]
    lines.append("  if (x == 0 || y == 0 || z == 0) return 0; /* nothing to do */")
    # A descriptor that expands counts elements; all else counts bytes where elements share them.
    maps = list(enumerate(parameters.maps))
    lines += [line for number, item in maps if item.expands for line in _encoding(number, parameters, item)]
    for array in arrays:
        lines += _packing(array)
    if parameters.counters:
        lines.append("  counters_packed.data = counters;\n  counters_packed.stride[0] = 1;")
        lines.append(f"  counters_packed.shape[0] = {parameters.counters};")
    lines += [line for number, item in maps if not item.expands for line in _encoding(number, parameters, item)]
    lines.append("  return px_launch(0, kernel, stream, x, y, z, parameters);")
    return "\n".join(lines)


def _variables(parameters: Parameters, arrays: list[ArrayParameter]) -> list[str]:
    lines = ["  CUkernel kernel;", "  CUdevice device;", "  int status;", "  int64_t x, y, z;"]
    for array in arrays:
        rank, sizes = len(array.shape), ", ".join(map(str, array.shape)) or "0"
        lines.append(f"  const int64_t {array.name}_shape[] = {{{sizes}}};")
        lines.append(f"  px_view {array.name}_view;")
        lines.append(f"  {packed_array(rank)} {array.name}_packed = {{0}};")
    if parameters.counters:
        lines.append(f"  {packed_array(1)} counters_packed = {{0}};")
    numbers = range(len(parameters.maps))
    lines += [f"  CUtensorMap map_{number};" for number in numbers]
    packed = [f"&{item.name}{'_packed' if isinstance(item, ArrayParameter) else ''}" for item in parameters.items]
    packed += ["&counters_packed"] * bool(parameters.counters) + [f"&map_{number}" for number in numbers]
    lines.append(f"  void *parameters[] = {{{', '.join(f'(void *){name}' for name in packed) or 'NULL'}}};")
    return lines


def _grid(launch: Launch) -> list[str]:
    if launch.grid is not None:
        return [f"  {axis} = {size.text};" for axis, size in zip("xyz", launch.grid, strict=True)]
    x, y, z = launch.model.cluster
    return ["  status = px_fitting(0, kernel, device, &x);", CHECKED, f"  x *= {x};", f"  y = {y};", f"  z = {z};"]


def _packing(array: ArrayParameter) -> list[str]:
    name = array.name
    lines = [f"  px_in_bytes(&{name}_view, {array.share});"] * array.in_bytes
    lines.append(f"  {name}_packed.data = {name};")
    for axis in range(len(array.shape)):
        lines.append(f"  {name}_packed.stride[{axis}] = {name}_view.stride[{axis}];")
        lines.append(f"  {name}_packed.shape[{axis}] = (int32_t){name}_view.shape[{axis}];")
    return lines


def _encoding(number: int, parameters: Parameters, item: MapParameter) -> list[str]:
    array = parameters.items[item.array].name
    return [f"  status = px_encode(&map_{number}, &px_map_{number}, &{array}_view);", CHECKED]


def _helpers(launch: Launch) -> list[str]:
    """The functions that this launcher calls; others would be warned of."""
    arrays = [item for item in launch.parameters.items if isinstance(item, ArrayParameter)]
    grid = "" if launch.grid is None else " ".join(size.text for size in launch.grid)
    chosen = (
        (FLOOR_DIV, "px_floor" in grid or bool(launch.parameters.apart)), (FLOOR_MOD, "px_floor_mod" in grid),
        (DESCRIBE, bool(arrays)), (APART, bool(launch.parameters.apart)),
        (IN_BYTES, any(item.in_bytes for item in arrays)), (ENCODE, bool(launch.parameters.maps)),
        (LOAD_AND_LAUNCH, True), (FITTING, launch.grid is None),
    )  # fmt: skip
    return [text for text, used in chosen if used]
