"""Registers of products in flight: operands that are a product's own, and products that are waited for.

A product in flight reads its left operand out of registers until its group is over. In a loop the next turn computes that
operand anew, in the same registers of the text. Where that may happen while the product of the turn before is at work, the
product has registers of its own, which are filled where it stands. What is left is the product itself: if that of the turn
before may be at work even there, it is waited for.

Accumulators have one array in the text as long as each product takes what the one before left. Where the text would copy
one, from arms of a branch that meet say, products that may be using it are waited for as soon as they are issued.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from phalanx.analysis.flights import Flights, find_flights
from phalanx.cuda.plan import OwnRegisters
from phalanx.cuda.text.cautions import register_operands
from phalanx.cuda.text.cells import Cells
from phalanx.ir.core import Block, Faster, Function, Note, Op, map_blocks, rewrite, substitute
from phalanx.ir.dots import waited_for
from phalanx.ir.effects import GroupAction
from phalanx.ir.engines import REGISTER_COMMITS, REGISTER_WAITS, Engine
from phalanx.ir.ops.control import Assign, For, ReadVar, While
from phalanx.ir.types import TileType
from phalanx.ir.values import Value, Var
from phalanx.location import Location

SAME_REGISTERS = (
    "waits for the product of the turn before, which reads its left operand from the same registers",
    "write two products in a turn of twice the step: each has registers of its own",
)
MOVED_REGISTERS = (
    "is waited for at once: what runs while it is at work would move its registers, or leaves it too few of its own",
    "call px.wgmma_wait(0) before what is computed next, use smaller tiles, or let the operand come from shared memory",
)


def wait_for_operands(function: Function, alone: frozenset[Location]) -> Function:
    """The kernel with a wait before each product whose operand's registers it may be reading itself, from a turn before;
    and with one behind each of the products at the places `alone`.

    For `lower`. A note names the product.
    """
    if not any(op.effects().accumulations for op in function.walk()):
        return function
    flights = find_flights(function)
    notes: dict[tuple[Location, str], Note] = {}
    renamed: dict[Value, Value] = {}  # accumulators, to what they are called behind the wait for them
    waits: dict[Value, Op] = {}

    def say(op: Op, why: str, remedy: str) -> None:
        notes[op.loc, why] = Note(f"px.{op.written} {why}", op.loc, Faster(remedy))

    def insert(block: Block) -> Block:
        out: list[Op] = []
        late: list[Op] = []  # waits that belong behind the next instruction, a commit
        for op, following in zip(block.ops, (*block.ops[1:], None)):
            for engine, commits in _own_flights(op, flights):
                if commits == 0:
                    out.append(REGISTER_COMMITS[engine](loc=op.loc))
                out.append(REGISTER_WAITS[engine](max(0, commits - 1), (), (), loc=op.loc))
                say(op, *SAME_REGISTERS)
            out += [map_blocks(op, insert), *late]
            late = []
            for item in op.effects().accumulations if op.loc in alone else ():
                over = renamed[item.result] = Value(item.result.type, item.result.name)
                wait = waits[item.result] = REGISTER_WAITS[item.engine](0, (item.result,), (over,), loc=op.loc)
                if following is not None and _commits(following, item.engine):
                    late.append(wait)
                else:
                    out += [REGISTER_COMMITS[item.engine](loc=op.loc), wait]
                say(op, *MOVED_REGISTERS)
        same = len(out) == len(block.ops) and all(a is b for a, b in zip(out, block.ops, strict=True))
        return block if same else Block(tuple(out))

    body = insert(function.body)
    if body is function.body:
        return function
    if renamed:
        inserted = set(waits.values())
        body = rewrite(body, lambda op: None if op in inserted else [substitute(op, renamed)])
    waiting = dataclasses.replace(function, body=body, notes=(*waited_for(function.notes, alone), *notes.values()))
    return _without_idle_waits(waiting) if alone else waiting


def _without_idle_waits(function: Function) -> Function:
    """The kernel with waits for all groups where there are none: a wait for all but one tells ptxas that one may go on."""
    flights = find_flights(function)

    def visit(op: Op) -> list[Op] | None:
        for group in op.effects().groups:
            if group.action is GroupAction.WAIT and group.pending and not flights.get(op):
                accs, results = zip(*op.updates(), strict=True) if op.updates() else ((), ())
                return [REGISTER_WAITS[group.engine](0, accs, results, loc=op.loc)]
        return None

    return dataclasses.replace(function, body=rewrite(function.body, visit))


def find_own_registers(function: Function, every: bool) -> dict[Op, OwnRegisters]:
    """The products that have registers of their own for a left operand, each with the loop around all of its turns.

    Without `every` only those whose operand may be made while an earlier one of them is at work.
    """
    products = [op for op in function.walk() if register_operands(op)]
    if not products:
        return {}
    makers = _Makers(function)
    flights = find_flights(function)
    found = {}
    for product in products:
        made = (maker for value in register_operands(product) for maker in makers.of(value))
        if every or any(flight.op is product for maker in made for flight in flights.get(maker, frozenset())):
            loop = next(_loops_in_flight(function.body, product, flights), None)
            found[product] = OwnRegisters(loop, not flights.get(product))
    return found


def moved_in_flight(function: Function, cells: Cells) -> frozenset[Location]:
    """The products whose accumulator the text would copy, from or to the array they use, while they may be at work."""
    flights = find_flights(function)
    found: set[Location] = set()
    for op, state in flights.items():
        touched = {cells.source(value) for value in _copied(op, cells)}
        for flight in state:
            if any(cells.source(item.result) in touched for item in flight.op.effects().accumulations):
                found.add(flight.op.loc)
    return frozenset(found)


def _copied(op: Op, cells: Cells) -> Iterator[Value]:
    """The tiles between whose arrays an instruction copies in the text, though it computes nothing."""
    pairs: list[tuple[Value, Value]] = list(op.updates())
    if isinstance(op, Assign):
        pairs.append((op.value, op.var))
    elif isinstance(op, ReadVar):
        pairs.append((op.var, op.result))
    for old, new in pairs:
        if isinstance(new.type, TileType) and cells.source(old) is not cells.source(new):
            yield from (old, new)


def _own_flights(op: Op, flights: Mapping[Op, Flights]) -> list[tuple[Engine, int]]:
    """The engines by which it may be in flight where it stands, each with the commits since, as few as there may be."""
    if not register_operands(op):
        return []
    own = [flight for flight in flights.get(op, frozenset()) if flight.op is op]
    engines = dict.fromkeys(flight.engine for flight in own)
    return [(engine, min(flight.commits for flight in own if flight.engine is engine)) for engine in engines]


def _commits(op: Op, engine: Engine) -> bool:
    return any(group.engine is engine and group.action is GroupAction.COMMIT for group in op.effects().groups)


def _loops_in_flight(block: Block, product: Op, flights: Mapping[Op, Flights]) -> Iterator[Op]:
    """The loops around a product that begin a turn while it is at work, outermost first."""
    for op in block.ops:
        if product not in Block((op,)).walk():
            continue
        if isinstance(op, For | While):
            starts = [inner.ops[0] for inner in op.blocks() if inner.ops]
            if any(flight.op is product for start in starts for flight in flights.get(start, frozenset())):
                yield op
        for inner in op.blocks():
            yield from _loops_in_flight(inner, product, flights)


class _Makers:
    """Finds the instructions that write the registers of a tile."""

    def __init__(self, function: Function) -> None:
        self.by_value = {value: op for op in function.walk() for value in op.defined_values()}
        self.assigned: dict[Var, list[Assign]] = {}
        for op in function.walk():
            if isinstance(op, Assign):
                self.assigned.setdefault(op.var, []).append(op)

    def of(self, value: Value, seen: frozenset[Var] = frozenset()) -> list[Op]:
        """Its maker, or that of the tile whose registers it may have; of a cell, the writes and what makes their values."""
        maker = self.by_value[value]
        if isinstance(maker, ReadVar):
            writes = [] if maker.var in seen else self.assigned.get(maker.var, [])
            inner = seen | {maker.var}
            return [found for write in writes for found in (write, *self.of(write.value, inner))]
        if maker.moves:
            return [found for source in maker.operands() for found in self.of(source, seen)]
        return [maker]
