"""IR to Python: one generator function per agent program, compiled once per kernel.

Scalars are Python locals and their arithmetic is inline. Every other instruction is a call of a function that
its meaning prepared once for the agent, with its operands resolved: `t4[v3] if 0 <= v3 < 4 else f5(v3)` is a
stage of a shared buffer. The source of a kernel can be read: `Code.source`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from phalanx.errors import internal
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Role
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.ir.views import BarrierRef, View
from phalanx.sim.agents import ASK, BLOCKED, LINE, STEP, Agent
from phalanx.sim.budget import CALL, PROBE
from phalanx.sim.monitor import guarded, watched
from phalanx.sim.numerics import scalar_of
from phalanx.sim.operands import CallOperands
from phalanx.sim.places import (
    BufferPlace,
    array_of,
    buffer_key,
    buffer_of,
    buffer_place,
    global_place,
    outside,
    transposition,
)
from phalanx.sim.registry import inline_of, meaning_of, text_of
from phalanx.sim.spins import Polling

FILENAME = "<simulated kernel>"
_TABLE_LIMIT = 256

Maker = Callable[[Agent], Any]
"""Makes, for one agent, an object that its program names."""


@dataclass
class Asks:
    """How a loop that asks a barrier or memory lets others run: what it yields after a round, and what is known of it."""

    code: str
    how: Polling | None = None


@dataclass
class Frame:
    """A Python loop that is being written. `escapes` are the exits inside it that lead further out."""

    label: Label
    asks: Asks | None = None
    steps: int = 1
    """Steps of one round, as the budget counts them; loops inside count their own."""
    escapes: list[tuple[Label, str]] = field(default_factory=list)


@dataclass
class Program:
    """The text of one agent's code, what its free names stand for, and the roles it forks, copy by copy."""

    name: str
    lines: list[str]
    ops: list[Op | None]
    makers: dict[str, Maker]
    parameters: tuple[Value, ...]
    children: list[tuple[Role, int, Program]]
    values: dict[str, Value]
    """What its local names stand for."""
    factory: Callable[..., Any] = None  # type: ignore[assignment]


