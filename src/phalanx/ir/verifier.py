"""Checks of a whole function: what users can get wrong and only the IR shows, and what the compiler must not get wrong.

Everything about memory, barriers, masks and bytes is checked from the declared effects, so a new instruction is
covered by them; what the types of its results and operands must be its family registers (`ir/type_rules.py`).
"""

from __future__ import annotations

from phalanx.errors import Error, internal
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op, values_in
from phalanx.ir.effects import Arrival, BarrierWait, Complete, Effects, Expect
from phalanx.ir.ops.control import Assign, Break, Continue, For, Leave, ReadVar, Role, RoleCopy, Roles, Scope, While
from phalanx.ir.ops.mbarrier import MAX_COUNT, BarrierInit
from phalanx.ir.spaces import Space
from phalanx.ir.type_rules import type_rules
from phalanx.ir.types import ScalarType, TileType, bool_
from phalanx.ir.values import Const, Label, Value, Var, constant_of
from phalanx.ir.views import BarrierArray, View
from phalanx.location import Location


def verify(function: Function) -> None:
    """Raises `px.Error` at the instruction that breaks a rule; nothing happens to a good function.

    The pass pipeline calls it; tests and passes may, between any two passes. Example: ``verify(prepare(function))``.
    """
    for barrier in function.barriers:
        if barrier.count is not None:
            _check_count(barrier.count, barrier.loc)
    _check_buffers(function)
    assigned = {op.var for op in function.walk() if isinstance(op, Assign)}
    _Verifier(function, assigned).block(function.body, set(function.params), _Enclosing())


def _check_buffers(function: Function) -> None:
    """Buffers share memory within one space, and a CTA has as much of each space as they need together."""
    used: dict[Space, int] = {}
    for buffer in function.buffers:
        if buffer.reuse is None:
            used[buffer.space] = used.get(buffer.space, 0) + buffer.nbytes
        elif buffer.reuse.space is not buffer.space:
            internal(f"{buffer.space.name} buffer '{buffer.name}' reuses {buffer.reuse.space.name} memory", buffer.loc)
        capacity = buffer.space.capacity
        if capacity is not None and used.get(buffer.space, 0) > capacity:
            raise Error(
                f"{function.name} needs {used[buffer.space]:,} bytes of {buffer.space.name} memory with "
                f"'{buffer.name}'; a CTA has {capacity:,}",
                location=buffer.loc,
                remedy="use fewer or smaller buffers, or let one reuse= the memory of another",
            )


@frozen
class _Enclosing:
    """The loops and scopes that an instruction may leave, and the copies of the role that it is in."""

    loops: frozenset[Label] = frozenset()
    scopes: frozenset[Label] = frozenset()
    copies: int = 1


