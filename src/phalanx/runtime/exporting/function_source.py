"""The header and the C file of an exported function: its checks, the tree of its ways, and the launches at their ends."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from phalanx.cuda.abi import SCALAR_FORMATS
from phalanx.frozen import frozen
from phalanx.runtime.compiled import Compiled
from phalanx.runtime.exporting.c_helpers import (
    APART,
    ENCODE,
    FITTING,
    FLOOR_DIV,
    IN_BYTES,
    LOAD_AND_LAUNCH,
    TYPES,
    packed_array,
)
from phalanx.runtime.exporting.c_source import definitions, header_of, map_text, message_function, program_tables
from phalanx.runtime.exporting.paths import End, Fork, Tree
from phalanx.runtime.exporting.plans import Plan, PlannedArray, PlannedLaunch, Plans, Scalar
from phalanx.runtime.symbolic.expressions import Expression
from phalanx.runtime.symbolic.numbers import Guard
from phalanx.runtime.symbolic.reals import RealExpression
from phalanx.runtime.symbolic.tracing import ArrayGiven, Given, ScalarGiven

FAILED = "if (status != 0) return status;"
CHECKED = "  " + FAILED
MOST_ELEMENTS = "((px_int)1 << 48)"
EXACT = r"""/* Sizes, strides and addresses are computed with in 128 bits: nothing overflows. */
__extension__ typedef __int128 px_int;
"""
DIVISIONS = {
    name: f"static px_int {name}(px_int a, px_int b) {{ return {result}; }}\n"
    for name, result in (
        ("px_floor_div", "a / b - (a % b != 0 && (a < 0) != (b < 0))"), ("px_floor_mod", "(a % b + b) % b"),
        ("px_ceil_div", "a / b + (a % b != 0 && (a < 0) == (b < 0))"),
    )
}  # fmt: skip
"""Divisions that round as Python's do, where C rounds towards zero."""
GIVEN = r"""/* An argument's strides: as they are given, or those of a contiguous array; or why it can't be one. */
static int px_argument(CUdeviceptr data, int rank, const int64_t *shape, const int64_t *given, px_int *strides) {
  px_int step = 1, count = 1;
  int axis;
  for (axis = rank - 1; axis >= 0; --axis) {
    if (shape[axis] < 0 || shape[axis] > INT32_MAX) return PX_BAD_SIZE;
    strides[axis] = given ? given[axis] : step;
    if (strides[axis] > INT64_MAX / 64 || strides[axis] < INT64_MIN / 64) return PX_BAD_STRIDE;
    step *= shape[axis] > 1 ? shape[axis] : 1;
    count *= shape[axis];
    if (step > {most}) return PX_BAD_SIZE;
  }
  return data || count == 0 ? 0 : PX_NULL_POINTER;
}
""".replace("{most}", MOST_ELEMENTS)
VIEW = r"""/* An array as a launch gets it. */
static int px_set(px_view *view, int rank, px_int data, const px_int *shape, const px_int *strides) {
  int axis;
  if (data < 0 || data > (px_int)UINT64_MAX) return PX_BAD_STRIDE;
  view->data = (CUdeviceptr)data;
  view->rank = rank;
  for (axis = 0; axis < rank; ++axis) {
    if (shape[axis] < 0 || shape[axis] > INT32_MAX) return PX_BAD_SIZE;
    if (strides[axis] < INT64_MIN || strides[axis] > INT64_MAX) return PX_BAD_STRIDE;
    view->shape[axis] = (int64_t)shape[axis];
    view->stride[axis] = (int64_t)strides[axis];
  }
  return 0;
}
"""


@frozen
class FunctionExport:
    """What is written: a function's arguments, the sizes that its caller passes, its tree, and its plans."""

    name: str
    described: str
    sizes: tuple[str, ...]
    arguments: tuple[Given, ...]
    tree: Tree
    plans: Plans

    @property
    def arrays(self) -> tuple[ArrayGiven, ...]:
        """The arrays among its arguments."""
        return tuple(given for given in self.arguments if isinstance(given, ArrayGiven))

    @property
    def scalars(self) -> tuple[str, ...]:
        """The names of the numbers among its arguments."""
        return tuple(given.name for given in self.arguments if isinstance(given, ScalarGiven))

    @property
    def programs(self) -> tuple[tuple[Compiled, ...], ...]:
        """Its kernels, each for every target."""
        return self.plans.programs

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the results."""
        return tuple(self.plans.result_names.values())


def function_prototype(made: FunctionExport) -> str:
    """The C function's declaration."""
    parts = ["CUstream stream", *(f"int64_t {size}" for size in made.sizes)]
    for given in made.arguments:
        if isinstance(given, ScalarGiven):
            parts.append(f"double {given.name}")
        else:
            parts += [f"CUdeviceptr {given.name}", f"const int64_t *{given.name}_strides"]
    parts += [f"CUdeviceptr {name}" for name in made.results]
    if made.plans.has_workspace:
        parts += ["CUdeviceptr workspace", "int64_t *workspace_bytes"]
    return f"int {made.name}({', '.join(parts)})"