class Emitter:
    """Writes one program. The functions of `sim/ops/control.py` write control flow through it."""

    def __init__(
        self, name: str, outer: Emitter | None, *, preempt: bool, numbers: itertools.count[int], stepped: bool = False,
        clocked: bool = False,
    ) -> None:
        self.name = name
        self.outer = outer
        self.preempt = preempt
        self.clocked = clocked
        self.stepped = stepped
        self.numbers = numbers
        self.lines: list[str] = []
        self.ops: list[Op | None] = []
        self.makers: dict[str, Maker] = {}
        self.names: dict[Value, str] = {}
        self.free: dict[Value, str] = {}
        self.vars: dict[Var, str] = {}
        self.frames: list[Frame] = []
        self.nest: tuple[Op, ...] = () if outer is None else outer.nest
        """The loops around this place, from the outermost."""
        self.counts_steps = False
        self.exits: dict[tuple[Label, str], int] = {}
        self.children: list[tuple[Role, int, Program]] = []
        self.depth = 2
        self.op: Op | None = None

    # --- text -------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Appends a line of source, which belongs to the current instruction."""
        self.lines.append("    " * self.depth + text)
        self.ops.append(self.op)

    def fresh(self, prefix: str, hint: str = "") -> str:
        """A new name for a Python variable."""
        hint = re.sub(r"\W", "", hint)
        return f"{prefix}{next(self.numbers)}{'_' + hint if hint else ''}"

    def bind(self, prefix: str, make: Maker) -> str:
        """A name for what `make` returns for the agent."""
        name = self.fresh(prefix)
        self.makers[name] = make
        return name

    # --- values -----------------------------------------------------------------------------------------------------

    def define(self, value: Value) -> str:
        """The local name of a value that the next line defines."""
        if isinstance(value, Var):
            return self.variable(value)
        name = self.names.get(value)
        if name is None:
            name = self.names[value] = self.fresh("v", value.name)
        return name

    def variable(self, var: Var) -> str:
        """The local name of a mutable cell; a role has a copy of the one around it."""
        if var in self.vars:
            return self.vars[var]
        if var in self.free:
            return self.free[var]
        if self.outer is not None and self.outer.knows(var):
            return self.import_(var)
        name = self.vars[var] = self.fresh("x", var.name)
        return name

    def import_(self, value: Value) -> str:
        """A parameter of the program for a value that another role computed."""
        name = self.free[value] = self.fresh("a", value.name)
        return name

    def knows(self, value: Value) -> bool:
        """Whether a value is computed here or outside."""
        return (
            value in self.names or value in self.vars or value in self.free
            or (self.outer is not None and self.outer.knows(value))
        )

    def expr(self, value: Value | None) -> str:
        """A Python expression for an operand."""
        if value is None:
            return "None"
        if isinstance(value, Const):
            return self.constant(value)
        if isinstance(value, Param):
            dtype, index, array = value.type.dtype, value.index, value.is_array
            name = f"p{index}"

            def argument(agent: Agent) -> Any:
                given = agent.cta.cluster.machine.args[index]
                return given if array else scalar_of(given, dtype)

            self.makers[name] = argument
            return name
        if isinstance(value, Var):
            return self.variable(value)
        return self.names.get(value) or self.free.get(value) or self.import_(value)

    def constant(self, value: Const) -> str:
        """A Python expression for a constant."""
        assert isinstance(value.type, ScalarType)
        number = scalar_of(value.value, value.type.dtype)
        if isinstance(number, int):
            return repr(number) if number >= 0 else f"({number})"
        return self.bind("c", lambda agent: number)

    # --- operands ---------------------------------------------------------------------------------------------------

    def operand(self, item: Any) -> str:
        """A Python expression for one operand field of the current instruction."""
        if item is None or isinstance(item, Value):
            return self.expr(item)
        if isinstance(item, BarrierRef):
            return self.barrier(item)
        if isinstance(item, View):
            return self.place(item)
        if isinstance(item, tuple):
            return "(" + "".join(f"{self.operand(part)}, " for part in item) + ")"
        if isinstance(item, str | int | float):
            return repr(item)
        internal(f"the simulator does not know how to read {type(item).__name__}", self.op.loc)  # type: ignore[union-attr]

    def barrier(self, ref: BarrierRef) -> str:
        """A Python expression for a barrier, whose index is checked at run time where it is no constant."""
        array, index = ref.barrier, ref.index
        if isinstance(index, Const) and 0 <= int(index.value) < array.n:
            number = int(index.value)
            return self.bind("b", lambda agent: agent.cta.barriers[array][number])
        location = self.op.loc  # type: ignore[union-attr]
        table = self.bind("b", lambda agent: agent.cta.barriers[array])
        fail = self.bind("f", lambda agent: guarded(lambda index: outside(array, index, location), agent))
        return self.checked(table, self.expr(index), array.n, fail)

    def place(self, view: View) -> str:
        """The region at run time; where its memory is, the space says."""
        location = self.op.loc  # type: ignore[union-attr]
        if view.space.is_each_ctas:
            return self.box(view)
        if view.space.is_common:
            return self.global_(view)
        internal(f"the simulator does not know whose {view.space.name} memory is", location)

    def box(self, view: View) -> str:
        """Constant offsets: the place itself. One run-time index of a dropped axis: a table. Otherwise a call."""
        location = self.op.loc  # type: ignore[union-attr]
        buffer = buffer_of(view)
        shape = buffer.shape
        axes = transposition(view.kept)
        starts = [int(o.value) if isinstance(o, Const) else None for o in view.offsets]
        moving = [axis for axis, start in enumerate(starts) if start is None]
        fixed = all(
            start is None or 0 <= start <= size - extent for start, extent, size in zip(starts, view.extents, shape)
        )
        boxes = view.index_axis is None
        call = self.bind("f", lambda agent: guarded(buffer_place(view, agent.cta, location), agent, keep=boxes))
        if fixed and not moving and view.peer is None and not view.run_time_extents:
            key = buffer_key(view, shape, tuple(starts), location)  # type: ignore[arg-type]
            return self.bind("s", lambda agent: BufferPlace(agent.cta, buffer, key, axes))
        if fixed and len(moving) == 1 and view.peer is None and not view.run_time_extents and boxes:
            axis = moving[0]
            if axis not in view.kept and shape[axis] <= _TABLE_LIMIT:
                keys = [
                    buffer_key(view, shape, tuple(i if s is None else s for s in starts), location)
                    for i in range(shape[axis])
                ]
                table = self.bind("t", lambda agent: [BufferPlace(agent.cta, buffer, key, axes) for key in keys])
                before = "".join(f"{s}, " for s in starts[:axis])
                after = "".join(f", {s}" for s in starts[axis + 1 :])
                index = self.expr(view.offsets[axis])
                return f"({table}[{index}] if 0 <= {index} < {shape[axis]} else {call}({before}{index}{after}))"
        operands = [*view.offsets, *(() if view.peer is None else (view.peer,)), *view.run_time_extents]
        return f"{call}({', '.join(map(self.expr, operands))})"

    def global_(self, view: View) -> str:
        """A box of an argument, whose edges are masked."""
        index, location = array_of(view).index, self.op.loc  # type: ignore[union-attr]
        call = self.bind("g", lambda agent: global_place(view, agent.cta.cluster.machine.args[index], location))
        return f"{call}({', '.join(map(self.expr, (*view.offsets, *view.limits, *view.moved)))})"

    @staticmethod
    def checked(table: str, index: str, size: int, fail: str) -> str:
        """A Python expression for an item of a table, or the call that refuses its index."""
        return f"({table}[{index}] if 0 <= {index} < {size} else {fail}({index}))"

    # --- instructions -----------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Writes the instructions of a block."""
        before = len(self.lines)
        for op in block.ops:
            self.instruction(op)
        if len(self.lines) == before:
            self.line("pass")

    def instruction(self, op: Op) -> None:
        """Writes one instruction: as source, as an expression, or as a call of its meaning."""
        outer, self.op = self.op, op
        write = text_of(op)
        if self.stepped and op.is_step:
            self.line(f"yield {LINE}")
        if write is not None:
            write(op, self)
        else:
            express = inline_of(op)
            expression = express(op, self) if express is not None else None
            if expression is not None:
                assert op.defines is not None
                self.line(f"{self.define(op.defines)} = {expression}")
                self.cost(1)
            else:
                self.call(op)
        self.op = outer

    def cost(self, steps: int) -> None:
        """Counts an instruction in the round of the loop around it."""
        if self.frames:
            self.frames[-1].steps += steps

    def call(self, op: Op) -> None:
        """A call of the instruction's meaning."""
        self.cost(CALL)
        meaning = meaning_of(op)
        if self.preempt and (self.clocked or not op.effects().is_pure) and not any(how.whole for how in self.polling()):
            self.line(f"yield {ASK if self.only_asks else STEP}")

        arguments = CallOperands(op)

        def prepare(agent: Agent) -> Any:
            run = meaning.prepare(op, agent)
            monitor = agent.cta.cluster.machine.monitor
            return arguments.meaning_alone(run) if monitor is None else watched(run, op, agent, monitor, arguments)

        operands = ", ".join(map(self.operand, (*arguments.fields, *arguments.derived)))
        call = f"{self.bind('o', prepare)}({operands})"
        if meaning.blocks:
            self.line(f"if {call}:")
            self.line(f"    yield {BLOCKED}")
        elif op.defines is not None:
            self.line(f"{self.define(op.defines)} = {call}")
        else:
            results = "".join(f"{self.define(value)}, " for value in op.defined_values())
            self.line(f"{results}= {call}" if results else call)

    # --- loops and exits --------------------------------------------------------------------------------------------

    def polling(self) -> Iterator[Polling]:
        """What is known of the loops around this place that ask."""
        return (frame.asks.how for frame in self.frames if frame.asks is not None and frame.asks.how is not None)

    @property
    def only_asks(self) -> bool:
        """Whether this place is in a loop that does nothing but ask."""
        return any(not how.acts for how in self.polling())

    def loop(
        self, head: str, label: Label, body: Callable[[], None], asks: Asks | None = None, rounds: Op | None = None
    ) -> None:
        """A Python loop with what must follow it: exits that only pass through are sent on.

        `rounds` is the instruction whose rounds count as steps of the budget; a loop of one round has none.
        """
        frame = Frame(label, asks)
        self.line(head)
        self.frames.append(frame)
        self.depth += 1
        if rounds is None:
            body()
        else:
            outer, self.nest = self.nest, (*self.nest, rounds)
            position = self.count_round(frame)
            body()
            if asks is not None and (asks.how is None or asks.how.probes):
                frame.steps = PROBE
            self.lines[position] = self.lines[position].replace("STEPS", str(frame.steps))
            self.nest = outer
        self.depth -= 1
        self.frames.pop()
        for target, action in frame.escapes:
            self.line(f"if leaving == {self.exits[target, action]}:")
            self.depth += 1
            if self.frames[-1].label is target:
                self.line("leaving = 0")
            self.exit(target, action)
            self.depth -= 1

    def count_round(self, frame: Frame) -> int:
        """Writes the count of a round at the start of a loop's body; the number of steps is put in at its end."""
        self.counts_steps = True
        nest, position = self.nest, len(self.lines)

        def more(agent: Agent) -> Callable[[], int]:
            budget = agent.cta.cluster.machine.budget
            return lambda: budget.take(nest, frame.steps)

        self.line("left -= STEPS")
        self.line("if left < 0:")
        self.line(f"    left = {self.bind('o', more)}()")
        return position

    def exit(self, target: Label, action: str) -> None:
        """Leaves for (`break`) or goes on with (`continue`) the loop or scope named `target`."""
        frame = self.frames[-1]
        if frame.label is target:
            if action == "continue" and frame.asks is not None:
                self.line(f"yield {frame.asks.code}")
            self.line(action)
            return
        code = self.exits.setdefault((target, action), len(self.exits) + 1)
        if (target, action) not in frame.escapes:
            frame.escapes.append((target, action))
        self.line(f"leaving = {code}")
        self.line("break")

    # --- programs ---------------------------------------------------------------------------------------------------

    def role(self, role: Role) -> tuple[range, str]:
        """Writes a role as a program of its own: the numbers of its copies among the children, and the values they take."""
        inner = Emitter(
            role.name, self, preempt=self.preempt, numbers=self.numbers, stepped=self.stepped, clocked=self.clocked
        )
        inner.block(role.body)
        program = inner.program()
        start = len(self.children)
        self.children += [(role, copy, program) for copy in range(role.copies)]
        return range(start, len(self.children)), "(" + "".join(f"{self.expr(value)}, " for value in program.parameters) + ")"

    def program(self) -> Program:
        """The finished source of the code of an agent."""
        self.op = None
        parameters = tuple(self.free)
        head = [f"    def program({', '.join(self.free[value] for value in parameters)}):"]
        if self.vars:
            head.append(f"        {' = '.join(self.vars.values())} = None")
        if self.exits:
            head.append("        leaving = 0")
        if self.counts_steps:
            chunk = self.bind("c", lambda agent: agent.cta.cluster.machine.budget.chunk)
            head.append(f"        left = {chunk}")
        names = "".join(f"{name}, " for name in self.makers)
        lines = [f"def bind({names.rstrip(', ')}):", *head, *self.lines, "        return", f"        yield {BLOCKED}",
                 "    return program"]
        ops: list[Op | None] = [None] * (1 + len(head)) + self.ops + [None] * 3
        values = {name: value for found in (self.names, self.vars, self.free) for value, name in found.items()}
        return Program(self.name, lines, ops, self.makers, parameters, self.children, values)


