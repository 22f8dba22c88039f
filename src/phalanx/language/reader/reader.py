"""Reads a kernel's statements into IR: control flow, roles, inlined calls. Expressions are in `expressions.py`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from phalanx.ir.core import Op
from phalanx.ir.ops.control import Break, Continue, If, Leave, Role, RoleCopy, Scope, span_text
from phalanx.ir.ops.mbarrier import Transaction
from phalanx.ir.types import I32, ArrayType, TileType
from phalanx.ir.values import Label, Value
from phalanx.ir.views import BarrierRef
from phalanx.language.builder import Builder, ReadAgent, freeze
from phalanx.language.limits import MAX_DEPTH
from phalanx.language.objects import (
    Arguments,
    KernelObject,
    Keywords,
    Unavailable,
    as_object,
    check_arguments,
    describe,
    load_scalar,
    require_condition,
)
from phalanx.language.operators import cast, dtype_of, is_tile, promote, shape_of
from phalanx.language.reader.capture import CAPTURES, constant, kind_of
from phalanx.language.reader.expressions import Combination, Evaluation
from phalanx.language.reader.frames import Frame
from phalanx.language.reader.loops import Loops, Unrolled
from phalanx.language.reader.source import FunctionSource, read_source
from phalanx.language.reader.state import Key, State, WayIn, defined_in, merge
from phalanx.language.structs import Fields, StructValue
from phalanx.location import Location

MAX_INLINE_DEPTH = 64
_WITHOUT_EFFECT = (ast.Attribute, ast.Name, ast.Subscript, ast.Compare, ast.BinOp, ast.UnaryOp)
"""Expressions that do nothing where they stand alone."""


class Reader(Loops):
    """Walks the syntax tree of a kernel and of the functions it calls."""

    def __init__(self, ctx: Builder) -> None:
        super().__init__(ctx)
        ctx.variables = lambda: self.state
        ctx.inline = self.call_function

    @property
    def frame(self) -> Frame:
        """The function being read."""
        return self.frames[-1]

    # Functions.

    def call_function(self, fn: Callable[..., Any], args: Arguments, kwargs: Keywords) -> object:
        """Inlines a `@px.func` or a struct's method."""
        source = read_source(fn)
        for frame in self.frames:
            if frame.source.fn is fn:
                self.ctx.fail(
                    f"'{source.name}' calls itself",
                    "functions are inlined, so recursion never ends: write a loop",
                )
        if len(self.frames) > MAX_INLINE_DEPTH:
            self.ctx.fail(
                f"calls are nested more than {MAX_INLINE_DEPTH} deep",
                "functions are inlined: call fewer helpers from helpers",
            )
        signature = source.signature
        bound = check_arguments(self.ctx, f"{source.name}", signature, args, kwargs)
        arguments = dict(bound.arguments)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                self.ctx.fail(f"'{source.name}' has ** parameters", "name each parameter of a @px.func")
            if name not in arguments:
                arguments[name] = self.default(source, name, parameter)
        return self.run_function(source, arguments, self.ctx.loc)

    def default(self, source: FunctionSource, name: str, parameter: inspect.Parameter) -> object:
        """The value of a parameter that a call leaves out."""
        if parameter.kind is parameter.VAR_POSITIONAL:
            return ()
        value = constant(parameter.default)
        if value is None and parameter.default is not None:
            shown = kind_of(parameter.default)
            self.ctx.fail(f"the default of '{name}' in '{source.name}' is {shown}", f"defaults are {CAPTURES}")
        return value

    def run_function(self, source: FunctionSource, arguments: Mapping[str, object], caller: Location | None) -> object:
        """Reads a function's body in place: a variable of it is known under a number of this call's own."""
        ident = self.ctx.fresh_ident()
        frame = Frame(source, ident, caller, Label(source.name), self.control_depth, self.role_depth, self.transactions)
        base = dict(self.state)
        for name, value in arguments.items():
            self.state[(ident, name)] = value
        self.frames.append(frame)
        before, depths = self.ctx.loc, (self.depth, self.block_depth)
        self.depth = self.block_depth = 0
        with self.ctx.block() as ops:
            self.statements(source.node.body)
            end = WayIn.at_end(ops, dict(self.state))
            fell_through = not self.terminated
        self.frames.pop()
        self.ctx.loc = before
        self.depth, self.block_depth = depths
        self.terminated = False
        result = frame.result
        if not frame.returns:
            self.ctx.ops.extend(ops)
            self.terminated = not fell_through and not frame.done  # an endless loop
        elif not self.frames:
            self.ctx.emit(Scope(frame.label, freeze(ops), loc=before))
        else:
            exits = [*frame.returns] + ([(end, frame.result)] if fell_through or frame.done else [])
            result = self.meet_returns(frame, ops, exits, base)
        self.state = {key: value for key, value in self.state.items() if key[0] != ident}
        return result

    def meet_returns(self, frame: Frame, ops: list[Op], exits: list[tuple[WayIn, object]], base: State) -> object:
        """The result of a function with early returns: the paths out of it meet after its scope."""
        name = frame.source.name
        if len({result is None for _, result in exits}) > 1:
            self.ctx.fail(f"'{name}' returns a value on some paths only", "return a value on every path, or on none")
        self.ctx.emit(Scope(frame.label, freeze(ops), loc=self.ctx.loc))
        result_key: Key = (frame.ident, f"the result of {name}")
        for path, result in exits:
            path.state[result_key] = result
        self.state = merge(self.ctx, [path for path, _ in exits], f"'{name}'", base, defined_in(ops))
        result = self.state.pop(result_key)
        if isinstance(result, Unavailable):
            self.ctx.fail(result.reason, result.remedy)
        if isinstance(result, Value) and any(isinstance(r, Value) and r in self.ctx.products for _, r in exits):
            self.ctx.products.add(result)
        return result

    # Statements.

    def statements(self, body: list[ast.stmt]) -> None:
        """Reads statements one after the other, up to one that leaves the block."""
        self.depth += 1
        self.block_depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse_depth()
        for statement in body:
            if self.terminated:
                break
            self.ctx.work()
            handler = getattr(self, "do_" + type(statement).__name__, None)
            self.ctx.loc = self.locate(statement)
            if handler is None:
                kind = type(statement).__name__
                keyword, remedy = _REFUSED.get(kind, (kind, _STATEMENTS))
                self.ctx.fail(f"'{keyword}' is not supported in kernels", remedy)
            handler(statement)
        self.depth -= 1
        self.block_depth -= 1

    def locate(self, node: ast.AST) -> Location:
        """Where a part of the syntax tree stands in the user's file, with the calls that led there."""
        return self.frame.source.locate(node, self.frame.caller)

    def do_Pass(self, node: ast.Pass) -> None:
        """`pass` does nothing."""
        pass

    def do_Expr(self, node: ast.Expr) -> None:
        """An expression by itself; a docstring is none."""
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self.unused.add(node.value)
        value = self.eval(node.value)
        if isinstance(node.value, _WITHOUT_EFFECT):
            self.refuse_without_effect(node.value, value)
        if isinstance(value, KernelObject) and type(value).open is not KernelObject.open:
            text = ast.unparse(node.value)
            self.ctx.fail(f"'{text}' does nothing by itself", f"write a block for it: with {text}: ...")

    def refuse_without_effect(self, node: ast.expr, value: object) -> NoReturn:
        """The error for an expression by itself that does nothing: most often a call without its parentheses."""
        text = ast.unparse(node)
        as_call = as_object(value).as_call
        if as_call is not None:
            self.ctx.fail(f"'{text}' names a function and does not call it", f"its signature is {as_call}")
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            self.ctx.fail(f"'{text}' compares, and nobody uses the answer", "= assigns, == compares")
        self.ctx.fail(f"'{text}' has no effect: nobody uses its value", "give it a name, or leave it out")

    def do_Assert(self, node: ast.Assert) -> None:
        """`assert`: checked while the kernel is read."""
        value = self.value(node.test)
        if isinstance(value, Value):
            self.ctx.fail("assert needs a compile-time condition", "px.device_assert checks at run time")
        if not require_condition(self.ctx, value, "assert"):
            shown = f": {self.eval(node.msg)}" if node.msg is not None else f": {ast.unparse(node.test)}"
            self.ctx.fail(
                f"assertion failed{shown}", "the condition is known while the kernel is read: check the constants"
            )

    def do_Assign(self, node: ast.Assign) -> None:
        """`a = b = value`."""
        value = self.assigned(node.targets[0] if len(node.targets) == 1 else None, node.value)
        for target in node.targets:
            self.bind(target, value)

    def assigned(self, target: ast.expr | None, node: ast.expr) -> object:
        """The right side of an assignment; buffers and barriers made there are named after the target."""
        if (
            isinstance(target, (ast.Tuple, ast.List))
            and isinstance(node, ast.Tuple)
            and len(target.elts) == len(node.elts)
        ):
            if not any(isinstance(part, ast.Starred) for part in (*target.elts, *node.elts)):
                return tuple(
                    load_scalar(self.ctx, self.assigned(part, item))
                    for part, item in zip(target.elts, node.elts, strict=True)
                )
        self.ctx.name_hint = target.id if isinstance(target, ast.Name) else ""
        value = self.eval(node)
        self.ctx.name_hint = ""
        return value

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`a: type = value`; the annotation says nothing to the compiler."""
        if node.value is not None:
            self.bind(node.target, self.assigned(node.target, node.value))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        """`a += value`."""
        if isinstance(node.target, ast.Subscript):
            self.refuse_item(node.target)
        load = ast.copy_location(_as_load(node.target), node.target)
        left = self.value(load)
        right = self.value(node.value)
        self.ctx.loc = self.locate(node)
        self.bind(node.target, self.binary_operator(node.op, left, right))

    def bind(self, target: ast.expr, value: object) -> None:
        """Assigns to a name, a field or a tuple of them. An element of memory is read here: a name holds its value."""
        value = load_scalar(self.ctx, value)
        if isinstance(target, ast.Name):
            if isinstance(value, Value) and not value.name:
                value.name = target.id
            self.set_variable((self.frame.ident, target.id), value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value)
        elif isinstance(target, ast.Attribute):
            owner = self.eval(target.value)
            self.ctx.loc = self.locate(target)
            self.set_variable(as_object(owner).member_key(self.ctx, target.attr), value)
        elif isinstance(target, ast.Subscript):
            self.refuse_item(target)
        else:
            self.ctx.fail(
                "can't assign to this", "assign to names, fields of structs, or tuples of them", loc=self.locate(target)
            )

    def set_variable(self, key: Key, value: object) -> None:
        """Gives a variable or field a new value, and notes where."""
        self.state[key] = value
        self.assigned_at[key] = self.ctx.loc
        if isinstance(value, Value) and value in self.ctx.products:  # also one that a function gave back
            self.ctx.accumulators[key] = None

    def unpack(self, target: ast.Tuple | ast.List, value: object) -> None:
        """`a, *b = value`."""
        loc = self.locate(target)
        parts = list(target.elts)
        given = as_object(value).unpacked()
        if given is None:
            self.ctx.fail(
                f"can't unpack {describe(value)} into {len(parts)} names", "only tuples can be unpacked", loc=loc
            )
        starred = [n for n, part in enumerate(parts) if isinstance(part, ast.Starred)]
        items: list[object] = list(given)
        if starred and len(items) >= len(parts) - 1:
            first, extra = starred[0], len(items) - len(parts) + 1
            items[first : first + extra] = [tuple(items[first : first + extra])]
            parts[first] = parts[first].value  # type: ignore[attr-defined]
        if len(items) != len(parts):
            self.ctx.fail(
                f"can't unpack {describe(value)} into {len(parts)} names",
                "both sides need as many items",
                loc=loc,
            )
        for part, item in zip(parts, items, strict=True):
            self.bind(part, item)

    def refuse_item(self, target: ast.Subscript) -> None:
        """Refuses an assignment to elements: of memory, or of a tile, which is a value."""
        owner, loc = self.eval(target.value), self.locate(target)
        if is_tile(owner):
            self.ctx.fail(
                "a register tile is a value: its elements are not assigned to",
                "make a tile of both by px.where, e.g. x = px.where(px.arange(8)[None, :] == 0, column, x)", loc=loc,
            )
        self.ctx.fail("memory is not written by assignment", "use px.store(view, value)", loc=loc)

    def bind_variable(self, target: ast.expr, value: object) -> Key:
        """Assigns to a name or field; returns its key."""
        self.bind(target, value)
        if isinstance(target, ast.Name):
            return (self.frame.ident, target.id)
        assert isinstance(target, ast.Attribute)
        return as_object(self.eval(target.value)).member_key(self.ctx, target.attr)

    # Branches.

    def do_If(self, node: ast.If) -> None:
        """`if`: one side where the condition is a constant, else a branch whose paths meet after it."""
        cond = self.condition(node.test, "'if'")
        loc = self.locate(node.test)
        if isinstance(cond, bool):
            self.statements(node.body if cond else node.orelse)
            return
        before = dict(self.state)
        arms: list[list[Op]] = []
        paths: list[WayIn] = []
        for body in (node.body, node.orelse):
            self.state = dict(before)
            with self.ctx.block() as ops, self.runtime_control():
                self.statements(body)
                if not self.terminated:
                    paths.append(WayIn.at_end(ops, self.state))
                self.terminated = False
            arms.append(ops)
        self.ctx.loc = loc
        self.terminated = not paths
        position = len(self.ctx.ops)
        if paths:
            self.state = merge(self.ctx, paths, "this if", before, defined_in(*arms))
        self.ctx.ops.insert(position, If(cond, freeze(arms[0]), freeze(arms[1]), loc=loc))

    def choose(self, cond: Value, then: Evaluation, orelse: Evaluation, combine: Combination, what: str) -> object:
        """One of two expressions. Both are evaluated if they only compute, else the chosen one under a branch."""
        before = self.state
        arms: list[list[Op]] = []
        states: list[State] = []
        results: list[object] = []
        for evaluate in (then, orelse):
            self.state = dict(before)
            with self.ctx.block() as ops, self.runtime_control():
                results.append(evaluate())
            arms.append(ops)
            states.append(self.state)
        unchanged = all(state.get(key) is value for state in states for key, value in before.items())
        if unchanged and all(_only_computes(op) for ops in arms for op in ops):
            self.state = before
            for ops in arms:
                self.ctx.ops.extend(ops)
            return combine(*results)
        key: Key = (None, f"the value of {what}")
        results = self.in_one_type(arms, results)
        paths = [WayIn.at_end(ops, {**s, key: result}) for ops, s, result in zip(arms, states, results, strict=True)]
        position = len(self.ctx.ops)
        self.state = merge(self.ctx, paths, what, before, defined_in(*arms))
        self.ctx.ops.insert(position, If(cond, freeze(arms[0]), freeze(arms[1]), loc=self.ctx.loc))
        value = self.state.pop(key)
        if isinstance(value, Unavailable):
            self.ctx.fail(value.reason, value.remedy)
        return value

    def in_one_type(self, arms: list[list[Op]], results: list[object]) -> list[object]:
        """Both results of a choice in the element type that arithmetic on them would have."""
        values = [r for r in results if isinstance(r, Value) and not isinstance(r.type, ArrayType)]
        if len(values) < len(results):
            return results
        dtype = promote(dtype_of(values[0]), dtype_of(values[1]))
        if dtype is None or shape_of(values[0]) != shape_of(values[1]):
            return results
        out: list[object] = []
        for ops, result in zip(arms, values, strict=True):
            with self.ctx.block() as casts:
                out.append(cast(self.ctx, result, dtype))
            ops.extend(casts)
        return out

    def leave_loop(self, kind: str) -> None:
        """`break` or `continue`, out of the innermost loop."""
        if not self.loops:
            self.ctx.fail(f"{kind} leaves the role", "a role runs to its end: put the loop inside the role")
        loop = self.loops[-1]
        if loop.transactions != self.transactions:
            self.ctx.fail(f"{kind} leaves a transaction", "end the with block of the transaction first")
        self.terminated = True
        if isinstance(loop, Unrolled) and self.control_depth == loop.control_depth:
            if kind == "continue" or not loop.continues.paths:
                loop.left = kind
                return
        (loop.breaks if kind == "break" else loop.continues).record(self.ctx, self.state)
        if isinstance(loop, Unrolled):
            self.ctx.emit(Leave(loop.label if kind == "break" else loop.iteration, loc=self.ctx.loc))
        else:
            self.ctx.emit((Break if kind == "break" else Continue)(loop.label, loc=self.ctx.loc))

    def do_Break(self, node: ast.Break) -> None:
        """`break` leaves the innermost loop."""
        self.leave_loop("break")

    def do_Continue(self, node: ast.Continue) -> None:
        """`continue` goes on with the next iteration."""
        self.leave_loop("continue")

    def do_Return(self, node: ast.Return) -> None:
        """`return`: at the end of a function its result, earlier a path out of it."""
        frame = self.frame
        value = self.eval(node.value) if node.value is not None else None
        if len(self.frames) == 1 and value is not None:
            self.ctx.fail("a kernel returns nothing", "write results to an array with px.store")
        self.ctx.loc = self.locate(node)
        value = load_scalar(self.ctx, value)
        if self.transactions != frame.transactions:
            self.ctx.fail("return leaves a transaction", "end the with block of the transaction first")
        if self.control_depth == frame.control_depth and not self.has_open_exits(frame.control_depth):
            frame.result, frame.done = value, True
        else:
            if len(self.frames) > 1 and self.role_depth > frame.role_depth:
                self.ctx.fail("return from inside a role", "end the role first: let its region run to its end")
            frame.returns.append((WayIn.at_end(self.ctx.ops, dict(self.state)), value))
            self.ctx.emit(Leave(frame.label, loc=self.ctx.loc))
        self.terminated = True

    def has_open_exits(self, depth: int) -> bool:
        """Whether some run-time path has already left an unrolled loop around this place for the code after it."""
        return any(
            isinstance(loop, Unrolled) and loop.control_depth == depth and (loop.breaks.paths or loop.continues.paths)
            for loop in self.loops
        )

    # Regions.

    def do_With(self, node: ast.With) -> None:
        """`with`: the region that the value opens."""
        if len(node.items) != 1:
            self.ctx.fail("a with statement opens one region", "write a with statement for each, one after the other")
        item = node.items[0]
        region = as_object(self.eval(item.context_expr))
        self.ctx.loc = self.locate(item.context_expr)
        if item.optional_vars is not None and not region.gives_value:
            self.ctx.fail("'as' is not supported here", "a region has no value")
        target = item.optional_vars
        bind = (lambda value: self.bind(target, value)) if target is not None else None
        region.open(self, lambda: self.statements(node.body), bind)

    def transaction(self, barrier: BarrierRef, body: Callable[[], None]) -> None:
        """Reads a region whose copies' bytes `barrier` expects, with one arrival."""
        loc, before = self.ctx.loc, dict(self.state)
        self.transactions += 1
        with self.ctx.block() as ops:
            body()
            path = WayIn.at_end(ops, self.state)
        self.transactions -= 1
        self.ctx.loc = loc
        self.ctx.emit(Transaction(barrier, freeze(ops), loc=loc))
        if not self.terminated:
            self.state = merge(self.ctx, [path], "this transaction", before, defined_in(ops))

    def closed(self, body: Callable[[], None]) -> None:
        """Reads a region that no `break`, `continue` or `return` leaves."""
        self.transactions += 1
        body()
        self.transactions -= 1

    def role(
        self, first: int, count: int, copies: int, regs: int | None, body: Callable[[], None],
        bind: Callable[[object], None] | None,
    ) -> None:
        """Reads a region that `copies` times `count` warps run, from `first` on; `bind` names the number of the copy."""
        if self.ctx.agent.is_role:
            self.ctx.fail("a role inside a role", "roles do not nest: end the outer region first")
        if self.transactions:
            self.ctx.fail("a role inside a transaction", "put the transaction into the role that issues the copies")
        loc = self.ctx.loc
        outer_state, outer_agent, outer_loops = self.state, self.ctx.agent, self.loops
        self.state = {k: role_view(k, v) for k, v in outer_state.items()}
        self.ctx.agent = ReadAgent(first, count, True, copies)
        self.loops = []
        self.role_depth += 1
        with self.ctx.block() as ops, self.runtime_control():
            if bind is not None:
                bind(self.copy_of(copies) if copies > 1 else 0)
            body()
            if not self.terminated:
                self.ctx.loc = loc
                self.check_structs(outer_state, "this role")
            self.terminated = False
        self.role_depth -= 1
        assigned = [k for k in self.state if k not in outer_state]
        self.state, self.ctx.agent, self.loops = outer_state, outer_agent, outer_loops
        for key in assigned:
            self.state[key] = Unavailable(
                f"'{key[1]}' was assigned inside a role",
                "what a role computes stays inside: pass it through shared memory",
            )
        name = span_text(first, count * copies)
        self.ctx.emit(Role(name, first, count, regs, freeze(ops), copies=copies, loc=loc))

    def copy_of(self, copies: int) -> Value:
        """The number of the copy of the role that is being read."""
        copy = Value(I32)
        self.ctx.emit(RoleCopy(copies, copy, loc=self.ctx.loc))
        return copy

    def check_structs(self, before: State, where: str) -> None:
        """Lets the built-in structs from around a role look at what the role did with them."""
        for owner in {v.ident: v for v in before.values() if isinstance(v, StructValue)}.values():
            if owner.cls.at_role_end is not None:
                owner.cls.at_role_end(self.ctx, Fields(owner, before), Fields(owner, self.state), where)


