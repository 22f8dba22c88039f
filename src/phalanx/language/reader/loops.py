"""Reads loops: run-time ones, whose carried variables become cells, and unrolled ones over constants."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from phalanx.ir.core import Op
from phalanx.ir.ops.control import For, NextTile, ReadVar, Scope, While
from phalanx.ir.ops.tile import Compare
from phalanx.ir.types import BOOL, I32, I64, ScalarType, Type, i32, i64, u32, u64
from phalanx.ir.values import Label, Value, Var, constant_type
from phalanx.language.builder import Builder, freeze, operand
from phalanx.language.limits import MAX_BRANCHES, too_deep
from phalanx.language.objects import DrawnTiles, MappedTiles, Number, RunTimeRange, Unavailable, as_object, describe
from phalanx.language.operators import cast, dtype_of, promote
from phalanx.language.reader.expressions import Expressions
from phalanx.language.reader.pipelined import check_body
from phalanx.language.reader.python_calls import length_of
from phalanx.language.reader.state import (
    Exits,
    Key,
    Slot,
    State,
    WayIn,
    common_type,
    defined_in,
    fits_cell,
    is_carriable,
    merge,
    same,
    slot_name,
    to_cell,
    value_at,
    with_slots,
)
from phalanx.location import Location

MAX_READINGS = 64
MAX_UNROLLED = 4096
NUMBER = "tile'"
"""The variable that has the number of a tile, where users name other things: no name of theirs."""
_NEW = Unavailable("assigned inside the loop")


@dataclass
class Loop:
    """An open run-time loop: its early exits."""

    label: Label
    transactions: int
    continues: Exits = field(default_factory=Exits)
    breaks: Exits = field(default_factory=Exits)


@dataclass
class Unrolled:
    """An open unrolled loop. Exits under a run-time condition leave a scope: the iteration's or the loop's."""

    label: Label
    iteration: Label
    control_depth: int
    transactions: int
    left: str | None = None
    continues: Exits = field(default_factory=Exits)
    breaks: Exits = field(default_factory=Exits)


class Given(ast.stmt):
    """A statement of the reader's own, which is code of the compiler's and not text."""

    def __init__(self, run: Callable[[], None]) -> None:
        super().__init__()
        self.run = run


@dataclass
class Form:
    """How a loop is built: what its head defines, and the instruction made of its body.

    `test` holds the instructions of a `while` test; the reads of the cells stand before them. `endless`: its only exits
    are early ones.
    """

    head: Callable[[], None]
    build: Callable[[list[Op], Label], Op]
    test: list[Op] | None = None
    endless: bool = False


class StatefulTest(Exception):
    """The test of a `while` changes variables: it has to be read as a part of the body."""


class Loops(Expressions):
    """The part of the reader that reads loops."""

    def __init__(self, ctx: Builder) -> None:
        super().__init__(ctx)
        self.loops: list[Loop | Unrolled] = []
        self.control_depth = 0
        self.transactions = 0
        self.carried_guess: dict[Hashable, set[Slot]] = {}
        self.assigned_at: dict[Key, Location] = {}

    # Provided by the reader.

    def statements(self, body: list[ast.stmt]) -> None:
        """Reads statements one after the other, up to one that leaves the block."""
        raise NotImplementedError

    def bind(self, target: ast.expr, value: object) -> None:
        """Assigns to a name, a field or a tuple of them."""
        raise NotImplementedError

    @contextmanager
    def runtime_control(self) -> Iterator[None]:
        """What is read inside runs under a condition that is known at run time only."""
        self.control_depth += 1
        if self.control_depth > MAX_BRANCHES:
            raise too_deep("branches and loops", MAX_BRANCHES, self.ctx.loc)
        try:
            yield
        finally:
            self.control_depth -= 1

    def do_For(self, node: ast.For) -> None:
        """`for`: unrolled over a sequence of constants, a run-time loop over a range."""
        if node.orelse:
            self.ctx.fail("for ... else is not supported in kernels", "set a flag before break")
        items = self.eval(node.iter)
        self.ctx.loc = self.locate(node)
        iterations = as_object(items).iterations()
        if iterations is None:
            self.ctx.fail(
                f"can't loop over {describe(items)}",
                "use range(...), px.static_range(...) or a tuple",
                loc=self.locate(node.iter),
            )
        if isinstance(iterations, RunTimeRange):
            self.counted(node, iterations)
        elif isinstance(iterations, DrawnTiles):
            self.drawn(node, iterations)
        elif isinstance(iterations, MappedTiles):
            self.mapped(node, iterations)
        else:
            self.unrolled(node, iterations)

    # Unrolled loops.

    def unrolled(self, node: ast.For, items: Sequence[object]) -> None:
        """Reads the body once for each item."""
        loc = self.ctx.loc
        count = length_of(items) if isinstance(items, range) else len(items)
        if count > MAX_UNROLLED:
            self.ctx.fail(f"a loop of {count} iterations is not unrolled", "use range(...) for a run-time loop")
        base = dict(self.state)
        name = f"unrolled{loc.line}"
        loop = Unrolled(Label(name), Label(name), self.control_depth, self.transactions)
        self.loops.append(loop)
        with self.ctx.block() as ops:
            for item in items:
                self.iteration(node, item, loop)
                self.ctx.loc = loc
                if self.terminated or loop.left == "break":
                    break
            falls = [] if self.terminated and loop.left != "break" else [WayIn.at_end(ops, self.state)]
        self.loops.pop()
        if not loop.breaks.paths:
            self.terminated = not falls
            self.ctx.ops.extend(ops)
            return
        self.ctx.emit(Scope(loop.label, freeze(ops), loc=loc))
        self.state = merge(self.ctx, [*falls, *loop.breaks.paths], "this loop", base, defined_in(ops))
        self.terminated = False

    def iteration(self, node: ast.For, item: object, loop: Unrolled) -> None:
        """One iteration; `terminated` afterwards says that no path reaches the next one."""
        loc, base = self.ctx.loc, dict(self.state)
        loop.left, loop.iteration, loop.continues = None, Label(loop.label.name), Exits()
        with self.ctx.block() as ops:
            self.bind(node.target, item)
            self.statements(node.body)
            falls = [] if self.terminated and loop.left != "continue" else [WayIn.at_end(ops, self.state)]
        if loop.left == "break":
            self.ctx.ops.extend(ops)
            return
        self.terminated = not falls
        if not loop.continues.paths:
            self.ctx.ops.extend(ops)
            return
        self.ctx.loc = loc
        self.ctx.emit(Scope(loop.iteration, freeze(ops), loc=loc))
        self.state = merge(self.ctx, [*falls, *loop.continues.paths], "this loop", base, defined_in(ops))
        self.terminated = False

    # Run-time loops.

    def counted(self, node: ast.For, items: RunTimeRange) -> None:
        """A run-time loop with an index."""
        wide = any(dtype_of(x) in (i64, u32, u64) for x in (items.start, items.stop, items.step))
        type_ = I64 if wide else I32
        start, stop, step = (
            operand(cast(self.ctx, x, type_.dtype)) for x in (items.start, items.stop, items.step)
        )
        name, key = self.index_of(node)
        index = Value(type_, name)
        loc = self.ctx.loc
        gone = self.state[key] = self.ended(name)

        def head() -> None:
            self.state[key] = index

        def build(body: list[Op], label: Label) -> Op:
            made = For(
                index, start, stop, step, freeze(body), label, items.unroll, items.dealt, items.pipelined, items.unordered,
                loc=loc,
            )
            if items.pipelined is not None:
                check_body(self.ctx, made)
            return made

        self.runtime_loop(node, node.body, Form(head, build))
        self.state[key] = gone

    def drawn(self, node: ast.For, items: DrawnTiles) -> None:
        """A loop over tiles that are dealt one by one: each test draws one, or is told which was drawn."""
        n = operand(cast(self.ctx, items.n, i32))
        name, key = self.index_of(node)
        loc = self.ctx.loc
        gone = self.state[key] = self.ended(name)
        cond: list[Value] = []

        def head() -> None:
            tile, there = Value(I32, name), Value(BOOL)
            form.test = [NextTile(n, items.schedule, tile, loc=loc), Compare("lt", tile, n, there, loc=loc)]
            cond[:] = [there]
            self.state[key] = tile

        def build(body: list[Op], label: Label) -> Op:
            return While(freeze(form.test or []), cond[0], freeze(body), label, loc=loc)

        form = Form(head, build, test=[])
        self.runtime_loop(node, node.body, form)
        self.state[key] = gone

    def mapped(self, node: ast.For, items: MappedTiles) -> None:
        """A loop over tiles whose body begins by finding out what the number of its tile stands for."""
        target = node.target
        if not isinstance(target, ast.Tuple) or not all(isinstance(part, ast.Name) for part in target.elts):
            self.ctx.fail(
                "a loop over groups has two variables", "write: for t, g in px.persistent(groups=STARTS, tile=BM)",
                loc=self.locate(target),
            )
        names = {(self.frames[-1].ident, part.id): part.id for part in target.elts if isinstance(part, ast.Name)}
        gone: State = {key: self.ended(name) for key, name in names.items()}
        self.state.update(gone)
        found, own = items.begin(self.ctx), (self.frames[-1].ident, NUMBER)

        def tell() -> None:
            number = self.state[own]
            assert isinstance(number, Value)
            self.bind(target, found(number))

        begins = ast.copy_location(Given(tell), node)
        loop = ast.copy_location(ast.For(ast.Name(NUMBER), node.iter, [begins, *node.body], []), node)
        if isinstance(items.tiles, DrawnTiles):
            self.drawn(loop, items.tiles)
        else:
            self.counted(loop, items.tiles)
        self.state.update(gone)

    def do_Given(self, node: Given) -> None:
        """A statement that the reader put in, not a user."""
        node.run()

    def index_of(self, node: ast.For) -> tuple[str, Key]:
        """The variable of a run-time loop: its name, and the reader's key."""
        if not isinstance(node.target, ast.Name):
            self.ctx.fail(
                "the variable of a run-time loop must be a single name",
                "write: for i in range(n)",
                loc=self.locate(node.target),
            )
        return node.target.id.rstrip("'"), (self.frames[-1].ident, node.target.id)

    def ended(self, name: str) -> Unavailable:
        """What the variable of a run-time loop is after it."""
        return Unavailable(
            f"'{name}' is the variable of a loop that has ended", "assign it to another variable inside the loop"
        )

    def do_While(self, node: ast.While) -> None:
        """`while`: nothing where its test is a constant that is false."""
        if node.orelse:
            self.ctx.fail("while ... else is not supported in kernels", "set a flag before break")
        loc, before = self.ctx.loc, dict(self.state)
        with self.ctx.block() as ops:
            at_entry = self.condition(node.test, "'while'")
        if at_entry is False:  # the test runs once, the body never
            self.ctx.ops.extend(ops)
            return
        self.state, self.ctx.loc = before, loc
        try:
            self.tested_loop(node, loc)
        except StatefulTest:
            leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
            forever = ast.While(ast.Constant(True), [leave, *node.body], [])
            for made in ast.walk(forever):
                if not hasattr(made, "lineno"):
                    ast.copy_location(made, node.test)
            self.state, self.ctx.loc = dict(before), loc
            self.tested_loop(forever, loc)

    def tested_loop(self, node: ast.While, loc: Location) -> None:
        """`while`: the test is part of every iteration; its instructions form the loop's test block."""
        cond: list[Value] = []

        def head() -> None:
            before = dict(self.state)
            with self.ctx.block() as ops:
                value = self.condition(node.test, "'while'")
            if any(self.state[key] is not item for key, item in before.items()):
                raise StatefulTest
            cond[:] = [operand(value)]
            form.test = ops
            form.endless = value is True

        def build(body: list[Op], label: Label) -> Op:
            return While(freeze(form.test or []), cond[0], freeze(body), label, loc=loc)

        form = Form(head, build, test=[])
        self.runtime_loop(node, node.body, form)

    def runtime_loop(self, node: ast.stmt, body: list[ast.stmt], form: Form) -> None:
        """Reads a loop body until the set of carried keys is stable, then writes the loop.

        A key is carried if its value at the end of the body (or at a continue) differs from the one at the head: the
        body is then read again with a cell in its place, or one for each element of a tuple that changes. What an
        earlier reading left elsewhere (returns, loops) is taken back.
        """
        guess_key = (node.lineno, node.col_offset, type(node), tuple((f.source, f.caller) for f in self.frames))
        reading = Reading(self, form, dict(self.state), set(self.carried_guess.get(guess_key, ())))
        position, loc = len(self.ctx.ops), self.ctx.loc
        depths = self.control_depth, self.ctx.loop_depth, self.transactions, self.depth, self.block_depth
        loops, frames = len(self.loops), len(self.frames)
        returns = [len(frame.returns) for frame in self.frames]
        try:
            for _ in range(MAX_READINGS):
                self.state = dict(reading.entry)
                del self.ctx.ops[position:]
                for frame, count in zip(self.frames, returns, strict=True):
                    del frame.returns[count:]
                self.ctx.loc = loc
                if reading.read(body):
                    self.carried_guess[guess_key] = set(reading.carried)
                    return
        except StatefulTest:
            self.control_depth, self.ctx.loop_depth, self.transactions, self.depth, self.block_depth = depths
            del self.loops[loops:], self.frames[frames:], self.ctx.ops[position:]
            raise
        self.ctx.fail("the variables of this loop do not settle", "give each variable one type", loc=loc)


