"""The text of a kernel as it grows: names, types, indentation, the current agent, the device functions in use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from phalanx.cuda.plan import Plan
from phalanx.cuda.text.cells import Cells, find_cells
from phalanx.cuda.text.helper import Helper, helper
from phalanx.cuda.text.lines import source_comment
from phalanx.cuda.text.literals import atom, bare, literal, minus, plus
from phalanx.cuda.text.pressure import Pressure
from phalanx.cuda.text.read_again import find_read_again
from phalanx.cuda.text.sites import Site, Stamp, Stamping
from phalanx.cuda.text.written_agent import WrittenAgent
from phalanx.errors import Error
from phalanx.ir.core import Block, Op
from phalanx.ir.types import DType, ScalarType, TileType
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.ir.views import BarrierArray, BarrierRef, SharedBuffer
from phalanx.location import NOWHERE, Location

CTYPES = {
    "f64": "double",
    "f32": "float",
    "f16": "px_f16",
    "bf16": "px_bf16",
    "f8e4m3": "px_f8e4m3",
    "f8e5m2": "px_f8e5m2",
    "f8e8m0": "px_f8e8m0",
    "f6e2m3": "px_f6e2m3",
    "f6e3m2": "px_f6e3m2",
    "f4e2m1": "px_f4e2m1",
    "i64": "long long",
    "i32": "int",
    "i16": "short",
    "i8": "signed char",
    "i4": "unsigned char",
    "u64": "unsigned long long",
    "u32": "unsigned",
    "u16": "unsigned short",
    "u8": "unsigned char",
    "u4": "unsigned char",
    "bool": "bool",
}

TYPEDEFS = {
    "px_f16": "unsigned short",
    "px_bf16": "unsigned short",
    "px_f8e4m3": "unsigned char",
    "px_f8e5m2": "unsigned char",
    "px_f8e8m0": "unsigned char",
    "px_f6e2m3": "unsigned char",
    "px_f6e3m2": "unsigned char",
    "px_f4e2m1": "unsigned char",
}
"""Narrow floats are their bits; arithmetic converts to float with PTX `cvt`."""

_RESERVED = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr
    const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq main printf assert warpSize threadIdx blockIdx blockDim
    gridDim min max abs exp exp2 log log2 sqrt rsqrt tanh erf sin cos floor ceil pow fma round trunc expf exp2f
    logf log2f sqrtf rsqrtf tanhf erff sinf cosf floorf ceilf fabsf fmaxf fminf fmax fmin y0 y1 j0 j1 yn jn
    size_t NULL ptx
    """.split()  # noqa: SIM905  one word after the other is easier to read
)


LONGEST_INLINE = 48
"""Longer expressions get a variable of their own."""


