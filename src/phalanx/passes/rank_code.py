"""Instructions that tell the ranks of a cluster apart: numbers by rank, and code that some ranks run alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from phalanx.analysis.by_rank import ByRank
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.cluster import ClusterRank, coordinates
from phalanx.ir.ops.control import Assign, If, ReadVar, Role, RoleCopy
from phalanx.ir.ops.tile import Binary, Cast, Compare, Select
from phalanx.ir.types import BOOL, I32, I64
from phalanx.ir.values import Const, Value, Var
from phalanx.location import Location


@dataclass
class RankCode:
    """Collects the instructions of one place, in `ops`."""

    loc: Location
    ops: list[Op] = field(default_factory=list)

    def rank(self, dim: int | None = None) -> Value:
        """This CTA's rank in the cluster, or its coordinate along `dim`."""
        result = Value(I32, "rank" if dim is None else f"rank_{'xyz'[dim]}")
        self.ops.append(ClusterRank(dim, result, loc=self.loc))
        return result

    def binary(self, fn: str, a: Value, b: Value) -> Value:
        """The result of an operation on two numbers."""
        result = Value(a.type)
        self.ops.append(Binary(fn, a, b, result, loc=self.loc))
        return result

    def is_rank(self, rank: int, own: Value) -> Value:
        """Whether this CTA's rank, `own`, is that one."""
        result = Value(BOOL)
        self.ops.append(Compare("eq", own, Const(rank, I32), result, loc=self.loc))
        return result

    def in_mask(self, mask: int, own: Value) -> Value:
        """Whether this CTA's rank, `own`, is in a mask."""
        bit = self.binary("and", self.binary("shr", Const(mask, I32), own), Const(1, I32))
        result = Value(BOOL)
        self.ops.append(Compare("ne", bit, Const(0, I32), result, loc=self.loc))
        return result

    def among(self, mask: int) -> Value:
        """Whether this CTA's rank is in a mask, in the shortest way."""
        return self.is_rank(mask.bit_length() - 1, self.rank()) if mask.bit_count() == 1 else self.in_mask(mask, self.rank())

    def among_copies(self, role: Role, numbers: list[int]) -> Value:
        """Whether this agent is one of those copies of its role."""
        own = Value(I32, "copy")
        self.ops.append(RoleCopy(role.copies, own, loc=self.loc))
        mask = sum(1 << number if number < 31 else -1 << 31 for number in numbers)
        return self.is_rank(numbers[0], own) if len(numbers) == 1 else self.in_mask(mask, own)

    def chosen(self, numbers: Mapping[int, int], name: str, *, masks: bool = False) -> Value:
        """The number of this CTA's rank, out of those of all: the commonest, unless the rank is one of the others.

        With `masks` one question is asked for each of the other numbers, else one for each of the other ranks.
        """
        choice = ByRank.of(numbers)
        value: Value = Const(choice.usual, I32)
        own = self.rank() if choice.others else value
        questions = [(partial(self.in_mask, mask), number) for mask, number in choice.others]
        if not masks:
            questions = [(partial(self.is_rank, rank), n) for rank, n in numbers.items() if n != choice.usual]
        for question, number in questions:
            result = Value(I32, name)
            self.ops.append(Select(question(own), Const(number, I32), value, result, loc=self.loc))
            value = result
        return value

    def position(self, function: Function, numbers: Mapping[int, int]) -> Value:
        """A number below 16 by rank: the rank or a coordinate where that is it, else out of a table of 4 bits each."""
        if len(set(numbers.values())) == 1:
            return Const(next(iter(numbers.values())), I32)
        if all(number == rank for rank, number in numbers.items()):
            return self.rank()
        for dim in range(3):
            if all(number == coordinates(function.cluster, rank)[dim] for rank, number in numbers.items()):
                return self.rank(dim)
        table = sum(number << 4 * rank for rank, number in numbers.items())
        wide = Value(I64)
        self.ops.append(Cast(self.binary("mul", self.rank(), Const(4, I32)), wide, loc=self.loc))
        signed = table - (1 << 64) if table >> 63 else table
        entry = self.binary("and", self.binary("shr", Const(signed, I64), wide), Const(15, I64))
        result = Value(I32)
        self.ops.append(Cast(entry, result, loc=self.loc))
        return result


@dataclass
class LoopCode(RankCode):
    """Code by rank with cells and branches: what loops are made of."""

    def compare(self, fn: str, a: Value, b: Value, name: str) -> Value:
        """The truth of a comparison."""
        result = Value(BOOL, name)
        self.ops.append(Compare(fn, a, b, result, loc=self.loc))
        return result

    def read(self, cell: Var) -> Value:
        """The value of a cell."""
        result = Value(cell.type, cell.name)
        self.ops.append(ReadVar(cell, result, loc=self.loc))
        return result

    def assign(self, cell: Var, value: Value) -> None:
        """Gives a cell another value."""
        self.ops.append(Assign(cell, value, loc=self.loc))

    def branch(self, cond: Value, then: LoopCode, orelse: LoopCode | None = None) -> None:
        """One of two pieces of code."""
        other = Block(()) if orelse is None else Block(tuple(orelse.ops))
        self.ops.append(If(cond, Block(tuple(then.ops)), other, loc=self.loc))

    def fork(self) -> LoopCode:
        """Another piece of code at the same place."""
        return LoopCode(self.loc)

    def is_first(self, cluster_size: int, copies: int) -> Value | None:
        """Whether this is the first CTA of the cluster, and the first copy of its role; None where there is no other."""
        numbers = [self.rank()] if cluster_size > 1 else []
        if copies > 1:
            numbers.append(Value(I32, "copy"))
            self.ops.append(RoleCopy(copies, numbers[-1], loc=self.loc))
        if not numbers:
            return None
        number = numbers[0] if len(numbers) == 1 else self.binary("or", *numbers)
        return self.compare("eq", number, Const(0, I32), "draws")


def fresh_name(name: str, taken: set[str]) -> str:
    """A name that nothing has yet, the given one or one like it, of letters, digits and _; it is taken from here on."""
    base, number = "".join(c if c.isalnum() else "_" for c in name), 0
    fresh = base
    while fresh in taken:
        number += 1
        fresh = f"{base}_{number}"
    taken.add(fresh)
    return fresh