@dataclass
class Reading:
    """One run-time loop while it is read, again and again until its carried variables are known."""

    reader: Loops
    form: Form
    entry: State
    carried: set[Slot]
    types: dict[Slot, Type] = field(default_factory=dict)

    def read(self, body: list[ast.stmt]) -> bool:
        """Reads the loop once; False if another variable turned out to be carried."""
        reader, ctx, loc = self.reader, self.reader.ctx, self.reader.ctx.loc
        before = WayIn.at_end(ctx.ops, self.entry)
        cells = self.make_cells()
        for slot, var in cells.items():
            to_cell(ctx, before, var, value_at(self.entry, slot))
        loop = Loop(Label(f"loop{loc.line}"), reader.transactions)
        reader.loops.append(loop)
        ctx.loop_depth += 1
        with ctx.block() as ops, reader.runtime_control():
            reads: dict[Slot, Value] = {slot: Value(var.type, var.name) for slot, var in cells.items()}
            read_ops: list[Op] = [ReadVar(var, reads[slot], loc=loc) for slot, var in cells.items()]
            reader.state.update(with_slots(self.entry, reads))
            if self.form.test is None:
                ops.extend(read_ops)
            self.form.head()
            top = dict(reader.state)
            if self.form.test is not None:
                self.form.test[:0] = read_ops
            reader.statements(body)
            if not reader.terminated:
                loop.continues.record(ctx, reader.state)
            reader.terminated = False
        ctx.loop_depth -= 1
        reader.loops.pop()
        if self.found_changes(loop, top, cells, loc):
            return False
        for path in loop.continues.paths:
            self.write_back(path, cells, reads)
        ctx.loc = loc
        self.after(loop, ops, cells, reads, before)
        return True

    def make_cells(self) -> dict[Slot, Var]:
        """Makes a cell for each carried variable, in the order of the variables: a kernel always reads the same."""
        cells: dict[Slot, Var] = {}
        carried: dict[Key, list[Slot]] = {}
        for slot in self.carried:
            carried.setdefault(slot.key, []).append(slot)
        for key in self.entry:
            for slot in sorted(carried.get(key, ()), key=lambda slot: slot.path):
                value = value_at(self.entry, slot)
                if is_carriable(value):
                    type_ = self.types.get(slot) or (value.type if isinstance(value, Value) else constant_type(value))
                    cells[slot] = Var(type_, slot_name(slot))
        return cells

    def write_back(self, path: WayIn, cells: dict[Slot, Var], reads: dict[Slot, Value]) -> None:
        """Puts the loop's variables into their cells at the end of a path."""
        for slot, var in cells.items():
            now = value_at(path.state, slot)
            if now is not reads[slot]:
                to_cell(self.reader.ctx, path, var, now)

    def held(self, state: State, cells: dict[Slot, Var]) -> dict[Slot, Var]:
        """The cells whose variables have a value that fits on a path that breaks out; the others are for `merge`."""
        misfits = {slot.key for slot, var in cells.items() if not fits_cell(state, self.entry, slot, var)}
        return {slot: var for slot, var in cells.items() if slot.key not in misfits}

    def after(self, loop: Loop, ops: list[Op], cells: dict[Slot, Var], reads: dict[Slot, Value], before: WayIn) -> None:
        """The state after the loop: cells hold what it carried; what only a break changed is merged."""
        reader, ctx, loc = self.reader, self.reader.ctx, self.reader.ctx.loc
        inner = [path.state for path in (*loop.continues.paths, *loop.breaks.paths)]
        exits: dict[Slot, Value] = {slot: Value(var.type, var.name) for slot, var in cells.items()}
        exit_reads: list[Op] = [ReadVar(var, exits[slot], loc=loc) for slot, var in cells.items()]
        ctx.products.update(value for slot, value in exits.items() if slot.key in ctx.accumulators)
        for path in loop.breaks.paths:
            held = self.held(path.state, cells)
            self.write_back(path, held, reads)
            path.state = {**path.state, **with_slots(path.state, {slot: exits[slot] for slot in held})}
        paths = list(loop.breaks.paths)
        if not self.form.endless:
            paths.insert(0, WayIn(before.landing, {**self.entry, **with_slots(self.entry, exits)}))
        with ctx.block() as merged_reads:
            reader.state = merge(ctx, paths, "this loop", self.entry, defined_in(ops, self.form.test or []))
        ctx.ops.append(self.form.build(ops, loop.label))
        ctx.ops.extend(exit_reads + merged_reads)
        reader.terminated = not paths
        for key in {key: None for state in inner for key in state}:
            if key not in self.entry and (key not in reader.state or not self.form.endless):
                reader.state[key] = Unavailable(
                    f"'{key[1]}' is assigned only inside a loop that may not run", "assign it before the loop"
                )

    def found_changes(self, loop: Loop, top: State, cells: dict[Slot, Var], loc: Location) -> bool:
        """Looks for keys that change on the way to a back edge and have no cell yet, or one of the wrong type."""
        found = False
        for path in loop.continues.paths:
            for key, value in top.items():
                if isinstance(self.entry.get(key, _NEW), Unavailable) or same(value, path.state[key]):
                    continue
                if key in self.entry:
                    found |= self.changed(Slot(key), path.state[key], cells, loc)
        return found

    def changed(self, slot: Slot, now: object, cells: dict[Slot, Var], loc: Location) -> bool:
        """Notes that the loop changes a variable, or an element of one, to `now`; True to read the body again."""
        key, entry, cell = slot.key, value_at(self.entry, slot), cells.get(slot)
        if isinstance(now, Unavailable):
            self.entry[key] = now
            return True
        if isinstance(entry, tuple) and isinstance(now, tuple) and len(entry) == len(now):
            parts = [(Slot(key, (*slot.path, i)), part) for i, part in enumerate(now)]
            differ = [(part, value) for part, value in parts if not same(value_at(self.entry, part), value)]
            return any([self.changed(part, value, cells, loc) for part, value in differ])  # all of them, not the first
        if not is_carriable(entry) or not is_carriable(now):
            was, to = describe(entry), describe(now)
            self.entry[key] = Unavailable(
                f"the loop changes '{slot_name(slot)}', which is {was}" + (f", to {to}" if to != was else ""),
                "a run-time loop carries scalars, tiles and tuples of them: use another name inside the loop",
            )
            return True
        type_ = common_type([entry, now])
        if cell is not None and type_ == cell.type:
            return False
        if type_ is None or (cell is not None and not self.widens(entry, cell, type_)):
            old = cell.type if cell is not None else entry.type if isinstance(entry, Value) else constant_type(entry)
            new = now.type if isinstance(now, Value) else constant_type(now) if old != constant_type(now) else now
            self.reader.ctx.fail(
                f"the loop changes '{slot_name(slot)}' from {old} to {new}",
                "a variable that a run-time loop carries keeps its type: initialise it with the right one "
                "(px.zeros, .to), or use another name inside the loop",
                loc=self.reader.assigned_at.get(key, loc),
            )
        self.types[slot] = type_
        self.carried.add(slot)
        owner, name = key
        if name == "stage" and {(owner, "n"), (owner, "parity")} <= self.entry.keys():
            self.carried.add(Slot((owner, "parity")))  # a ring that moves also wraps: known at once, it saves a reading
        return True

    def widens(self, entry: object, cell: Var, type_: Type) -> bool:
        """A cell that began as a bare number may still grow, e.g. from i32 to f32."""
        if not isinstance(entry, Number) or not isinstance(type_, ScalarType):
            return False
        return promote(cell.type.dtype, type_.dtype) == type_.dtype