def function_header(made: FunctionExport) -> str:
    """The text of NAME.h."""
    return header_of(made.name, made.described, _contract(made), function_prototype(made))


def _contract(made: FunctionExport) -> str:
    lines = [
        "Enqueues its kernels on the stream and returns 0, a CUresult, or a code below. A context has to be current.",
        "Arrays are device pointers; strides count elements, outermost axis first, and NULL means contiguous.",
        "Sizes, strides and addresses for which the function would take a way that was not exported get a code below.",
    ]
    for array in made.arrays:
        lines.append(f"  {array.name}: {array.spec.dtype.name} ({', '.join(map(str, array.spec.sizes))})")
    for view in made.plans.results:
        name = made.plans.result_names[view.memory]
        lines.append(
            f"  {name}: {view.dtype} ({', '.join(size.text for size in view.shape)}) with strides "
            f"({', '.join(step.text for step in view.strides)}), aligned to 16 bytes; it is written"
        )
    if made.plans.has_workspace:
        lines += [
            "  workspace: aligned to 256 bytes. With 0 in its place the call launches nothing, and writes to",
            "    workspace_bytes how many it needs; else workspace_bytes says how many there are. One for each call.",
        ]
        if made.plans.counters:
            lines.append(f"    Its first {made.plans.counters} bytes are 0 before the first call; calls leave them 0.")
    return "\n".join(lines)


def function_source(made: FunctionExport) -> str:
    """The text of NAME.c."""
    plans = {text: number for number, text in enumerate(dict.fromkeys(map(_plan_body, made.plans.of.values())))}
    numbers = {key: plans[_plan_body(plan)] for key, plan in made.plans.of.items()}
    choose = "\n".join(_tree_lines(made, made.tree, numbers, 1))
    bodies = "\n".join(_plan_function(number, text) for text, number in plans.items())
    main = _main(made, len(plans))
    every = choose + bodies + main
    divisions = "\n".join(text for name, text in DIVISIONS.items() if f"{name}(" in every.replace("px_floor_div(high", ""))
    helpers = [TYPES, EXACT]
    if made.programs:
        helpers.append(program_tables(made.name, made.programs))
    if made.arrays:
        helpers.append(GIVEN)
    launches = [launch for plan in made.plans.of.values() for launch in plan.launches]
    arrays = [a for launch in launches for a in launch.arguments if isinstance(a, PlannedArray)]
    compared = any(launch.apart for launch in launches)
    wanted = (
        (VIEW, bool(arrays)), (FLOOR_DIV.replace("px_floor_div", "px_floor_div64"), compared),
        (APART.replace("px_floor_div", "px_floor_div64"), compared),
        (IN_BYTES, any(a.kind.in_bytes for a in arrays)), (ENCODE, any(launch.maps for launch in launches)),
        (LOAD_AND_LAUNCH, bool(launches)), (FITTING, any(launch.grid is None for launch in launches)),
    )  # fmt: skip
    helpers += [text for text, used in wanted if used]
    kinds = {map_text(item): _key(item) for launch in launches for item in launch.maps}
    maps = "\n".join(f"static const px_map_kind px_map_{key} = {text};" for text, key in kinds.items())
    includes = "#include <pthread.h>\n#include <string.h>\n" if launches else "#include <stddef.h>\n"
    return f"""/* {made.described} */
#include "{made.name}.h"

{includes}
{definitions(len(made.programs[0]) if made.programs else 1, max(len(made.programs), 1))}

{"".join(text + chr(10) for text in [*helpers, divisions, maps] if text)}
{_given_type(made)}

{bodies}
/* Which launches follow for these arguments, or why none do. */
static int px_choose(const px_given *g) {{
{choose}
}}

{main}
{message_function(made.name)}"""


def _given_type(made: FunctionExport) -> str:
    names = [*made.sizes]
    for array in made.arrays:
        names += [array.name, *(array.stride(axis) for axis in range(len(array.spec.shape)))]
    memories = {name for plan in made.plans.of.values() for name, _ in plan.scratch} | set(made.plans.result_names)
    names += sorted(memories)
    fields = [f"  px_int {', '.join(names) or 'none'};", *(f"  double {name};" for name in made.scalars)]
    told = "/* All that a call passes: sizes, addresses, strides by axis, and numbers. */"
    return "\n".join([told, "typedef struct {", *fields, "} px_given;"])


