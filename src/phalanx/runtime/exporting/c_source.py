"""The header and the C files of an exported function: its checks, the tree of its ways, and the launches at their ends."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from phalanx.cuda.abi import SCALAR_FORMATS
from phalanx.ir.archs import arch_of
from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.c_parts import STATUSES, c_text, needed, packed_array
from phalanx.runtime.exporting.endings import CArray, CLaunch, CScalar, Ending, Result
from phalanx.runtime.exporting.exported_ways import End, Fork, Tree
from phalanx.runtime.exporting.parameters import MapParameter
from phalanx.runtime.symbolic.expressions import Expression
from phalanx.runtime.symbolic.numbers import Guard
from phalanx.runtime.symbolic.reals import RealExpression
from phalanx.runtime.symbolic.tracing import ArrayGiven

BYTES_A_LINE = 24
FAILED = "if (status != 0) return status;"


def ctype(dtype: str) -> str:
    """The C type of a number."""
    return SCALAR_FORMATS[dtype][1]


# The header ------------------------------------------------------------------------------------------------


def header(made: CFunction) -> str:
    """The text of NAME.h: what the function promises, its codes and its prototype."""
    guard = f"PX_{made.name.upper()}_H"
    codes = "\n".join(
        f"#define {made.name.upper()}_{which} ({number}) /* {text} */" for which, (number, text) in STATUSES.items()
    )
    return f"""#ifndef {guard}
#define {guard}
/* {made.described}

{_contract(made)} */
#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{codes}

{_prototype(made)};

/* What a status says, in English. */
const char *{made.name}_message(int status);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _prototype(made: CFunction) -> str:
    parts = ["CUstream stream", *(f"int64_t {size}" for size in made.sizes)]
    for given in made.arguments:
        if isinstance(given, ArrayGiven):
            parts += [f"CUdeviceptr {given.name}", f"const int64_t *{given.name}_strides"]
        else:
            parts.append(f"{ctype(given.dtype)} {given.name}")
    parts += [f"CUdeviceptr {result.name}" for result in made.results]
    if made.has_workspace:
        parts += ["CUdeviceptr workspace", "int64_t *workspace_bytes"]
    return f"int {made.name}({', '.join(parts)})"


def _contract(made: CFunction) -> str:
    """What a call's arguments have to be, for the comment in the header."""
    lines = [
        "Enqueues its kernels on the stream and returns 0, a CUresult, or a code below. A context has to be current.",
        "Arrays are device pointers; strides count elements, outermost axis first, and NULL means contiguous.",
    ]
    if not isinstance(made.tree, End):
        lines.append(
            "Sizes, strides and addresses for which the function would take a way that was not exported get a code below."
        )
    for array in made.arrays:
        kind = made.kinds[array.name]
        facts = ["aligned to 16 bytes"] * kind.aligned + ["last axis contiguous"] * kind.unit_inner
        lines.append(", ".join([f"  {array.name}: {array.dtype} ({', '.join(map(str, array.sizes))})", *facts]))
    apart = {_called(launch, pair) for launch in made.endings.launches for pair in launch.apart}
    lines += [f"  {' and '.join(names)} share no memory" for names in sorted(apart)]
    lines += [
        f"  {result.name}: {result.dtype} ({', '.join(size.text for size in result.shape)}) with strides "
        f"({', '.join(step.text for step in result.strides)}), aligned to 16 bytes; it is written"
        for result in made.results
    ]
    if made.has_workspace:
        lines += [
            "  workspace: aligned to 256 bytes. With 0 in its place the call launches nothing, and writes to",
            "    workspace_bytes how many it needs; else workspace_bytes says how many there are. One for each call.",
        ]
        if made.endings.counters:
            lines.append(f"    Its first {made.endings.counters} bytes are 0 before the first call; calls leave them 0.")
    return "\n".join(lines)


def _called(launch: CLaunch, pair: tuple[int, int]) -> tuple[str, ...]:
    views = [launch.arguments[number] for number in pair]
    return tuple(each.view.memory for each in views if isinstance(each, CArray))


# The source ------------------------------------------------------------------------------------------------