class _Verifier:
    def __init__(self, function: Function, assigned: set[Var]) -> None:
        self.function = function
        self.assigned = assigned

    # -- structure ---------------------------------------------------------------------------------------

    def block(self, block: Block, defined: set[Value], around: _Enclosing, then: Block | None = None) -> None:
        """Checks the instructions in order; what they define is in `defined` until the block (or `then`) ends."""
        added = []
        for op in block:
            self._instruction(op, defined, around)
            scoped = isinstance(op, For)  # an index lives in its loop alone
            for value in op.defined_values():
                if not scoped and value not in defined:
                    defined.add(value)
                    added.append(value)
        if then is not None:
            self.block(then, defined, around)
        defined.difference_update(added)

    def _instruction(self, op: Op, defined: set[Value], around: _Enclosing) -> None:
        if not isinstance(op, While):  # its condition is computed inside
            self._operands(op, defined)
        match op:
            case Break() | Continue():
                if op.label not in around.loops:
                    internal(f"{op.mnemonic} has no loop around it", op.loc)
            case Leave():
                if op.label not in around.scopes:
                    internal("leave has no scope around it", op.loc)
            case RoleCopy():
                if op.copies != around.copies:
                    internal(f"the copy is one of {op.copies}, its role has {around.copies}", op.loc)
            case ReadVar() | Assign():
                value = op.result if isinstance(op, ReadVar) else op.value
                if op.var not in self.assigned:
                    internal(f"cell '{op.var.name}' is read but never assigned", op.loc)
                if value.type != op.var.type:
                    internal(f"cell '{op.var.name}' is {op.var.type}, its value {value.type}", op.loc)
            case _:
                self._effects(op)
                self._types(op)
        self._nested(op, defined, around)

    def _nested(self, op: Op, defined: set[Value], around: _Enclosing) -> None:
        match op:
            case For():
                defined.add(op.index)
                self.block(op.body, defined, _Enclosing(around.loops | {op.label}, around.scopes, around.copies))
                defined.discard(op.index)
            case While():
                known = isinstance(op.cond, Const) or op.cond in defined
                if not known and all(op.cond is not inner.defines for inner in op.test):
                    internal(f"value {op.cond!r} is used before it is defined (in while)", op.loc)
                inside = _Enclosing(around.loops | {op.label}, around.scopes, around.copies)
                self.block(op.test, defined, inside, then=op.body)
            case Scope():
                self.block(op.body, defined, _Enclosing(around.loops, around.scopes | {op.label}, around.copies))
            case Role():
                self._role(op, defined, around)
            case Roles():
                for role in op.regions:
                    self._role(role, defined, around)
            case _:
                for block in op.blocks():
                    self.block(block, defined, around)

    def _role(self, role: Role, defined: set[Value], around: _Enclosing) -> None:
        """A role sees the scalars from before it; register tiles belong to the threads that made them."""
        tiles = {value for value in defined if isinstance(value.type, TileType)}
        for op in role.body.walk():
            for value in op.operands():
                if value in tiles:
                    raise Error(
                        f"tile {_named(value)} is used inside a role ({role.name}), but was made outside it",
                        location=op.loc,
                        remedy="register tiles do not cross a role's boundary: make it inside the role, "
                        "or pass it through shared memory",
                    )
        self.block(role.body, defined, _Enclosing(around.loops, around.scopes, role.copies))

    def _operands(self, op: Op, defined: set[Value]) -> None:
        for value in op.operands():
            if not isinstance(value, Const) and value not in defined:
                internal(f"value {value!r} is used before it is defined (in {op.mnemonic})", op.loc)

    def _types(self, op: Op) -> None:
        rule = type_rules.of(op)
        if rule is not None:
            rule(op)

    # -- effects -----------------------------------------------------------------------------------------

    def _effects(self, op: Op) -> None:
        effects = op.effects()
        if effects.is_pure:
            return
        _check_named(effects, op)
        for access in effects.accesses:
            self._view(access.region, op)
            self._mask(access.mask, "multicast mask", op)
        self._barriers(effects, op)
        for arrival in effects.arrivals:
            _check_scalar_integer(arrival.count, "an arrival count", op)
            _check_count(constant_of(arrival.count), op.loc)
            self._mask(arrival.mask, "mask", op)
        for expect in effects.expects:
            _check_scalar_integer(expect.nbytes, "a number of bytes", op)
            _check_bytes(constant_of(expect.nbytes), op.loc)
            self._mask(expect.mask, "mask", op)
        for complete in effects.completes:
            if isinstance(complete.nbytes, Value):
                _check_scalar_integer(complete.nbytes, "a number of bytes", op)
            elif complete.nbytes > MAX_COUNT:
                raise Error(
                    f"the copy brings {complete.nbytes} bytes; a barrier can track {MAX_COUNT} at a time",
                    location=op.loc,
                    remedy="copy in several phases",
                )
            self._mask(complete.mask, "multicast mask", op)
        for wait in effects.waits:
            _check_scalar_integer(wait.parity, "a parity", op, or_bool=True)
        if isinstance(op, BarrierInit):
            _check_init(op, self.function)

    def _barriers(self, effects: Effects, op: Op) -> None:
        signals: tuple[Arrival | Expect | Complete | BarrierWait, ...]
        signals = (*effects.arrivals, *effects.expects, *effects.completes, *effects.waits)
        for signal in signals:
            self._index(signal.barrier.barrier, signal.barrier.index, op)
        for life in effects.lifecycle:
            if life.index is not None:
                self._index(life.barrier, life.index, op)

    def _index(self, barrier: BarrierArray, index: Value, op: Op) -> None:
        if barrier not in self.function.barriers:
            internal(f"barrier '{barrier.name}' is not declared", op.loc)
        _check_scalar_integer(index, "the index of a barrier", op)
        number = constant_of(index)
        if number is not None and not 0 <= number < barrier.n:
            raise Error(
                f"index {number} is outside barrier array '{barrier.title}' ({_plural(barrier.n, 'barrier')})",
                location=op.loc,
                kind="out-of-bounds",
                remedy=f"use 0 to {barrier.n - 1}, or declare more: px.barrier({int(number) + 1})"
                if number > 0
                else "indices begin at 0",
            )

    def _mask(self, mask: Value | None, what: str, op: Op) -> None:
        if mask is None:
            return
        _check_scalar_integer(mask, f"a {what}", op)
        bits = constant_of(mask)
        if bits is None:
            return
        size = self.function.cluster_size
        if bits <= 0:
            raise Error(
                f"{what} {bits} names no CTA", location=op.loc, remedy="set a bit for each CTA rank that is meant"
            )
        if int(bits) >> size:
            highest = int(bits).bit_length() - 1
            raise Error(
                f"{what} {int(bits):#b} names CTA {highest}, the cluster has {_plural(size, 'CTA')}",
                location=op.loc,
                kind="out-of-bounds",
                remedy=f"bit r stands for the CTA of rank r: use at most {(1 << size) - 1:#b}, "
                "or give the kernel a larger cluster=",
            )

    def _view(self, view: View, op: Op) -> None:
        rank = len(view.sizes)
        if len(view.offsets) != rank or len(view.extents) != rank or not set(view.kept) <= set(range(rank)):
            internal("a view does not fit the rank of its memory", op.loc)
        dropped = set(range(rank)) - set(view.kept)
        if len(set(view.kept)) != len(view.kept) or any(view.extents[axis] != 1 for axis in dropped):
            internal("a view keeps an axis twice, or drops one with more than one element", op.loc)
        if any(extent < 1 for extent in view.extents):
            raise Error("a view without elements", location=op.loc, remedy="every extent must be 1 or more")
        for axis, offset in enumerate(view.offsets):
            if axis != view.index_axis and not _is_integer(offset):
                internal(f"offset {offset!r} of a view is not an integer", op.loc)
        if view.space.is_each_ctas and view.memory not in self.function.buffers:
            internal(f"{view.space.name} buffer '{view.memory.name}' is not declared", op.loc)
        if not view.space.masked:
            self._inside(view, op)
        if view.peer is not None:
            self._peer(view.peer, op)
        if len(view.limits) not in (0, 2) or not all(map(_is_integer, view.limits)):
            internal("what a view has of its last axis is not between two integers", op.loc)
        if not all(map(_is_integer, view.moved)):
            internal("a view begins at no integer", op.loc)

    def _inside(self, view: View, op: Op) -> None:
        """A box of memory without edge masks lies in it, as far as constants say."""
        space = view.space.name
        for axis, (offset, extent, size) in enumerate(zip(view.offsets, view.extents, view.sizes, strict=True)):
            start = constant_of(offset)
            if axis == view.index_axis or size is None:
                continue  # any number of rows, each of them anywhere
            if extent <= size and (start is None or 0 <= start <= size - extent):
                continue
            where = f"axis {axis} of {space} buffer '{view.memory.name}' (size {size})"
            if axis not in view.kept:
                message = f"index {start} is outside {where}"
            elif start is None:
                message = f"a slice of {extent} elements is longer than {where}"
            elif start < 0:
                message = f"slice {start}:{start + extent} begins before the start of {where}"
            else:
                message = f"slice {start}:{start + extent} is past the end of {where}"
            raise Error(
                message, location=op.loc, kind="out-of-bounds",
                remedy=f"{space} memory has no edge masks: stay inside the buffer",
            )

    def _peer(self, rank: Value, op: Op) -> None:
        """The CTA that a view names is one of the cluster's."""
        _check_scalar_integer(rank, "the CTA of .at()", op)
        cta, size = constant_of(rank), self.function.cluster_size
        if cta is not None and not 0 <= cta < size:
            raise Error(
                f".at({cta}) names a CTA outside the cluster of {_plural(size, 'CTA')}",
                location=op.loc,
                kind="out-of-bounds",
                remedy=f"ranks are 0 to {size - 1}; give the kernel a larger cluster= if more are meant",
            )