# The tree --------------------------------------------------------------------------------------------------


def _tree_lines(made: FunctionExport, tree: Tree, numbers: dict[int, int], depth: int) -> list[str]:
    """Nested comparisons; an end without launches of its own is a code, which the guard before it decides."""
    pad = "  " * depth
    lines: list[str] = []
    while isinstance(tree, Fork):
        guard = tree.guard
        holds, fails = _is_end(tree.holds), _is_end(tree.fails)
        if not holds and not fails:
            break
        if holds and fails:
            lines += [f"{pad}(void)g;"] if depth == 1 and not lines else []
            lines.append(f"{pad}if ({guard.c()}) {{")
            lines += _tree_lines(made, tree.holds, numbers, depth + 1)
            lines.append(f"{pad}}}")
            tree = tree.fails
            continue
        condition = guard.c() if fails else f"!({guard.c()})"
        lines.append(f"{pad}if ({condition}) return {_code(made, guard)};")
        tree = tree.fails if fails else tree.holds
    if isinstance(tree, End):
        return [*([f"{pad}(void)g;"] if depth == 1 and not lines else []), *lines, f"{pad}return {numbers[id(tree.path)]};"]
    return [*lines, f"{pad}return PX_BAD_SIZE;"]


def _is_end(tree: Tree) -> bool:
    """Whether some way from here leads to launches, or to nothing to do."""
    return isinstance(tree, End) or (isinstance(tree, Fork) and (_is_end(tree.holds) or _is_end(tree.fails)))


def _code(made: FunctionExport, guard: Guard) -> str:
    names = {array.name for array in made.arrays}
    if guard.symbols & set(made.scalars):
        return "PX_BAD_NUMBER"
    if guard.symbols & names:
        return "PX_SHARES_MEMORY" if len(guard.symbols & names) > 1 else "PX_BAD_ALIGNMENT"
    return "PX_BAD_SIZE" if guard.symbols <= set(made.sizes) else "PX_BAD_STRIDE"


# Plans -----------------------------------------------------------------------------------------------------


def _plan_function(number: int, body: str) -> str:
    takes = "CUstream stream, px_given *g, CUdeviceptr workspace, int64_t *workspace_bytes"
    return f"static int px_plan_{number}({takes}) {{\n{body}\n}}\n"


def _plan_body(plan: Plan) -> str:
    lines = []
    needed = plan.workspace
    if needed.constant != 0:
        lines += [
            f"  const px_int needed = {needed.c()};",
            "  int status;",
            "  if (!workspace_bytes) return PX_NULL_POINTER;",
            f"  if (needed > {MOST_ELEMENTS}) return PX_BAD_SIZE;",
            "  if (!workspace) {",
            "    *workspace_bytes = (int64_t)needed;",
            "    return 0;",
            "  }",
            "  if (workspace % 256 || *workspace_bytes < needed) return PX_BAD_WORKSPACE;",
        ]
        lines += [f"  g->{name} = (px_int)workspace + {place.c()};" for name, place in plan.scratch]
    else:
        lines.append("  int status;")
        lines.append("  if (!workspace && workspace_bytes) {\n    *workspace_bytes = 16;\n    return 0;\n  }")
    if not plan.launches:
        lines[lines.index("  int status;")] = "  (void)stream, (void)g, (void)workspace, (void)workspace_bytes;"
        if needed.constant != 0:  # a declaration comes first
            lines[0], lines[1] = lines[1], lines[0]
    for launch in plan.launches:
        lines += _launch_lines(launch)
    return "\n".join([*lines, "  return 0;"])