def source(made: CFunction) -> str:
    """The text of NAME.c, which with NAME_code.c and the driver library is all that a program needs."""
    texts = {id(ending): _ending_body(ending) for ending in made.endings.of.values()}
    order = {text: number for number, text in enumerate(dict.fromkeys(texts.values()))}
    numbers = {key: order[texts[id(ending)]] for key, ending in made.endings.of.items()}
    takes = "CUstream stream, px_given *g, CUdeviceptr workspace, int64_t *workspace_bytes"
    bodies = "\n".join(f"static int px_end_{number}({takes}) {{\n{text}\n}}\n" for text, number in order.items())
    choose = "\n".join(_tree_lines(made, made.tree, numbers, 1))
    main = _main(made, len(order))
    kinds = {map_text(item): _key(item) for launch in made.endings.launches for item in launch.maps}
    maps = "".join(f"static const px_map_kind px_map_{key} = {text};\n" for text, key in kinds.items())
    arrays = "".join(f"static const px_kind px_kind_of_{name} = {{{kind.c}}};\n" for name, kind in made.kinds.items())
    includes = "#include <pthread.h>\n#include <string.h>\n" if made.endings.launches else "#include <stddef.h>\n"
    images, programs = (len(made.programs[0]), len(made.programs)) if made.programs else (1, 1)
    defined = {"IMAGES": images, "PROGRAMS": programs, **{name: f"({code})" for name, (code, _) in STATUSES.items()}}
    definitions = "\n".join(f"#define PX_{name} {value}" for name, value in defined.items())
    return f"""/* {made.described} */
#include "{made.name}.h"

{includes}
{definitions}

{c_text("types.h")}
{_program_tables(made)}
{needed("functions.c", choose + bodies + main)}{maps}{arrays}
{_given_type(made)}

{bodies}
/* Which launches follow for these arguments, or why none do. */
static int px_choose(const px_given *g) {{
  (void)g;
{choose}
}}

{main}
{_message_function(made.name)}"""


def _program_tables(made: CFunction) -> str:
    """The tables of kernels and of targets."""
    if not made.programs:
        return ""
    codes, kernels, images = [], [], []
    for number, (model, *_) in enumerate(made.programs):
        x, y, z = model.cluster
        as_cluster = model.addresses_cluster or model.cluster != (1, 1, 1)
        numbers = model.shared_bytes, 32 * model.warps, x, y, z, int(as_cluster), int(model.pdl), int(model.cooperative)
        kernels.append(f'  {{"{model.name}", {", ".join(map(str, numbers))}}},')
        codes += [f"extern const unsigned char {made.code_name(number, arch)}[];" for arch in made.archs]
    for arch in made.archs:
        mine = ", ".join(made.code_name(number, arch) for number in range(len(made.programs)))
        major, minor = arch_of(arch).capability
        images.append(f'  {{"{arch}", {major}, {minor}, {int(arch.endswith("f"))}, {{{mine}}}}},')
    kernel_table = "static const px_program px_programs[PX_PROGRAMS] = {{\n{}\n}};\n".format("\n".join(kernels))
    image_table = "static const px_image px_images[PX_IMAGES] = {{\n{}\n}};\n".format("\n".join(images))
    return "\n".join([*codes, kernel_table, image_table])


def map_text(item: MapParameter) -> str:
    """A kind of descriptor as a px_map_kind in C."""
    numbers = (
        len(item.box), item.merged, item.data_type, item.share, item.nbytes, item.swizzle, item.l2_promotion,
        int(item.fill_nan), int(item.expands),
    )  # fmt: skip
    box, axes = (", ".join(map(str, part)) for part in (item.box, item.axes))
    return f"{{{', '.join(map(str, numbers))}, {{{box}}}, {{{axes}}}}}"


def _key(item: MapParameter) -> str:
    """A name for a kind of descriptor: its numbers."""
    return hashlib.sha256(map_text(item).encode()).hexdigest()[:8]


def _message_function(name: str) -> str:
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


