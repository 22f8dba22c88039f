"""Listings of the IR: stable, readable text, one instruction a line.

One rule prints every instruction from its fields and its mnemonic, so that a new one needs nothing here; only control
flow and cells have a form of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from phalanx.ir.core import Block, Function, Note, Op
from phalanx.ir.effects import Arrival, Complete, Effects, Expect
from phalanx.ir.holders import Holder
from phalanx.ir.ops.control import (
    Assign,
    Break,
    Continue,
    For,
    If,
    Leave,
    ReadVar,
    Role,
    Roles,
    Scope,
    While,
    span_text,
)
from phalanx.ir.ops.tile import Combine
from phalanx.ir.types import DType
from phalanx.ir.values import Const, Label, Param, Value, Var, constant_type
from phalanx.ir.views import BarrierArray, Buffer
from phalanx.location import NOWHERE, Location
from phalanx.markers import Kind, kind_of

SOURCE_COLUMN = 84
"""Where source lines begin, if the instruction is not longer."""

_PLAIN = {"cond", "value", "view", "src", "dst", "bar", "barrier", "array", "parts", "message", "label"}
"""Fields that need no name in front; those of one letter (`x`, `a`) neither."""
_WHY = {"reason", "how"}
"""Fields by which the compiler explains an instruction that it wrote itself."""


def text(
    function: Function, *, layouts: Mapping[Value, object] | None = None, notes: Iterable[Note] | None = None
) -> str:
    """The listing of a function. With `layouts`, results show the number of theirs, and a table follows the header.

    Anyone may call it, at any stage between two passes; no hardware is involved.
    Example: ``print(text(prepare(function)))``.
    """
    return _Printer(function, layouts or {}).listing(function.notes if notes is None else notes)


class _Printer:
    def __init__(self, function: Function, layouts: Mapping[Value, object]) -> None:
        self.function = function
        self.layouts = layouts
        self.layout_numbers: dict[object, int] = {}
        self.names: dict[object, str] = {}
        self.uses: dict[str, int] = {}
        self.declared: set[Var] = set()
        self.lines: list[str] = []
        self.place: Location = NOWHERE
        exits = (op for op in function.walk() if isinstance(op, (Break, Continue, Leave)))
        self.targets = {op.label for op in exits}

    # -- the whole ---------------------------------------------------------------------------------------

    def listing(self, notes: Iterable[Note]) -> str:
        self._header()
        start = len(self.lines)
        self._block(self.function.body, 1)
        body = self.lines[start:]
        self.lines[start:] = [f"  layout #{number}: {layout!r}" for layout, number in self.layout_numbers.items()]
        self.lines += ["{", *body, "}"]
        self.lines += [f"// note: {note}" for note in notes]
        return "\n".join(self.lines) + "\n"

    def _header(self) -> None:
        function = self.function
        params = ", ".join(f"{self._name(param)}: {param.type}" for param in function.params)
        self.lines.append(f"kernel {function.name}({params})")
        if function.constants:
            self.lines.append("  const " + ", ".join(f"{n}={v!r}" for n, v in function.constants))
        shape = "x".join(map(str, function.cluster))
        cluster = "" if function.cluster_size == 1 else f", cluster {shape}"
        opted_out = "" if function.exit_sync else ", exit_sync=False"
        crowd = "" if function.ctas_per_sm == 1 else f", {function.ctas_per_sm} CTAs per SM"
        together = ", cooperative" if function.cooperative else ""
        flags = f"{', pdl' * function.pdl}{together}{', strict' * function.strict}"
        flags += f", on_loss={function.on_loss}" if function.on_loss != "error" else ""
        self.lines.append(f"  warps {function.warps}{cluster}{crowd}{opted_out}{flags}")
        for buffer in function.buffers:
            shape = ", ".join(map(str, buffer.shape))
            padded = ", padded" if buffer.padded else ""
            what = f"{buffer.dtype}[{shape}], {buffer.size_text}{padded}{self._reuse(buffer)}"
            self.lines.append(f"  {buffer.space.name} {self._name(buffer)}: {what}")
        for barrier in function.barriers:
            count = "counted" if barrier.count is None else f"count {barrier.count}"
            flags = ", checked=False" * (not barrier.checked) + ", init=False" * (not barrier.init)
            self.lines.append(f"  barrier {self._name(barrier)}[{barrier.n}]: {count}{flags}{self._reuse(barrier)}")

    def _reuse(self, storage: Buffer | BarrierArray) -> str:
        if storage.reuse is None:
            return ""
        text = f", reuses {self._name(storage.reuse)}"
        if isinstance(storage, Buffer) and storage.why:
            behind = "" if storage.after is None else f" behind {self._name(storage.after)}"
            text += f"{behind}: {storage.why}"
        return text

    def _line(self, depth: int, code: str, loc: Location = NOWHERE) -> None:
        line = "  " * depth + code
        if loc is not NOWHERE and (loc.file, loc.line, loc.caller) != (
            self.place.file,
            self.place.line,
            self.place.caller,
        ):
            self.place = loc
            line = f"{line:<{SOURCE_COLUMN}}  // {' < '.join(step.short for step in _calls(loc))}"
        self.lines.append(line)

    # -- instructions ------------------------------------------------------------------------------------

    def _block(self, block: Block, depth: int) -> None:
        for op in block:
            self._op(op, depth)

    def _op(self, op: Op, depth: int) -> None:
        match op:
            case Assign():
                declared = "" if op.var in self.declared else f": {op.var.type}"
                self.declared.add(op.var)
                self._line(depth, f"{self._name(op.var)}{declared} = {self._value(op.value)}", op.loc)
            case ReadVar():
                self._line(depth, f"{self._result(op.result)} = {self._name(op.var)}", op.loc)
            case If():
                self._line(depth, f"if {self._value(op.cond)} {{", op.loc)
                self._block(op.then, depth + 1)
                if op.orelse.ops:
                    self._line(depth, "} else {")
                    self._block(op.orelse, depth + 1)
                self._line(depth, "}")
            case For():
                bounds = ", ".join(self._value(v) for v in (op.start, op.stop, op.step))
                label, index = self._target(op.label), self._result(op.index)
                unrolled = f" unroll {op.unroll}" if op.unroll else ""
                dealt = " dealt" if op.dealt else ""
                ahead = f" {op.pipelined.text}" if op.pipelined is not None else ""
                self._line(depth, f"for{label} {index} in range({bounds}){unrolled}{dealt}{ahead} {{", op.loc)
                self._block(op.body, depth + 1)
                self._line(depth, "}")
            case While():
                self._line(depth, f"while{self._target(op.label)} {{", op.loc)
                self._block(op.test, depth + 1)
                self._line(depth + 1, f"end unless {self._value(op.cond)}")
                self._block(op.body, depth + 1)
                self._line(depth, "}")
            case Scope():
                self._line(depth, f"scope{self._target(op.label)} {{", op.loc)
                self._block(op.body, depth + 1)
                self._line(depth, "}")
            case Roles():
                self._line(depth, "roles {" if op.joins else "roles, no join {", op.loc)
                for role in op.regions:
                    self._role(role, depth + 1)
                self._line(depth, "}")
            case Role():
                self._role(op, depth)
            case _:
                self._plain(op, depth)

    def _role(self, role: Role, depth: int) -> None:
        warps = span_text(role.first, role.span)
        name = warps if role.name in ("", warps) else f"{role.name} ({warps})"
        name += f" copies={role.copies}" if role.copies > 1 else ""
        regs = "" if role.regs is None else f" regs={role.regs}"
        active = "" if role.active is None else f" active={role.active}"
        self._line(depth, f"role {name}{regs}{active} {{", role.loc)
        self._block(role.body, depth + 1)
        self._line(depth, "}")

    def _plain(self, op: Op, depth: int) -> None:
        """The one rule: `result = mnemonic operands, name=attribute {bytes}`."""
        mnemonic = op.mnemonic
        operands: list[str] = []
        explained = ""
        blocks: list[Block] = []
        function: Combine | None = None
        masks = _masks(op.effects())
        for field in dataclasses.fields(op):
            item, kind = getattr(op, field.name), kind_of(type(op), field)
            if kind in (Kind.SOURCE, Kind.MODEL, Kind.RESULT) or item in (None, ()) or _is_default(field, item):
                continue
            if isinstance(item, Combine):
                function = item
            elif kind is Kind.BLOCK:
                blocks += [item] if item.ops or field.default is dataclasses.MISSING else []
            elif field.name == "fn":
                mnemonic = item if op.mnemonic in ("unary", "binary", "compare") else f"{mnemonic}.{item}"
            elif item in masks and isinstance(item, Const):
                operands.append(f"{field.name}={int(item.value):#b}")
            elif field.name in _WHY:
                explained = f"  (compiler: {item})"
            elif field.name in _PLAIN or (len(field.name) == 1 and isinstance(item, Value)):
                operands += [self._item(part) for part in (item if isinstance(item, tuple) else (item,))]
            else:
                operands.append(field.name if item is True else f"{field.name}={self._item(item)}")
        defined = op.defined_values()
        result = f"{', '.join(map(self._result, defined))} = " if defined else ""
        code = f"{result}{mnemonic} {', '.join(operands)}".rstrip() + _bytes_text(op) + explained
        self._line(depth, code + " {" * bool(blocks or function), op.loc)
        if function is not None:
            self._function(function, depth)
        for position, block in enumerate(blocks):
            if position:
                self._line(depth, "} {")
            self._block(block, depth + 1)
        if blocks:
            self._line(depth, "}")

    def _function(self, function: Combine, depth: int) -> None:
        """The function of a fold or scan, as a block with its parameters before and its results behind."""
        parameters = ", ".join(f"{self._name(value)}: {value.type}" for value in function.params)
        self._line(depth + 1, f"{function.name}({parameters}):".lstrip())
        self._block(Block(function.ops), depth + 1)
        self._line(depth + 1, f"gives {', '.join(map(self._value, function.results))}")
        self._line(depth, "}")

    # -- operands ----------------------------------------------------------------------------------------

    def _item(self, item: Any) -> str:
        match item:
            case bool():
                return str(item).lower()
            case Value():
                return self._value(item)
            case Holder():
                return item.text(self._item)
            case Buffer() | BarrierArray() | Label():
                return self._name(item)
            case str():
                return '"' + item.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
            case DType():
                return item.name
            case Enum():
                return self._item(item.value)
            case tuple() if len(item) > 1 and isinstance(item[0], tuple):
                rows = [self._item(row) for row in item]  # one row per rank: once, where all ranks are alike
                return rows[0] if len(set(rows)) == 1 else " | ".join(rows)
            case tuple() if len(item) == 1:
                return self._item(item[0])
            case tuple():
                return f"({', '.join(self._item(part) for part in item)})"
        return str(item)

    def _value(self, value: Value) -> str:
        if not isinstance(value, Const):
            return self._name(value)
        number = repr(value.value).lower() if isinstance(value.value, bool) else repr(value.value)
        return number if value.type == constant_type(value.value) else f"{number}:{value.type}"

    def _result(self, value: Value) -> str:
        layout = self.layouts.get(value)
        if layout is None:
            return f"{self._name(value)}: {value.type}"
        number = self.layout_numbers.setdefault(layout, len(self.layout_numbers))
        return f"{self._name(value)}: {value.type} #{number}"

    # -- names -------------------------------------------------------------------------------------------

    def _target(self, label: Label) -> str:
        return f" {self._name(label)}" if label in self.targets else ""

    def _name(self, thing: Value | Buffer | BarrierArray | Label) -> str:
        """A name no other thing has: the user's, with a number where it is taken."""
        name = self.names.get(thing)
        if name is None:
            memory = isinstance(thing, (Buffer, BarrierArray)) or (
                isinstance(thing, Param) and thing.is_array
            )
            prefix = "" if memory else "@" if isinstance(thing, Label) else "$" if isinstance(thing, Var) else "%"
            base = prefix + thing.name
            number = self.uses.get(base, 0)
            self.uses[base] = number + 1
            if not thing.name:
                name = f"{base}{number}"
            else:
                name = base if number == 0 else f"{base}.{number}"
            self.names[thing] = name
        return name


def _is_default(field: dataclasses.Field[Any], item: object) -> bool:
    return field.default is not dataclasses.MISSING and type(item) is type(field.default) and item == field.default


def _bytes_text(op: Op) -> str:
    """The bytes that an asynchronous copy credits to its barrier: they stand in no operand."""
    numbers = [c.nbytes for c in op.effects().completes if isinstance(c.nbytes, int)]  # others are operands
    return "".join(f" {{completes {number} bytes}}" for number in numbers)


def _masks(effects: Effects) -> list[Value | None]:
    """The operands that are masks of CTAs."""
    signals: tuple[Arrival | Expect | Complete, ...] = (*effects.arrivals, *effects.expects, *effects.completes)
    return [access.mask for access in effects.accesses] + [signal.mask for signal in signals]


def _calls(loc: Location) -> Iterator[Location]:
    step: Location | None = loc
    while step is not None:
        yield step
        step = step.caller