class Code:
    """A kernel as Python: its programs, their text, and from a line of the text back to the instruction.

    `preempt`: agents can be interrupted before every instruction with an effect; with `clocked` also before arithmetic on
    tiles, which takes time. `stepped`: they say so before every
    instruction, for whoever steps through the run.
    """

    def __init__(
        self, function: Function, *, preempt: bool = False, stepped: bool = False, clocked: bool = False
    ) -> None:
        self.stepped = stepped
        emitter = Emitter(
            function.name, None, preempt=preempt, numbers=itertools.count(), stepped=stepped, clocked=clocked
        )
        emitter.block(function.body)
        self.main = emitter.program()
        self.lines: list[str] = []
        self.ops: list[Op | None] = [None]
        self.values: dict[str, Value] = {}
        """What the local names of all programs stand for: none is used twice."""
        for program in self._programs(self.main):
            start = len(self.lines)
            self.lines += [f"# {program.name}", *program.lines]
            self.ops += [None, *program.ops]
            self.values |= program.values
            namespace: dict[str, Any] = {}
            code = "\n" * (start + 1) + "\n".join(program.lines) + "\n"
            exec(compile(code, FILENAME, "exec"), namespace)
            program.factory = namespace["bind"]

    def _programs(self, program: Program) -> list[Program]:
        found = [program]
        for _, copy, child in program.children:
            found += self._programs(child) if copy == 0 else []
        return found

    @property
    def source(self) -> str:
        """The generated Python, for people."""
        return "\n".join(self.lines) + "\n"

    def op_at(self, line: int) -> Op | None:
        """The instruction that a line of the source came from."""
        return self.ops[line] if 0 <= line < len(self.ops) else None

    def bind(self, agent: Agent, program: Program | None = None) -> None:
        """Gives an agent, and the agents of its roles, their programs."""
        program = program or self.main
        for role, copy, child in program.children:
            inner = Agent(agent.cta, role.name_of(copy), role.first_of(copy), role.count, agent, copy)
            agent.children.append(inner)
            self.bind(inner, child)
        agent.program = program.factory(*[make(agent) for make in program.makers.values()])
