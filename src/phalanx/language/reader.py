"""Reads a kernel's statements into IR: control flow, roles, inlined calls. Expressions are in `expressions.py`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from phalanx.ir.core import Op
from phalanx.ir.location import Location
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, ReadVar, Role, Scope, While
from phalanx.ir.ops.mbarrier import Transaction
from phalanx.ir.types import I32, I64, TileType, i64
from phalanx.ir.values import Label, Value, Var, constant_type
from phalanx.language.builder import Agent, Builder, freeze, operand
from phalanx.language.builtin import check_arguments
from phalanx.language.control import StaticRange, WarpsValue, require_condition
from phalanx.language.expressions import Expressions
from phalanx.language.mbarrier import TransactionValue
from phalanx.language.operators import Number, cast, dtype_of
from phalanx.language.source import FunctionSource, read_source
from phalanx.language.state import (
    Exits,
    Key,
    Path,
    State,
    common_type,
    is_carriable,
    merge,
    same,
    to_cell,
)
from phalanx.language.values import StructValue, Unavailable, type_name

MAX_INLINE_DEPTH = 64


@dataclass
class Frame:
    """One inlined function: its source, where it was called, and how it is left."""

    source: FunctionSource
    ident: int
    caller: Location | None
    label: Label
    control_depth: int
    role_depth: int
    returns: list[tuple[Path, Any]] = field(default_factory=list)
    result: Any = None
    done: bool = False


@dataclass
class Loop:
    """An open run-time loop: cells of what it carries, and its early exits."""

    label: Label
    carried: dict[Key, Var]
    continues: Exits = field(default_factory=Exits)
    breaks: Exits = field(default_factory=Exits)
    frame: int = 0


class RangeValue:
    """`range(...)` over run-time values."""

    kind_name = "a range"

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = start, stop, step


class Reader(Expressions):
    """Walks the syntax tree of a kernel and of the functions it calls."""

    def __init__(self, ctx: Builder) -> None:
        super().__init__(ctx)
        self.frames: list[Frame] = []
        self.loops: list[Loop | None] = []
        self.control_depth = 0
        self.next_ident = 0
        self.carried_guess: dict[Any, set[Key]] = {}
        self.assigned_at: dict[Key, Location] = {}

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def fresh_ident(self) -> int:
        self.next_ident += 1
        return self.next_ident

    # Functions.

    def call_function(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Inlines a `@px.func` or a struct's method."""
        source = read_source(fn)
        for frame in self.frames:
            if frame.source.fn is fn:
                self.ctx.fail(
                    f"'{source.name}' calls itself",
                    "functions are inlined, so recursion never ends: write a loop",
                )
        if len(self.frames) > MAX_INLINE_DEPTH:
            self.ctx.fail(f"calls are nested more than {MAX_INLINE_DEPTH} deep")
        bound = check_arguments(self.ctx, f"{source.name}", inspect.signature(fn), args, kwargs)
        bound.apply_defaults()
        caller = self.ctx.loc
        return self.run_function(source, dict(bound.arguments), caller)

    def run_function(self, source: FunctionSource, arguments: dict[str, Any], caller: Location | None) -> Any:
        ident = self.fresh_ident()
        frame = Frame(source, ident, caller, Label(source.name), self.control_depth, self.role_depth)
        for name, value in arguments.items():
            self.state[(ident, name)] = self.adopt(value)
        self.frames.append(frame)
        before = self.ctx.loc
        with self.ctx.block() as ops:
            self.statements(source.node.body)
            end = Path(ops, len(ops), dict(self.state))
            fell_through = not self.terminated
        self.frames.pop()
        self.ctx.loc = before
        self.terminated = False
        result = frame.result
        if not frame.returns:
            self.ctx.ops.extend(ops)
        elif not self.frames:
            self.ctx.emit(Scope(frame.label, freeze(ops), loc=before))
        else:
            result = self.meet_returns(frame, ops, end if fell_through or frame.done else None)
        self.state = {key: value for key, value in self.state.items() if key[0] != ident}
        return result

    def meet_returns(self, frame: Frame, ops: list[Op], end: Path | None) -> Any:
        """The result of a function with early returns: the paths out of it meet after its scope."""
        self.ctx.emit(Scope(frame.label, freeze(ops), loc=self.ctx.loc))
        exits = [*frame.returns] + ([(end, frame.result)] if end is not None else [])
        result_key: Key = (frame.ident, f"{frame.source.name}_result")
        for path, result in exits:
            path.state[result_key] = result
        self.state = merge(self.ctx, [path for path, _ in exits], f"'{frame.source.name}'")
        result = self.state.pop(result_key)
        if isinstance(result, Unavailable):
            self.ctx.fail(result.reason, result.remedy)
        return result

    # Statements.

    def statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self.terminated:
                return
            handler = getattr(self, "do_" + type(statement).__name__, None)
            self.ctx.loc = self.locate(statement)
            if handler is None:
                self.ctx.fail(
                    f"'{_keyword(statement)}' is not supported in kernels",
                    "kernels use assignments, if, for, while, with, return, break, continue, assert and calls",
                )
            handler(statement)

    def locate(self, node: ast.AST) -> Location:
        return self.frame.source.locate(node, self.frame.caller)

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self.eval(node.value)

    def do_Assert(self, node: ast.Assert) -> None:
        value = self.eval(node.test)
        if isinstance(value, Value):
            self.ctx.fail("assert needs a compile-time condition", "px.device_assert checks at run time")
        if not value:
            message = self.eval(node.msg) if node.msg is not None else "assertion failed"
            self.ctx.fail(f"assertion failed: {message}" if node.msg is not None else str(message))

    def do_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        self.ctx.name_hint = target.id if isinstance(target, ast.Name) and len(node.targets) == 1 else ""
        value = self.eval(node.value)
        self.ctx.name_hint = ""
        for target in node.targets:
            self.bind(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.ctx.name_hint = node.target.id if isinstance(node.target, ast.Name) else ""
            value = self.eval(node.value)
            self.ctx.name_hint = ""
            self.bind(node.target, value)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        load = ast.copy_location(_as_load(node.target), node.target)
        left = self.eval(load)
        right = self.eval(node.value)
        self.ctx.loc = self.locate(node)
        self.bind(node.target, self.binary_operator(node.op, left, right))

    def bind(self, target: ast.expr, value: Any) -> None:
        """Assigns to a name, a field or a tuple of them."""
        value = self.adopt(value)
        if isinstance(target, ast.Name):
            if isinstance(value, Value) and not value.name:
                value.name = target.id
            key = (self.frame.ident, target.id)
            self.state[key] = value
            self.assigned_at[key] = self.ctx.loc
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value if isinstance(value, tuple) else None
            if items is None or len(items) != len(target.elts):
                self.ctx.fail(f"can't unpack {type_name(value)} into {len(target.elts)} names", loc=self.locate(target))
            for part, item in zip(target.elts, items, strict=True):
                self.bind(part, item)
        elif isinstance(target, ast.Attribute):
            owner = self.eval(target.value)
            self.ctx.loc = self.locate(target)
            if not isinstance(owner, StructValue):
                self.ctx.fail(f"the attributes of {type_name(owner)} can't be assigned", "only fields of a @px.struct can")
            if target.attr not in owner.cls.fields:
                self.ctx.fail(f"{owner.cls.name} has no field '{target.attr}'", f"its fields are {', '.join(owner.cls.fields)}")
            key = (owner.ident, target.attr)
            self.state[key] = value
            self.assigned_at[key] = self.ctx.loc
        elif isinstance(target, ast.Subscript):
            self.ctx.fail("memory is not written by assignment", "use px.store(view, value)", loc=self.locate(target))
        else:
            self.ctx.fail("can't assign to this", loc=self.locate(target))

    # Branches.

    def do_If(self, node: ast.If) -> None:
        cond = require_condition(self.ctx, self.eval(node.test), "if")
        loc = self.locate(node.test)
        if isinstance(cond, bool):
            self.statements(node.body if cond else node.orelse)
            return
        before = dict(self.state)
        arms: list[list[Op]] = []
        paths: list[Path] = []
        for body in (node.body, node.orelse):
            self.state = dict(before)
            with self.ctx.block() as ops, self.runtime_control():
                self.statements(body)
                if not self.terminated:
                    paths.append(Path(ops, len(ops), self.state))
                self.terminated = False
            arms.append(ops)
        self.ctx.loc = loc
        position = len(self.ctx.ops)
        if len(paths) == 2:
            self.state = merge(self.ctx, paths, "this if")
        elif len(paths) == 1:
            self.state = paths[0].state
        else:
            self.terminated = True
        self.ctx.ops.insert(position, If(cond, freeze(arms[0]), freeze(arms[1]), loc=loc))

    @contextmanager
    def runtime_control(self) -> Iterator[None]:
        self.control_depth += 1
        try:
            yield
        finally:
            self.control_depth -= 1

    # Loops.

    def do_For(self, node: ast.For) -> None:
        if node.orelse:
            self.ctx.fail("for ... else is not supported in kernels", "set a flag before break")
        items = self.eval(node.iter)
        self.ctx.loc = self.locate(node)
        if isinstance(items, StaticRange):
            self.unrolled(node, list(items.items))
        elif isinstance(items, tuple):
            self.unrolled(node, list(items))
        elif isinstance(items, RangeValue):
            self.counted(node, items)
        else:
            self.ctx.fail(
                f"can't loop over {type_name(items)}",
                "use range(...), px.static_range(...) or a tuple",
                loc=self.locate(node.iter),
            )

    def unrolled(self, node: ast.For, items: list[Any]) -> None:
        for item in items:
            self.loops.append(None)  # break and continue of an unrolled loop
            self.unrolled_at.append(self.control_depth)
            self.bind(node.target, item)
            self.static_exit = None
            self.statements(node.body)
            self.loops.pop()
            self.unrolled_at.pop()
            if self.terminated and self.static_exit is not None:
                exit_kind, self.static_exit, self.terminated = self.static_exit, None, False
                if exit_kind == "break":
                    return
            elif self.terminated:
                return

    def counted(self, node: ast.For, items: RangeValue) -> None:
        wide = any(dtype_of(x) == i64 for x in (items.start, items.stop, items.step))
        type_ = I64 if wide else I32
        start, stop, step = (
            operand(cast(self.ctx, x, type_.dtype)) for x in (items.start, items.stop, items.step)
        )
        if not isinstance(node.target, ast.Name):
            self.ctx.fail("the variable of a run-time loop must be a single name", loc=self.locate(node.target))
        name = node.target.id
        index = Value(type_, name)
        loc = self.ctx.loc

        def head(ops: list[Op]) -> None:
            self.state[(self.frame.ident, name)] = index

        def build(body: list[Op], label: Label) -> Op:
            return For(index, start, stop, step, freeze(body), label, loc=loc)

        self.runtime_loop(node, node.body, head, build)
        self.state[(self.frame.ident, name)] = Unavailable(
            f"'{name}' is the variable of a loop that has ended", "assign it to another variable inside the loop"
        )

    def do_While(self, node: ast.While) -> None:
        if node.orelse:
            self.ctx.fail("while ... else is not supported in kernels", "set a flag before break")
        loc = self.ctx.loc
        test_ops: list[Op] = []
        cond: list[Any] = [None]

        def head(ops: list[Op]) -> None:
            # The test is part of every iteration; its instructions form the loop's test block.
            with self.ctx.block() as inner:
                value = require_condition(self.ctx, self.eval(node.test), "while")
                cond[0] = operand(value) if not isinstance(value, Value) else value
            test_ops[:] = inner

        def build(body: list[Op], label: Label) -> Op:
            return While(freeze(reads_then(test_ops)), cond[0], freeze(body), label, loc=loc)

        head_reads: list[Op] = []

        def reads_then(ops: list[Op]) -> list[Op]:
            return head_reads + ops

        self.runtime_loop(node, node.body, head, build, head_reads)

    def runtime_loop(
        self, node: ast.stmt, body: list[ast.stmt], head: Any, build: Any, head_reads: list[Op] | None = None
    ) -> None:
        """Reads a loop body until the set of carried keys is stable, then writes the loop.

        A key is carried if its value at the end of the body (or at a continue) differs from the one at the head: the body
        is then read again with a cell in its place. `head_reads` collects the reads of cells where they must stand before a
        loop's test.
        """
        guess_key = (id(node), tuple(f.caller for f in self.frames))
        carried = set(self.carried_guess.get(guess_key, ()))
        entry_state = dict(self.state)
        entry_position = len(self.ctx.ops)
        loc = self.ctx.loc
        cell_types: dict[Key, Any] = {}
        for _ in range(24):
            self.state = dict(entry_state)
            del self.ctx.ops[entry_position:]
            self.ctx.loc = loc
            result = self.loop_once(node, body, head, build, head_reads, carried, cell_types, entry_state)
            if result is None:
                self.carried_guess[guess_key] = set(carried)
                return
            carried |= result
        self.ctx.fail("the variables of this loop do not settle", "give each variable one type", loc=loc)

    def loop_once(
        self,
        node: ast.stmt,
        body: list[ast.stmt],
        head: Any,
        build: Any,
        head_reads: list[Op] | None,
        carried: set[Key],
        cell_types: dict[Key, Any],
        entry_state: State,
    ) -> set[Key] | None:
        loc = self.ctx.loc
        cells: dict[Key, Var] = {}
        before = Path(self.ctx.ops, len(self.ctx.ops), entry_state)
        reads: dict[Key, Value] = {}
        for key in [k for k in entry_state if k in carried]:
            value = entry_state[key]
            type_ = cell_types.get(key) or (value.type if isinstance(value, Value) else constant_type(value))
            cells[key] = Var(type_, key[1])
        for key, var in cells.items():
            to_cell(self.ctx, before, var, entry_state[key])
        loop = Loop(Label(f"loop{loc.line}"), cells, frame=self.frame.ident)
        self.loops.append(loop)
        self.ctx.loop_depth += 1
        with self.ctx.block() as ops, self.runtime_control():
            read_ops: list[Op] = []
            for key, var in cells.items():
                reads[key] = Value(var.type, key[1])
                read_ops.append(ReadVar(var, reads[key], loc=loc))
                self.state[key] = reads[key]
            if head_reads is None:
                ops.extend(read_ops)
            else:
                head_reads[:] = read_ops
            head(ops)
            head_state = dict(self.state)
            self.statements(body)
            if not self.terminated:
                loop.continues.record(self.ctx, self.state)
            self.terminated = False
        self.ctx.loop_depth -= 1
        self.loops.pop()
        changed = self.changed_keys(entry_state, head_state, loop, cells, cell_types, loc)
        if changed:
            return changed
        for path in loop.continues.paths:
            for key, var in cells.items():
                value = path.state[key]
                if value is not reads[key]:
                    to_cell(self.ctx, path, var, value)
        # What only a break changes is merged after the loop: the head's values flow out of the normal exit.
        after_head = dict(entry_state)
        position = len(self.ctx.ops)
        self.ctx.loc = loc
        exit_reads: list[Op] = []
        for key, var in cells.items():
            value = Value(var.type, key[1])
            exit_reads.append(ReadVar(var, value, loc=loc))
            after_head[key] = value
        for path in loop.breaks.paths:
            for key, var in cells.items():
                value = path.state[key]
                if value is not reads[key]:
                    to_cell(self.ctx, path, var, value)
                path.state[key] = after_head[key]
            for key in [k for k in path.state if k not in entry_state]:
                del path.state[key]
        normal = Path(self.ctx.ops, before.position, after_head)
        outer = self.ctx.ops
        self.ctx.ops = []
        self.state = merge(self.ctx, [normal, *loop.breaks.paths], "this loop")
        merged_reads, self.ctx.ops = self.ctx.ops, outer
        position = len(self.ctx.ops)
        self.ctx.ops.insert(position, build(ops, loop.label))
        self.ctx.ops.extend(exit_reads + merged_reads)
        for path in loop.continues.paths[:1]:
            for key in path.state:
                if key not in self.state:
                    self.state[key] = Unavailable(
                        f"'{key[1]}' is assigned only inside a loop that may not run", "assign it before the loop"
                    )
        return None

    def changed_keys(
        self,
        entry: State,
        head: State,
        loop: Loop,
        cells: dict[Key, Var],
        cell_types: dict[Key, Any],
        loc: Location,
    ) -> set[Key]:
        """Keys whose value at a back edge is not the head's and that have no cell yet, or one of the wrong type."""
        changed: set[Key] = set()
        for path in loop.continues.paths:
            for key, before in head.items():
                if key not in entry:
                    continue
                now = path.state.get(key, before)
                if key in cells:
                    type_ = common_type([entry[key], now]) if now is not head[key] else cells[key].type
                    if type_ is None or type_ != cells[key].type:
                        if isinstance(entry[key], Number) and is_carriable(now) and key not in cell_types:
                            type_ = common_type([entry[key], now])
                            if type_ is not None:
                                cell_types[key] = type_
                                changed.add(key)
                                continue
                        was = cells[key].type
                        to = now.type if isinstance(now, Value) else type_name(now)
                        self.ctx.fail(
                            f"the loop changes '{key[1]}' from {was} to {to}",
                            "a variable that a run-time loop carries keeps its type: initialise it with the right one "
                            "(px.zeros, .to), or use another name inside the loop",
                            loc=self.assigned_at.get(key, loc),
                        )
                    continue
                if same(before, now) or isinstance(before, Unavailable):
                    continue
                if is_carriable(before) and is_carriable(now):
                    type_ = common_type([before, now])
                    if type_ is not None:
                        cell_types[key] = type_
                    changed.add(key)
                else:
                    entry[key] = Unavailable(
                        f"'{key[1]}' is assigned in the loop below with {type_name(now)}, which a run-time loop can't carry",
                        "views, buffers and barriers are compile-time values: use another name inside the loop",
                    )
                    changed.add((loop.frame, "\0retry"))
        return changed

    def do_Break(self, node: ast.Break) -> None:
        self.leave_loop("break", node)

    def do_Continue(self, node: ast.Continue) -> None:
        self.leave_loop("continue", node)

    def leave_loop(self, kind: str, node: ast.stmt) -> None:
        if not self.loops:
            self.ctx.fail(f"{kind} leaves the role", "a role runs to its end: put the loop inside the role")
        loop = self.loops[-1]
        if loop is None:
            if self.control_depth != self.unrolled_at[-1]:
                self.ctx.fail(
                    f"{kind} of an unrolled loop under a run-time condition",
                    "use range(...) for a run-time loop, or make the condition a constant",
                )
            self.static_exit = kind
            self.terminated = True
            return
        (loop.breaks if kind == "break" else loop.continues).record(self.ctx, self.state)
        self.ctx.emit((Break if kind == "break" else Continue)(loop.label, loc=self.ctx.loc))
        self.terminated = True

    def do_Return(self, node: ast.Return) -> None:
        frame = self.frame
        value = self.eval(node.value) if node.value is not None else None
        if len(self.frames) == 1 and value is not None:
            self.ctx.fail("a kernel returns nothing", "write results to an array with px.store")
        self.ctx.loc = self.locate(node)
        if self.control_depth == frame.control_depth:
            frame.result, frame.done = value, True
        else:
            if len(self.frames) > 1 and self.role_depth > frame.role_depth:
                self.ctx.fail("return from inside a role", "end the role first: let its region run to its end")
            frame.returns.append((Path(self.ctx.ops, len(self.ctx.ops), dict(self.state)), value))
            self.ctx.emit(Leave(frame.label, loc=self.ctx.loc))
        self.terminated = True

    # Regions.

    def do_With(self, node: ast.With) -> None:
        if len(node.items) != 1:
            self.ctx.fail("one region per with statement", "nest the with statements")
        item = node.items[0]
        region = self.eval(item.context_expr)
        self.ctx.loc = self.locate(item.context_expr)
        if item.optional_vars is not None:
            self.ctx.fail("'as' is not supported here", "a region has no value")
        if isinstance(region, WarpsValue):
            self.role(node, region)
        elif isinstance(region, TransactionValue):
            loc = self.ctx.loc
            with self.ctx.block() as ops:
                self.statements(node.body)
            if self.terminated:
                self.ctx.fail("a transaction can't be left early", "end the with block before break, continue or return", loc=loc)
            self.ctx.emit(Transaction(region.barrier.ref(self.ctx), freeze(ops), loc=loc))
        else:
            self.ctx.fail(f"{type_name(region)} is not a region", "with takes px.warps(...) or barrier.transaction()")

    def role(self, node: ast.With, region: WarpsValue) -> None:
        if self.ctx.agent.is_role:
            self.ctx.fail("a role inside a role", "roles do not nest: end the outer region first")
        loc = self.ctx.loc
        outer_state, outer_agent, outer_loops = self.state, self.ctx.agent, self.loops
        self.state = {k: role_view(k, v) for k, v in outer_state.items()}
        self.ctx.agent = Agent(region.first, region.count, True)
        self.loops = []
        self.role_depth += 1
        with self.ctx.block() as ops, self.runtime_control():
            self.statements(node.body)
            self.terminated = False
        self.role_depth -= 1
        assigned = [k for k in self.state if k not in outer_state]
        self.state, self.ctx.agent, self.loops = outer_state, outer_agent, outer_loops
        for key in assigned:
            self.state[key] = Unavailable(
                f"'{key[1]}' was assigned inside a role", "what a role computes stays inside: pass it through shared memory"
            )
        last = region.first + region.count - 1
        name = f"warp {region.first}" if region.count == 1 else f"warps {region.first}-{last}"
        self.ctx.emit(Role(name, region.first, region.count, region.regs, freeze(ops), loc=loc))


def role_view(key: Key, value: Any) -> Any:
    """What a role sees of a value from outside: register tiles do not cross its boundary."""
    if isinstance(value, Value) and isinstance(value.type, TileType):
        return Unavailable(
            f"'{key[1]}' is a register tile of the code outside this role",
            "register tiles do not cross a role's boundary: pass it through shared memory",
        )
    return value


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target


def _keyword(statement: ast.stmt) -> str:
    names = {
        "FunctionDef": "def", "AsyncFunctionDef": "async def", "ClassDef": "class", "Delete": "del", "Raise": "raise",
        "Try": "try", "Import": "import", "ImportFrom": "from ... import", "Global": "global", "Nonlocal": "nonlocal",
        "Match": "match", "AsyncFor": "async for", "AsyncWith": "async with",
    }
    return names.get(type(statement).__name__, type(statement).__name__)


__all__ = ["RangeValue", "Reader"]