def code(made: CFunction) -> str:
    """The text of NAME_code.c: the machine code of all kernels, each for every target."""
    parts = [f"/* Machine code: {made.described} */"]
    for number, each in enumerate(made.programs):
        for program in each:
            cubin = program.cubin
            lines = [cubin[n : n + BYTES_A_LINE] for n in range(0, len(cubin), BYTES_A_LINE)]
            text = "\n".join("  " + ", ".join(map(str, line)) + "," for line in lines)
            called = made.code_name(number, program.arch)
            parts.append(
                f"extern const unsigned char {called}[];\n"
                f"_Alignas(16) const unsigned char {called}[{len(cubin)}] = {{\n{text}\n}};"
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


def _given_type(made: CFunction) -> str:
    names = [*made.sizes, *(given.name for given in made.scalars if not _is_real(given.dtype))]
    for array in made.arrays:
        names += [array.name, *(array.stride(axis) for axis in range(len(array.sizes)))]
    memories = {name for ending in made.endings.of.values() for name, _ in ending.scratch}
    names += sorted(memories | {result.memory for result in made.results})
    reals = [f"  double {given.name};" for given in made.scalars if _is_real(given.dtype)]
    told = "/* All that a call passes: sizes, addresses, strides by axis, and numbers. */"
    return "\n".join([told, "typedef struct {", f"  px_int {', '.join(names) or 'none'};", *reals, "} px_given;"])


def _is_real(dtype: str) -> bool:
    return dtype in ("f32", "f64")


def sizes_struct(made: CFunction) -> str:
    """C that the expressions of results refer to, for what is written around the function: the named sizes."""
    texts = " ".join(part.c() for result in made.results for part in (*result.shape, *result.strides))
    names = ", ".join(made.sizes) or "none"
    divisions = needed("functions.c", texts)
    sizes = f"typedef struct {{ int64_t {names}; }} px_sizes;\n"
    return f"{sizes}typedef int64_t px_int;\n{divisions}" if divisions else sizes


# The tree --------------------------------------------------------------------------------------------------


def _tree_lines(made: CFunction, tree: Tree, numbers: dict[int, int], depth: int) -> list[str]:
    """Nested comparisons; an end without launches of its own is a code, which the guard before it decides."""
    pad = "  " * depth
    lines: list[str] = []
    while isinstance(tree, Fork):
        guard = tree.guard
        holds, fails = _is_end(tree.holds), _is_end(tree.fails)
        if not holds and not fails:
            break
        if holds and fails:
            lines.append(f"{pad}if ({guard.c()}) {{")
            lines += _tree_lines(made, tree.holds, numbers, depth + 1)
            lines.append(f"{pad}}}")
            tree = tree.fails
            continue
        condition = guard.c() if fails else f"!({guard.c()})"
        lines.append(f"{pad}if ({condition}) return {_code(made, guard)};")
        tree = tree.fails if fails else tree.holds
    if isinstance(tree, End):
        return [*lines, f"{pad}return {numbers[id(tree.way)]};"]
    return [*lines, f"{pad}return PX_BAD_SIZE;"]


def _is_end(tree: Tree) -> bool:
    """Whether some way from here leads to launches, or to nothing to do."""
    return isinstance(tree, End) or (isinstance(tree, Fork) and (_is_end(tree.holds) or _is_end(tree.fails)))


def _code(made: CFunction, guard: Guard) -> str:
    names = {array.name for array in made.arrays}
    if guard.symbols & {given.name for given in made.scalars}:
        return "PX_BAD_NUMBER"
    if guard.symbols & names:
        return "PX_SHARES_MEMORY" if len(guard.symbols & names) > 1 else "PX_BAD_ALIGNMENT"
    return "PX_BAD_SIZE" if guard.symbols <= set(made.sizes) else "PX_BAD_STRIDE"


# Ends ---------------------------------------------------------------------------------------------------


def _ending_body(ending: Ending) -> str:
    lines = ["  int status = 0;", "  (void)stream, (void)g, (void)workspace, (void)workspace_bytes;"]
    needed = ending.workspace
    if needed.constant != 0:
        lines += [
            f"  const px_int needed = {needed.c()};",
            "  if (!workspace_bytes) return PX_NULL_POINTER;",
            "  if (needed > PX_MOST_ELEMENTS) return PX_BAD_SIZE;",
            "  if (!workspace) {",
            "    *workspace_bytes = (int64_t)needed;",
            "    return 0;",
            "  }",
            "  if (workspace % 256 || *workspace_bytes < needed) return PX_BAD_WORKSPACE;",
        ]
        lines += [f"  g->{name} = (px_int)workspace + {place.c()};" for name, place in ending.scratch]
    else:
        lines.append("  if (!workspace && workspace_bytes) {\n    *workspace_bytes = 16;\n    return 0;\n  }")
    for launch in ending.launches:
        lines += _launch_lines(launch)
    return "\n".join([*lines, "  return status;"])


def _launch_lines(launch: CLaunch) -> list[str]:
    """One launch, in a block of its own."""
    arrays = [(n, a) for n, a in enumerate(launch.arguments) if isinstance(a, CArray)]
    lines = ["  {", "    CUkernel kernel;", "    CUdevice device;", "    int64_t x, y, z;"]
    packed = []
    for n, argument in enumerate(launch.arguments):
        if isinstance(argument, CArray):
            rank = len(argument.view.shape)
            lines.append(f"    px_view view_{n};")
            lines.append(f"    {packed_array(rank)} packed_{n} = {{0}};")
            if rank:
                view = argument.view
                sizes, steps = (", ".join(part.c() for part in parts) for parts in (view.shape, view.strides))
                lines.append(f"    const px_int shape_{n}[] = {{{sizes}}}, strides_{n}[] = {{{steps}}};")
            packed.append(f"packed_{n}")
        else:
            lines.append(f"    {ctype(argument.dtype)} number_{n} = {_scalar(argument)};")
            packed.append(f"number_{n}")
    if launch.counters:
        lines.append(f"    {packed_array(1)} counters = {{0}};")
        packed.append("counters")
    for number in range(len(launch.maps)):
        lines.append(f"    CUtensorMap map_{number};")
        packed.append(f"map_{number}")
    kinds = [(n, a) for n, a in arrays if any(n in pair for pair in launch.apart)]
    lines += [f"    const px_kind kind_{n} = {{{a.kind.c}}};" for n, a in kinds]
    lines.append(f"    void *parameters[] = {{{', '.join(f'(void *)&{name}' for name in packed) or 'NULL'}}};")
    checked = "    " + FAILED
    lines += [f"    status = px_load({launch.program}, &kernel, &device);", checked, *_grid(launch)]
    lines.append("    if (x != 0 && y != 0 && z != 0) {")
    body: list[str] = []
    for n, argument in arrays:
        has_axes = bool(argument.view.shape)
        shape, strides = (f"shape_{n}", f"strides_{n}") if has_axes else ("NULL", "NULL")
        body += [f"status = px_set(&view_{n}, {len(argument.view.shape)}, {argument.view.data.c()}, {shape}, {strides});"]
        body += [FAILED]
    for a, b in launch.apart:
        body.append(f"if (!px_apart(&view_{a}, &kind_{a}, &view_{b}, &kind_{b})) return PX_SHARES_MEMORY;")
    maps = list(enumerate(launch.maps))
    body += [line for number, item in maps if item.expands for line in _encoding(number, item)]
    for n, argument in arrays:
        if argument.kind.in_bytes:
            body.append(f"px_in_bytes(&view_{n}, {argument.kind.share});")
        body.append(f"packed_{n}.data = view_{n}.data;")
        for axis in range(len(argument.view.shape)):
            body.append(f"packed_{n}.stride[{axis}] = view_{n}.stride[{axis}];")
            body.append(f"packed_{n}.shape[{axis}] = (int32_t)view_{n}.shape[{axis}];")
    if launch.counters:
        body += [
            f"counters.data = workspace + {launch.counters_at};", "counters.stride[0] = 1;",
            f"counters.shape[0] = {launch.counters};",
        ]  # fmt: skip
    body += [line for number, item in maps if not item.expands for line in _encoding(number, item)]
    body += [f"status = px_launch({launch.program}, kernel, stream, x, y, z, parameters);", FAILED]
    return [*lines, *("      " + line for line in body), "    }", "  }"]


def _encoding(number: int, item: Any) -> list[str]:
    return [f"status = px_encode(&map_{number}, &px_map_{_key(item)}, &view_{item.array});", FAILED]


def _scalar(argument: CScalar) -> str:
    value = argument.value
    if isinstance(value, Expression | RealExpression):
        return f"({ctype(argument.dtype)})({value.c()})"
    if argument.dtype == "f32":
        rounded = struct.unpack("<f", struct.pack("<f", float(value)))[0]
        if rounded != rounded or rounded in (float("inf"), -float("inf")):
            return "0.0f / 0.0f" if rounded != rounded else f"{'-' * (rounded < 0)}1.0f / 0.0f"
        return f"{rounded.hex()}f"
    if argument.dtype == "f64":
        return float(value).hex()
    if argument.dtype == "bool":
        return str(int(bool(value)))
    suffix = {"i64": "LL", "u64": "ULL"}.get(argument.dtype, "")
    return f"{int(value)}{suffix}"


def _grid(launch: CLaunch) -> list[str]:
    checked = "    " + FAILED
    if launch.grid is None:
        x, y, z = launch.cluster
        fitted = f"    status = px_fitting({launch.program}, kernel, device, &x);"
        return [fitted, checked, f"    x *= {x};", f"    y = {y};", f"    z = {z};"]
    lines = []
    for axis, size in zip("xyz", launch.grid, strict=True):
        if size.constant is None:
            lines.append(f"    if ({size.c()} < 0 || {size.c()} > INT32_MAX) return PX_BAD_GRID;")
        lines.append(f"    {axis} = (int64_t)({size.c()});")
    return lines


# The function ----------------------------------------------------------------------------------------------


def _main(made: CFunction, count: int) -> str:
    lines = ["  px_given given;", "  int choice;"]
    if made.arrays:
        lines.append("  int status;")
    for array in made.arrays:
        if array.sizes:
            lines.append(f"  const int64_t {array.name}_shape[] = {{{', '.join(map(str, array.sizes))}}};")
            lines.append(f"  px_int {array.name}_steps[{len(array.sizes)}];")
    lines.append("  memset(&given, 0, sizeof given);" if made.programs else "  given = (px_given){0};")
    for size in made.sizes:
        lines.append(f"  if ({size} < 0 || {size} > INT32_MAX) return PX_BAD_SIZE;")
        lines.append(f"  given.{size} = {size};")
    for array in made.arrays:
        name, rank = array.name, len(array.sizes)
        shape, steps = (f"{name}_shape", f"{name}_steps") if rank else ("NULL", "NULL")
        lines.append(f"  status = px_argument(&px_kind_of_{name}, {name}, {shape}, {name}_strides, {steps});")
        lines.append(f"  {FAILED}")
        lines.append(f"  given.{name} = (px_int){name};")
        lines += [f"  given.{array.stride(axis)} = {name}_steps[{axis}];" for axis in range(rank)]
    lines += [f"  given.{given.name} = {given.name};" for given in made.scalars]
    lines += ["  choice = px_choose(&given);", "  if (choice < 0) return choice;"]
    for result in made.results:
        lines += _result_lines(result)
    space = "workspace, workspace_bytes" if made.has_workspace else "0, NULL"
    lines.append("  switch (choice) {")
    lines += [f"    case {number}: return px_end_{number}(stream, &given, {space});" for number in range(count - 1)]
    lines += [f"    default: return px_end_{count - 1}(stream, &given, {space});", "  }"]
    return f"{_prototype(made)} {{\n" + "\n".join(lines) + "\n}\n"


def _result_lines(result: Result) -> list[str]:
    """Checks the memory that a caller gives for a result."""
    sizes = [size.c().replace("g->", "given.") for size in result.shape]
    empty = " || ".join(f"({size}) == 0" for size in sizes) or "0"
    return [
        f"  if (!({empty})) {{",
        f"    if (!{result.name}) return PX_NULL_POINTER;",
        f"    if ({result.name} % 16) return PX_BAD_ALIGNMENT;",
        "  }",
        f"  given.{result.memory} = (px_int){result.name};",
    ]