class Writer:
    """Grows the text of one kernel; every emitter gets it as its first argument.

    Names beginning with `px_` belong to the compiler: `px_lane`, `px_warp` and `px_thread` (within the agent), `px_one`
    (true in the agent's elected thread), `px_warp_id` (within the CTA), `px_smem` (shared memory, a pointer), `px_base`
    (its 32-bit shared address) and `px_never` (0, as no compiler knows). Each is declared only where something uses it.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.arch = plan.arch
        self.cells: Cells = find_cells(plan.function.body, plan.layouts)
        self.sites: list[Site] = []
        self.uses_debug = False
        self.stamping = Stamping()
        self.helpers: dict[str, Helper] = {}
        self.typedefs: set[str] = set()
        self.tensor_maps: list[str] = []
        self.labels: dict[tuple[str, Label], str] = {}
        self.definitions = {value: op for op in plan.function.walk() for value in op.defined_values()}
        self.accumulators = {item.acc for op in plan.function.walk() for item in op.effects().accumulations}
        self.pressure = Pressure(plan.function.body, self.cells, plan.layouts)
        self.read_again = find_read_again(plan.function, self.pressure)
        self.loops: list[Label] = []
        self.agent = WrittenAgent("", 0, plan.function.warps, 0)
        self._lines: list[str | list[str]] = []
        self._depth = 1
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._everywhere: set[str] = set()
        self._uses = _use_counts(plan)
        self._last_source: tuple[str, int] | None = None
        self._wanted: set[str] = set()
        self._slot: list[str] = []
        self._elected_end = (-1, 0)
        self._next: dict[Op, Op] = {}
        self._readers: dict[Value, list[Op]] = {}
        self._lane: list[str] | None = None
        self._lane_name = ""
        self._lane_depth = 0
        self._prologue: dict[object, tuple[str, str]] = {}
        self._kernel_wanted: set[str] = set()

    # ------------------------------------------------------------------ lines

    def line(self, text: str = "") -> None:
        """One line (or several, split at newlines) at the current indentation."""
        for part in text.split("\n"):
            self._lines.append("  " * self._depth + part if part else "")

    @contextmanager
    def indent(self) -> Iterator[None]:
        """Lines written inside are one step further to the right."""
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def block(self, header: str = "", footer: str = "}") -> Iterator[None]:
        """`header {` ... `}`; an empty header opens a plain scope."""
        self.line(f"{header} {{" if header else "{")
        with self.indent(), self.scope():
            yield
        self.line(footer)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Identifiers declared inside are free again afterwards, as at the end of a C++ scope."""
        outer = set(self._taken)
        yield
        self._taken = outer | self._everywhere

    @property
    def position(self) -> int:
        """The number of the next line, for `rewrite_line`."""
        return len(self._lines)

    def rewrite_line(self, position: int, text: str) -> None:
        """Another text for a line that is already written, at its own indentation."""
        old = self._lines[position]
        assert isinstance(old, str)
        self._lines[position] = old[: len(old) - len(old.lstrip())] + text

    def only_comments_since(self, position: int) -> bool:
        """Whether no code was written since then."""
        return all(
            not item or (isinstance(item, str) and item.lstrip().startswith("//")) for item in self._lines[position:]
        )

    def comment(self, text: str) -> None:
        """A `//` comment; newlines become several."""
        for part in text.splitlines():
            self.line(f"// {part}".rstrip().rstrip("\\"))

    def comment_source(self, loc: Location) -> None:
        """`// file.py:12: source text`, once per change of the source line."""
        if loc is NOWHERE or (loc.file, loc.line) == self._last_source:
            return
        self._last_source = (loc.file, loc.line)
        self.comment(source_comment(loc))

    # ------------------------------------------------------------------ names and types

    def ctype(self, dtype: DType) -> str:
        """The C++ type that stores an element: narrow floats are typedefs of their bits (`px_bf16`)."""
        name = CTYPES[dtype.name]
        if name in TYPEDEFS:
            self.typedefs.add(name)
        return name

    def name(self, value: Value) -> str:
        """The C++ spelling of a value: a literal for constants, else its identifier (a tile's is an array's)."""
        if isinstance(value, Const):
            assert isinstance(value.type, ScalarType)
            self.ctype(value.type.dtype)
            return literal(value.value, value.type.dtype)
        source = self.cells.aliases.get(value)
        if source is not None:
            return self.name(source)
        known = self._names.get(value)
        if known is None:
            known = self._names[value] = self.unique(value.name or "t")
        return known

    def unique(self, hint: str, *, everywhere: bool = False) -> str:
        """A fresh identifier like `hint`: no keyword, no `px_` prefix, `x_1` if `x` is taken.

        It belongs to the current scope, or to the whole function if it is to be visible `everywhere`.
        """
        base = re.sub(r"\W", "_", hint, flags=re.ASCII).strip("_") or "t"
        if base[0].isdigit() or base in _RESERVED or base.startswith("px_"):
            base = f"v_{base}"
        fresh, n = base, 0
        while fresh in self._taken:
            n += 1
            fresh = f"{base}_{n}"
        self._taken.add(fresh)
        if everywhere:
            self._everywhere.add(fresh)
        return fresh

    def define(self, value: Value, expr: str, *, pure: bool = False) -> None:
        """`const int m = expr;` for a scalar result.

        A `pure` expression (no memory, no effect) that nobody reads is not written, and one without a name of the
        user's that is read once, nearby, is put where it is read.
        """
        assert isinstance(value.type, ScalarType), "tiles are declared with declare_tile"
        if pure and self._uses[value] == 0:
            return
        if pure and value in self.cells.movable and len(expr) <= LONGEST_INLINE:
            self._names[value] = atom(expr)
            return
        if value not in self._names:
            self._names[value] = self.unique(value.name or "t")
        self.line(f"const {self.ctype(value.type.dtype)} {self._names[value]} = {bare(expr)};")

    def declare_tile(self, value: Value, *, all_set: bool = True) -> str:
        """`float x[16];` for a tile, one element per register of its layout, or words for a cell of narrow elements;
        returns the array's name.

        `all_set`: every register will be written, also those that hold no element of the tile. Where not, bools begin as
        false: instructions work on all registers, and C++ leaves open what a bool is that is neither 0 nor 1.
        """
        assert isinstance(value.type, TileType)
        name = self.name(value)
        if value in self.cells.words:
            self.line(f"unsigned {name}[{self.registers(value) * value.type.dtype.itemsize // 4}];")
            return name
        whole_words = "alignas(4) " if self.cells.source(value) in self.cells.packed else ""
        begin = "" if all_set or value.type.dtype.name != "bool" else " = {}"
        self.line(f"{whole_words}{self.ctype(value.type.dtype)} {name}[{self.registers(value)}]{begin};")
        return name

    def registers(self, value: Value) -> int:
        """How many elements of a tile each thread holds."""
        return self.plan.layouts[value].num_registers

    def uses(self, value: Value) -> int:
        """How many operands of the kernel's instructions name this value."""
        return self._uses[value]

    def count_uses(self, ops: Sequence[Op], results: Sequence[Value]) -> None:
        """What instructions read that are in no block: those of the function of a fold, which is written once."""
        for op in ops:
            self._uses.update(op.operands())
        self._uses.update(results)

    def next_op(self, op: Op) -> Op | None:
        """The instruction behind another in its block, None at the end of it."""
        if not self._next:
            blocks = [self.plan.function.body, *(block for outer in self.plan.function.walk() for block in outer.blocks())]
            self._next = {first: second for block in blocks for first, second in zip(block.ops, block.ops[1:])}
        return self._next.get(op)

    def readers(self, value: Value) -> list[Op]:
        """The instructions that read a value, in order."""
        if not self._readers:
            for op in self.plan.function.walk():
                for operand in dict.fromkeys(op.operands()):
                    self._readers.setdefault(operand, []).append(op)
        return self._readers.get(value, [])

    def use(self, function: Helper | str) -> str:
        """Makes sure that a device function stands before the kernel; returns how to call it, e.g. `ptx::fence`.

        Functions of the `.cuh` files go by their names. All live in a namespace of their own, so that no variable of the
        user's hides one. Example: ``w.line(f"{w.use('elect_sync')}();")``.
        """
        wanted = helper(function) if isinstance(function, str) else function
        known = self.helpers.get(wanted.name)
        if known is None:
            for needed in wanted.needs:
                self.use(needed)
            self.helpers[wanted.name] = wanted
            for typedef in TYPEDEFS:
                if typedef in wanted.text:
                    self.typedefs.add(typedef)
        elif known.text != wanted.text:
            raise AssertionError(f"two device functions are named {wanted.name}")
        return f"ptx::{wanted.name}"

    def label_name(self, kind: str, label: Label) -> str:
        """The C++ label behind the loop or scope of an IR label; `kind` is "break", "continue" or "leave"."""
        key = kind, label
        if key not in self.labels:
            self.labels[key] = self.unique(f"{kind}_{label.name}", everywhere=True)
        return self.labels[key]

    def declare_cells(self, block: Block) -> None:
        """The cells that live in a block and are not declared by their first assignment."""
        for var in self.cells.declared.get(block, ()):
            if isinstance(var.type, TileType):
                self.declare_tile(var)
            else:
                self.line(f"{self.ctype(scalar_dtype(var))} {self.name(var)};")

    # ------------------------------------------------------------------ who runs this

    @property
    def lane(self) -> str:
        """The lane within the warp; inside `reading_lane`, read again at that place."""
        if self._lane is None:
            self._kernel_wanted.add("lane")
            return "px_lane"
        if not self._lane:
            name = self._lane_name = self.unique("lane", everywhere=True)
            self._lane.append("  " * self._lane_depth + f"const int {name} = {self.use('lane_here')}();")
        return self._lane_name

    @contextmanager
    def reading_lane(self, again: bool) -> Iterator[None]:
        """What is written inside reads the lane `again`, if it needs it: no compiler computes it ahead, for all turns of a
        loop, in registers that something else needs meanwhile."""
        if not again:
            yield
            return
        self._lane, self._lane_depth = [], self._depth
        self._lines.append(self._lane)
        yield
        self._lane = None

    @property
    def warp(self) -> str:
        """The warp within the agent."""
        if self.agent.first == 0 and self.agent.copies == 1:
            return self.warp_id
        self._wanted.add("warp")
        return "px_warp"

    @property
    def warp_id(self) -> str:
        """The warp within the CTA."""
        self._kernel_wanted.add("warp_id")
        return "px_warp_id"

    @property
    def copy(self) -> str:
        """The number of this copy among those of its role."""
        self._wanted.add("copy")
        return "px_copy"

    @property
    def is_first_warp(self) -> str:
        """A condition that holds in the agent's first warp."""
        agent = self.agent
        if agent.copies > 1 and agent.pitch > 1:
            return f"{minus(self.warp_id, agent.first)} % {agent.pitch} == 0"
        return f"{self.warp_id} == {agent.first}"

    @property
    def thread(self) -> str:
        """The thread within the agent."""
        self._wanted.add("thread")
        return "px_thread"

    @property
    def one(self) -> str:
        """True in the agent's elected thread, false in all others."""
        self._wanted.add("one")
        return "px_one"

    @property
    def warp_one(self) -> str:
        """True in one thread of each warp."""
        self._wanted.add("warp_one")
        return "px_warp_one"

    @contextmanager
    def elected_of(self, each: str) -> Iterator[None]:
        """`if (px_group_one) {` ... `}`: what one thread of each "group" (of warps) or "warp" does on behalf of it."""
        self._wanted.add(f"{each}_one")
        self.line(f"if (px_{each}_one) {{")
        with self.indent(), self.scope():
            yield
        self.line("}")

    @contextmanager
    def as_agent(self, agent: WrittenAgent) -> Iterator[None]:
        """Everything written inside is run by `agent`; its identities are declared at this point."""
        outer = self.agent, self._wanted, self._slot
        self.agent, self._wanted, self._slot = agent, set(), []
        depth = self._depth
        self._lines.append(self._slot)
        with self.scope():
            yield
        self._slot += ["  " * depth + text for text in self._identities()]
        self.agent, self._wanted, self._slot = outer

    def _identities(self) -> list[str]:
        agent, wanted = self.agent, self._wanted
        lines = []
        first, pitch = agent.first, agent.pitch
        if "copy" in wanted:
            number = minus(self.warp_id, first, alone=pitch == 1)
            lines.append(f"const int px_copy = {number if pitch == 1 else f'{number} / {pitch}'};")
        if "thread" in wanted and agent.copies > 1:
            lines.append(f"const int px_thread = (int)({minus('threadIdx.x', 32 * first)} % {32 * pitch});")
        elif "thread" in wanted:
            lines.append(f"const int px_thread = {minus('(int)threadIdx.x', 32 * first, alone=True)};")
        if "warp" in wanted and agent.copies > 1:
            lines.append(f"const int px_warp = {minus(self.warp_id, first)} % {pitch};")
        elif "warp" in wanted and first:
            lines.append(f"const int px_warp = {minus(self.warp_id, first, alone=True)};")
        if "one" in wanted:
            elect = f"{self.use('elect_sync')}()"
            lines.append(f"const bool px_one = {f'{self.is_first_warp} && {elect}' if agent.warps > 1 else elect};")
        if "group_one" in wanted:
            self._kernel_wanted.add("warp_id")
            lines.append(f"const bool px_group_one = px_warp_id % 4 == {agent.first % 4} && {self.use('elect_sync')}();")
        if "warp_one" in wanted:
            lines.append(f"const bool px_warp_one = {self.use('elect_sync')}();")
        return lines

    @contextmanager
    def elected(self) -> Iterator[None]:
        """`if (px_one) {` ... `}`: what one thread does on behalf of its agent. Neighbours share one `if`."""
        if not self._reopen_elected():
            self.line(f"if ({self.one}) {{")
        with self.indent(), self.scope():
            yield
        self.line("}")
        self._elected_end = (len(self._lines) - 1, self._depth)

    def _reopen_elected(self) -> bool:
        """Takes back the brace of an elected block that only comments separate from here."""
        position, depth = self._elected_end
        if position < 0 or depth != self._depth or not self.only_comments_since(position + 1):
            return False
        behind = self._lines[position + 1 :]
        self._lines[position:] = [f"  {item}" if isinstance(item, str) else item for item in behind]
        return True

    def sync_agent(self, comment: str = "") -> None:
        """Brings the threads of the agent together, with the cheapest barrier that does."""
        note = f"  // {comment}" if comment else ""
        agent = self.agent
        if agent.warps == 1:
            self.line(f"__syncwarp();{note}")
        elif agent.warps == self.plan.function.warps:
            self.line(f"__syncthreads();{note}")
        elif agent.copies > 1:
            self.line(f"{self.use('bar_sync_of')}<{agent.threads}>({agent.barrier_id} + {self.copy});{note}")
        else:
            self.line(f"{self.use('bar_sync')}<{agent.barrier_id}, {agent.threads}>();{note}")

    # ------------------------------------------------------------------ memory

    @property
    def smem(self) -> str:
        """The start of dynamic shared memory, an `unsigned char*`."""
        self._kernel_wanted.add("smem")
        return "px_smem"

    @property
    def base(self) -> str:
        """The start of dynamic shared memory as a 32-bit shared address."""
        self._kernel_wanted.update(("smem", "base"))
        return "px_base"

    @property
    def never(self) -> str:
        """A number that is 0, as no compiler knows: what happens where it is not is nothing at run time."""
        self._kernel_wanted.add("never")
        return "px_never"

    def pointer(self, buffer: SharedBuffer) -> str:
        """A pointer to a shared buffer's first element, named after it."""

        def declare(name: str) -> str:
            ctype = self.ctype(buffer.dtype)
            offset = self.plan.buffers[buffer].offset
            return f"{ctype}* const {name} = reinterpret_cast<{ctype}*>({plus(self.smem, offset)});"

        return self.once(("pointer", buffer), buffer.name, declare)

    def address(self, buffer: SharedBuffer) -> str:
        """The 32-bit shared address of a buffer's first byte, named `<buffer>_addr`."""
        return self._shared_address(buffer, f"{buffer.name}_addr", self.plan.buffers[buffer].offset)

    def barrier(self, barrier: BarrierArray) -> str:
        """The 32-bit shared address of a barrier array."""
        return self._shared_address(barrier, barrier.name, self.plan.barriers[barrier])

    def _shared_address(self, item: SharedBuffer | BarrierArray, hint: str, offset: int) -> str:
        return self.once(("address", item), hint, lambda name: f"const unsigned {name} = {plus(self.base, offset)};")

    def barrier_address(self, bar: BarrierRef) -> str:
        """The 32-bit shared address of one barrier."""
        name = self.barrier(bar.barrier)
        index = bar.index
        if isinstance(index, Const):
            return name if index.value == 0 else f"{name} + {8 * int(index.value)}"
        return f"{name} + 8 * {self.name(index)}"

    def tensor_map(self, index: int) -> str:
        """The parameter that holds a TMA descriptor."""
        return self.tensor_maps[index]

    def scratch(self, op: Op) -> str:
        """A pointer (unsigned char*) to the agent's scratch memory for `op`, as the plan placed it."""
        area = self.plan.scratch[op]
        own = f" + {area.step} * {self.copy}" if self.agent.copies > 1 else ""
        return f"({self.smem} + {area.offset}{own})"

    def counter(self, key: object, hint: str, comment: str) -> str:
        """A variable of the whole kernel that every thread counts up by itself, the same for the same key."""
        return self.once(key, hint, lambda name: f"unsigned {name} = 0;  // {comment}")

    def once(self, key: object, hint: str, declare: Callable[[str], str]) -> str:
        """The name that `declare` declares at the kernel's start, the same for the same key."""
        if key not in self._prologue:
            name = self.unique(hint, everywhere=True)
            self._prologue[key] = name, declare(name)
        return self._prologue[key][0]

    @property
    def debug(self) -> str:
        """The debug buffer, an `unsigned long long*` parameter; asking for it makes the kernel have one."""
        self.uses_debug = True
        return "px_debug"

    # ------------------------------------------------------------------ the end

    def site(self, kind: str, name: str, loc: Location, stamp: Stamp | None = None, work: Location = NOWHERE) -> int:
        """The number of a place that the host hears of, for its report."""
        agent = self.agent
        copies = (agent.first, agent.pitch) if agent.copies > 1 else None
        self.sites.append(Site(kind, name, agent.name, loc, copies, agent.warps, stamp, work))
        return len(self.sites) - 1

    def prologue(self) -> list[str]:
        """The declarations at the start of the kernel, as far as something uses them."""
        wanted = self._kernel_wanted
        lines = []
        if "lane" in wanted:
            lines.append("const int px_lane = (int)(threadIdx.x % 32);")
        if "warp_id" in wanted:
            lines.append(self._warp_id_line())
        if "base" in wanted:
            lines.append(f"const unsigned px_base = {self.use('shared_address')}(px_smem);")
        if "never" in wanted:
            lines.append(f"const unsigned px_never = {self.use('unknown_zero')}();")
        lines += [text for _, text in self._prologue.values()]
        return ["  " + line for line in lines]

    def _warp_id_line(self) -> str:
        # The shuffle tells the compiler that the number is the same in a warp: roles become uniform branches.
        return "const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);"

    @property
    def uses_shared(self) -> bool:
        """Whether anything written so far names shared memory by its pointer."""
        return "smem" in self._kernel_wanted

    def body(self) -> list[str]:
        """The lines written so far, with the agents' identities in their places."""
        out: list[str] = []
        for item in self._lines:
            out += [item] if isinstance(item, str) else item
        return out


def _use_counts(plan: Plan) -> Counter[Value]:
    counts: Counter[Value] = Counter()
    for op in plan.function.walk():
        counts.update(op.operands())
    return counts


def scalar_dtype(value: Value) -> DType:
    """The element type of a scalar or tile value."""
    if isinstance(value.type, ScalarType | TileType):
        return value.type.dtype
    raise Error(f"{value.name} is an array, not a value")


__all__ = ["CTYPES", "Helper", "Param", "Site", "TYPEDEFS", "Var", "Writer", "scalar_dtype"]