def role_view(key: Key, value: object) -> object:
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


_STATEMENTS = "kernels use assignments, if, for, while, with, return, break, continue, assert and calls"
_CONSTANTS = "what a kernel takes from outside is constant: pass it as a parameter, and write results with px.store"
_OUTSIDE = "write it above the kernel, at the top of the file"
_REFUSED = {
    "FunctionDef": ("def", "write the function above the kernel, decorated with @px.func"),
    "AsyncFunctionDef": ("async def", "write a function with def above the kernel, decorated with @px.func"),
    "ClassDef": ("class", "write the class above the kernel, decorated with @px.struct"),
    "Delete": ("del", "leave it out: a name ends with the block that it is assigned in"),
    "Raise": ("raise", "assert checks constants while the kernel is read, px.device_assert what is known at run time"),
    "Try": ("try", "nothing is raised in a kernel: check with if, or with px.device_assert"),
    "TryStar": ("try", "nothing is raised in a kernel: check with if, or with px.device_assert"),
    "Import": ("import", _OUTSIDE), "ImportFrom": ("from ... import", _OUTSIDE),
    "Global": ("global", _CONSTANTS), "Nonlocal": ("nonlocal", _CONSTANTS),
    "Match": ("match", "write if and elif"),
    "AsyncFor": ("async for", _STATEMENTS), "AsyncWith": ("async with", _STATEMENTS),
}  # fmt: skip
"""Statements of Python that kernels do not have, and what to write instead."""


def _only_computes(op: Op) -> bool:
    """Whether an instruction may run although nobody asked for its result."""
    if op.defines is None or op.can_fail:
        return False
    return op.effects().is_pure and not any(True for _ in op.blocks())