def _launch_lines(launch: PlannedLaunch) -> list[str]:
    """One launch, in a block of its own."""
    arrays = [(n, a) for n, a in enumerate(launch.arguments) if isinstance(a, PlannedArray)]
    lines = ["  {", "    CUkernel kernel;", "    CUdevice device;", "    int64_t x, y, z;"]
    packed = []
    for n, argument in enumerate(launch.arguments):
        if isinstance(argument, PlannedArray):
            rank = len(argument.view.shape)
            lines.append(f"    px_view view_{n};")
            lines.append(f"    {packed_array(rank)} packed_{n} = {{0}};")
            if rank:
                view = argument.view
                sizes, steps = (", ".join(part.c() for part in parts) for parts in (view.shape, view.strides))
                lines.append(f"    const px_int shape_{n}[] = {{{sizes}}}, strides_{n}[] = {{{steps}}};")
            packed.append(f"packed_{n}")
        else:
            lines.append(f"    {SCALAR_FORMATS[argument.dtype][1]} number_{n} = {_scalar(argument)};")
            packed.append(f"number_{n}")
    if launch.counters:
        lines.append(f"    {packed_array(1)} counters = {{0}};")
        packed.append("counters")
    for number in range(len(launch.maps)):
        lines.append(f"    CUtensorMap map_{number};")
        packed.append(f"map_{number}")
    kinds = [(n, a) for n, a in arrays if any(n in pair for pair in launch.apart)]
    lines += [f"    const px_kind kind_{n} = {{{_kind(a)}}};" for n, a in kinds]
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


def _key(item: Any) -> str:
    """A name for a kind of descriptor: its numbers."""
    return hashlib.sha256(map_text(item).encode()).hexdigest()[:8]


def _kind(argument: PlannedArray) -> str:
    kind = argument.kind
    facts = (kind.unit_inner, kind.aligned, kind.whole, kind.contiguous)
    return ", ".join(map(str, (len(argument.view.shape), kind.share, kind.nbytes, *map(int, facts))))


def _scalar(argument: Scalar) -> str:
    value = argument.value
    if isinstance(value, Expression | RealExpression):
        return f"({SCALAR_FORMATS[argument.dtype][1]})({value.c()})"
    if argument.dtype == "f32":
        rounded = struct.unpack("<f", struct.pack("<f", float(value)))[0]
        if rounded != rounded or rounded in (float("inf"), -float("inf")):
            return "0.0f / 0.0f" if rounded != rounded else f"{'-' * (rounded < 0)}1.0f / 0.0f"
        return f"{rounded.hex()}f"
    if argument.dtype == "bool":
        return str(int(bool(value)))
    suffix = {"i64": "LL", "u64": "ULL"}.get(argument.dtype, "")
    return f"{int(value)}{suffix}"


def _grid(launch: PlannedLaunch) -> list[str]:
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


def _main(made: FunctionExport, plans: int) -> str:
    lines = ["  px_given given;", "  int choice;"]
    if made.arrays:
        lines.append("  int status;")
    for array in made.arrays:
        rank = len(array.spec.shape)
        if rank:
            sizes = ", ".join(map(str, array.spec.sizes))
            lines.append(f"  const int64_t {array.name}_shape[] = {{{sizes}}};")
            lines.append(f"  px_int {array.name}_steps[{rank}];")
    lines.append("  memset(&given, 0, sizeof given);" if made.programs else "  given = (px_given){0};")
    for size in made.sizes:
        lines.append(f"  if ({size} < 0 || {size} > INT32_MAX) return PX_BAD_SIZE;")
        lines.append(f"  given.{size} = {size};")
    for array in made.arrays:
        rank = len(array.spec.shape)
        shape, steps = (f"{array.name}_shape", f"{array.name}_steps") if rank else ("NULL", "NULL")
        lines += [f"  status = px_argument({array.name}, {rank}, {shape}, {array.name}_strides, {steps});", CHECKED]
        lines.append(f"  given.{array.name} = (px_int){array.name};")
        lines += [f"  given.{array.stride(axis)} = {array.name}_steps[{axis}];" for axis in range(rank)]
    lines += [f"  given.{name} = {name};" for name in made.scalars]
    lines += ["  choice = px_choose(&given);", "  if (choice < 0) return choice;"]
    for memory, name in made.plans.result_names.items():
        empty = " || ".join(f"({size.c().replace('g->', 'given.')}) == 0" for size in _sizes_of(made, memory)) or "0"
        lines.append(f"  if (!({empty})) {{")
        lines.append(f"    if (!{name}) return PX_NULL_POINTER;")
        lines.append(f"    if ({name} % 16) return PX_BAD_ALIGNMENT;")
        lines.append("  }")
        lines.append(f"  given.{memory} = (px_int){name};")
    space = "workspace, workspace_bytes" if made.plans.has_workspace else "0, NULL"
    lines.append("  switch (choice) {")
    lines += [f"    case {number}: return px_plan_{number}(stream, &given, {space});" for number in range(plans - 1)]
    lines += [f"    default: return px_plan_{plans - 1}(stream, &given, {space});", "  }"]
    return f"{function_prototype(made)} {{\n" + "\n".join(lines) + "\n}\n"


def _sizes_of(made: FunctionExport, memory: str) -> tuple[Expression, ...]:
    return next(view.shape for view in made.plans.results if view.memory == memory)