def _check_named(effects: Effects, op: Op) -> None:
    """Effects may derive views from the instruction's operands; a value that none of them holds nobody else knows."""
    held = set(op.operands())
    signals: tuple[Arrival | Expect | Complete, ...] = (*effects.arrivals, *effects.expects, *effects.completes)
    named = [value for access in effects.accesses for value in (*values_in(access.region), access.mask, access.only_if)]
    named += [value for signal in signals for value in (signal.barrier.index, signal.mask)]
    named += [arrival.count for arrival in effects.arrivals] + [expect.nbytes for expect in effects.expects]
    for value in named:
        if value is not None and value not in held and not isinstance(value, Const):
            internal(f"the effects of {op.mnemonic} name {value!r}, which none of its operands holds", op.loc)


# -- numbers ---------------------------------------------------------------------------------------------


def _check_count(count: float | None, loc: Location) -> None:
    if count is not None and not 1 <= count <= MAX_COUNT:
        raise Error(
            f"arrival count {count} is outside 1 to {MAX_COUNT}",
            location=loc,
            remedy="a barrier counts at least one arrival and at most 2**20 - 1",
        )


def _check_bytes(nbytes: float | None, loc: Location) -> None:
    if nbytes is not None and not 0 <= nbytes <= MAX_COUNT:
        raise Error(
            f"{nbytes} bytes are outside 0 to {MAX_COUNT}, what one phase of a barrier can expect",
            location=loc,
            remedy="copy in several phases, or smaller tiles",
        )


def _check_init(op: BarrierInit, function: Function) -> None:
    if op.count is not None:
        _check_scalar_integer(op.count, "an arrival count", op)
        _check_count(constant_of(op.count), op.loc)
    elif len(op.counts) != function.cluster_size or any(len(row) != op.barrier.n for row in op.counts):
        internal(f"'{op.barrier.name}' needs one count per rank and barrier", op.loc)
    for row in op.counts:
        for count in row:
            _check_count(count, op.loc)


def _check_scalar_integer(value: Value, what: str, op: Op, *, or_bool: bool = False) -> None:
    if not _is_integer(value) and not (or_bool and value.type == ScalarType(bool_)):
        raise Error(
            f"{what} is a scalar integer, not {value.type}",
            location=op.loc,
            remedy="convert it, e.g. with .to(px.i32)" if isinstance(value.type, ScalarType) else "pass a scalar",
        )


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, ScalarType) and value.type.dtype.is_integer


def _named(value: Value) -> str:
    return f"'{value.name}'" if value.name else f"of type {value.type}"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
