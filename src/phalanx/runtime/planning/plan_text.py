"""Plans as Python text: one function that compares, chooses, makes results and launches, with the sizes as its locals.

A loop over guards or a walk over expressions would take longer than all the rest of a call. So a tree of ways is written as
straight-line code: what all ways compare first comes first, and ways part where they differ.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from types import CodeType
from typing import Any

from phalanx.frozen import frozen
from phalanx.runtime.device import torch_memory as scratch
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo, torch_current_stream
from phalanx.runtime.device.torch_memory import TorchMemory, torch_memory
from phalanx.runtime.launch.launcher import Packing, Room
from phalanx.runtime.launch.watchdog import ENVIRONMENT, NAME_THERE
from phalanx.runtime.planning.conditions import condition, conditions
from phalanx.runtime.planning.folding import FoldedWay, Folding, alike_symbols, folded
from phalanx.runtime.planning.launch_text import LaunchTexts
from phalanx.runtime.planning.shared_terms import Names, SharedTerms, expressions_of, tuple_text
from phalanx.runtime.planning.ways import LaunchTerms, NewMemory, NotPlanned, Way, pointer_name, size_name, stride_name
from phalanx.runtime.symbolic.choices import Choice, is_sized
from phalanx.runtime.symbolic.expressions import ANYTHING, LARGEST, Expression, combined, constant, symbol
from phalanx.runtime.symbolic.numbers import Guard, Number
from phalanx.runtime.symbolic.traced_array import NEW_ALIGNMENT
from phalanx.runtime.symbolic.tracing import Viewed

MANY_WAYS = 4
"""So many ways part in functions of their own: those of other ways need not be made anew when one is added."""
ANSWERS = 1 << 14
"""What is kept of a choice: sizes that come again, or that were rounded to the same."""


@frozen
class Making:
    """How torch calls the type and the device of an array that a call makes."""

    dtype: Any
    device: Any


@frozen
class KnownWay:
    """A way that calls take, how torch makes its new arrays, and what is kept of such a call."""

    way: Way
    makings: tuple[Making, ...]
    planned: Any


class _Scope:
    """The names that a text uses for things that have no text."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def name(self, value: Any) -> str:
        """A name for something, the same for the same."""
        found = self._known.get(id(value))
        if found is None:
            found = self._known[id(value)] = f"k{len(self._known)}"
            self.names[found] = value
        return found

    def text(self, value: Any, sizes: list[str] | None = None) -> str:
        """The text that gives a value, with the trace's numbers as what they stand for.

        With `sizes` these are added there, and the text has them as elements of a tuple q.
        """
        if isinstance(value, Number):
            if sizes is None:
                return value.expression.text
            if value.expression.text not in sizes:
                sizes.append(value.expression.text)
            return f"q[{sizes.index(value.expression.text)}]"
        if isinstance(value, Expression):
            return value.text
        if not is_sized(value):
            return repr(value) if type(value) in (int, bool, str, type(None)) else self.name(value)
        if type(value) is tuple:
            return tuple_text(self.text(part, sizes) for part in value)
        fields = [field for field in dataclasses.fields(value) if field.init]
        given = ", ".join(f"{field.name}={self.text(getattr(value, field.name), sizes)}" for field in fields)
        return f"{self.name(type(value))}({given})"


def _texts(expressions: Any) -> str:
    return tuple_text(each.text for each in expressions)


@lru_cache(maxsize=1024)
def _question_code(text: str) -> CodeType:
    """A question, compiled: plans that are written again ask the same, and compiling takes longer than an answer."""
    return compile(text, "<choice>", "eval")


class Asked(dict[tuple[int, ...], Any]):
    """The answers of one of the library's choices so far, by the sizes that it was asked for."""

    __slots__ = ("_ask", "_scope", "_text")

    def __init__(self, text: str, scope: dict[str, Any]) -> None:
        self._text, self._scope = text, scope
        self._ask: Callable[[tuple[int, ...]], Any] | None = None

    def __missing__(self, sizes: tuple[int, ...]) -> Any:
        if len(self) >= ANSWERS:
            self.clear()
        if self._ask is None:  # the scope is complete by now
            self._ask = eval(_question_code(self._text), self._scope)
        self[sizes] = found = self._ask(sizes)
        return found


def _unpacked(
    ranks: Sequence[int | None], first: int, alike: Sequence[int] | None = None, *, kinds: bool = False
) -> list[str]:
    """Lines that give sizes, strides and pointers their names; `first` is the first array's place in the key.

    Of arrays that are `alike` the first one's sizes and strides have names. With `kinds` types and devices have some, too.
    """
    lines, sizes = [f"{tuple_text(map(pointer_name, range(len(ranks))))} = pointers"], []
    for number, rank in enumerate(ranks):
        if rank is not None and (alike is None or alike[number] == number) and (rank or kinds):
            shape = [size_name(number, axis) for axis in range(rank)]
            strides = [stride_name(number, axis) for axis in range(rank)]
            dtype, device = (f"d{number}", f"v{number}") if kinds else ("_", "_")
            lines.append(f"{dtype}, {tuple_text(shape)}, {tuple_text(strides)}, _, {device}, _ = key[{first + number}]")
            sizes += shape
    if sizes:  # none is below 0, and the largest is all ones: together they have its bits at most
        lines.append(f"if {' | '.join(sizes)} > {LARGEST}: return None")
    return lines


# Comparisons ---------------------------------------------------------------------------------------------------


def _question(asked: Any) -> str:
    """What a way asks, whatever the answer: a comparison, a choice, or the value of what it settles."""
    settles = isinstance(asked, Guard) and asked.settled
    text: str = f"what is {asked.left.text}" if settles else asked.text
    return text


def _answer(asked: Any) -> Any:
    if isinstance(asked, Choice):
        return asked.name or asked.result
    return asked.right.constant if asked.settled else asked.outcome


def agree(ways: Sequence[KnownWay], new: KnownWay) -> bool:
    """Whether a new way can stand beside others: up to where it parts from each, both ask the same."""
    for known in ways:
        for a, b in zip(known.way.guards, new.way.guards):
            if _question(a) != _question(b):
                return False
            if _answer(a) != _answer(b):
                break
        else:
            return False  # the one goes on where the other ends
    return True


class PlanWriter:
    """Makes the functions of a plan, and makes them anew as ways are added, but for those that stay what they were.

    `ranks` has the number of axes of each array, None for None, `dtypes` their types; `key` is that of one of the calls.
    `unlike` is called in the place of a function whose arrays are not as alike as it has them.
    """

    def __init__(
        self, ranks: Sequence[int | None], dtypes: Sequence[str | None], key: tuple[Any, ...], torch: Any,
        unlike: Callable[..., Any],
    ) -> None:
        self.ranks, self.dtypes, self.torch = tuple(ranks), tuple(dtypes), torch
        self.first = len(key) - len(self.ranks)
        self.key, self.unlike = key, unlike
        kinds = list(zip(self.ranks, self.dtypes, strict=True))
        self._pairs = [
            (number, [other for other in range(number) if kinds[other] == kind])
            for number, kind in enumerate(kinds) if kind[0] and kind in kinds[:number]
        ]  # fmt: skip
        self.launches: dict[tuple[int, bool], Launches] = {}
        self.functions: dict[Any, Callable[..., Any]] = {}
        self.folds: dict[tuple[int, tuple[int, ...]], FoldedWay | None] = {}
        self.known: dict[int, KnownWay] = {}  # those by whose ids others are kept: no other way gets them

    def alike(self, key: tuple[Any, ...]) -> tuple[int, ...]:
        """For each array of a call the number of the first one with the same type, sizes and strides, or its own."""
        found = [*range(len(self.ranks))]
        for number, others in self._pairs:
            geometry = key[self.first + number]
            found[number] = next((other for other in others if key[self.first + other] == geometry), number)
        return tuple(found)

    def fold(self, known: KnownWay, alike: tuple[int, ...]) -> FoldedWay | None:
        """A way of calls whose arrays are `alike`; None where none of them takes it."""
        key = id(known), alike
        if key not in self.folds:
            self.known[id(known)] = known
            self.folds[key] = folded(known.way, alike_symbols(self.ranks, alike))
        return self.folds[key]

    def function(
        self, ways: Sequence[KnownWay], alike: tuple[int, ...], depth: int = 0, *, encoded: bool = False
    ) -> Callable[..., Any]:
        """A function of a call's key, pointers and arrays: launches, and gives the way that it took and the result.

        None where the call takes none of the ways, or is of another kind: then nothing was launched. It is for calls each of
        whose arrays has the sizes and strides of the one whose number is in its place in `alike`. The ways are known to be
        the call's up to `depth` guards. If `encoded`, all descriptors are the driver's.
        """
        key = (depth, alike, encoded, *map(id, ways))
        found = self.functions.get(key)
        if found is None:
            scope = _Scope()
            writer = _Writer(scope, self, alike, encoded)
            taken = [known for known in ways if self.fold(known, alike) is not None]
            for asked in writer.folded(taken[0]).guards[:depth] if taken else ():
                if isinstance(asked, Choice) and asked.name:
                    writer.choice(asked, " ")
            if taken:
                writer.tree(taken, depth, " ")
            lines = _unpacked(self.ranks, self.first, alike) if depth else self._begun(scope, alike)
            unpacked = [f" {line}" for line in lines]
            torch = self.torch
            scope.names |= {"empty_like": torch.empty_like, "empty_strided": torch.empty_strided}
            lines = ["def plan(key, pointers, arrays):", *unpacked, *writer.lines]
            found = _compiled(lines if taken else [*lines, " return None"], scope, "plan")
            if len(self.functions) > 4 * MANY_WAYS * len(ways):
                self.functions.clear()  # of fewer ways
            self.functions[key] = found
        return found

    def _begun(self, scope: _Scope, alike: tuple[int, ...]) -> list[str]:
        """Lines that begin a function: is the call of the kind, are its arrays alike? Sizes, strides, pointers get names."""
        first, numbers = self.first, range(len(self.ranks))
        scope.names |= {"unlike": self.unlike, "watchdog": NAME_THERE, "environment": ENVIRONMENT}
        options = "is not None" if self.key[0] is None else f"!= {scope.name(self.key[0])}"
        nothing = [f" or key[{first + number}] is not None" for number in numbers if self.ranks[number] is None]
        same = [
            " == ".join(f"key[{first + number}]" for number in numbers if alike[number] == other)
            for other in dict.fromkeys(alike) if alike.count(other) > 1
        ]  # fmt: skip
        lines = [f"if key[0] {options}{''.join(nothing)} or watchdog in environment: return None"]
        if same:
            lines.append(f"if not ({' and '.join(same)}): return unlike(key, pointers, arrays)")
        lines += ["try:", *[f" {line}" for line in _unpacked(self.ranks, first, alike, kinds=True)]]
        lines.append("except (TypeError, ValueError): return None  # of another rank, or None")
        kinds = [
            f"d{number} is not {scope.name(self.key[first + number][0])} or v{number} != {self.key[first + number][4]}"
            for number in numbers if self.ranks[number] is not None and alike[number] == number
        ]  # fmt: skip
        return [*lines, f"if {' or '.join(kinds)}: return None"] if kinds else lines

    def launches_of(self, known: KnownWay, encoded: bool) -> Launches:
        """The launches of a way, each with memory of its own."""
        found = self.launches.get((id(known), encoded))
        if found is None:
            room = Room([] if encoded else [terms.launcher for terms in known.way.launches])
            found = self.launches[id(known), encoded] = Launches(threading.Lock(), room, [])
            for terms in known.way.launches:
                fixed = [each.fixed for each in terms.maps]
                packing = None if encoded else terms.launcher.packing(fixed, room)
                found.each.append(packing or terms.launcher.encoding(fixed))
        return found


@frozen
class Launches:
    """The launches of a way: parts of the room, which the lock is for, or functions that have all descriptors encoded."""

    lock: Any
    room: Room
    each: list[Packing | Callable[..., None]]


class Encoded:
    """A function that stands in where a word of a descriptor is too large for what we write: the driver encodes it."""

    __slots__ = ("_alike", "_known", "_plan")

    def __init__(self, plan: PlanWriter, known: KnownWay, alike: tuple[int, ...]) -> None:
        self._plan, self._known, self._alike = plan, known, alike

    def __call__(self, key: tuple[Any, ...], pointers: tuple[int, ...], arrays: tuple[Any, ...]) -> Any:
        return self._plan.function([self._known], self._alike, encoded=True)(key, pointers, arrays)


class Branches:
    """Where many ways part: a function for each answer to a question."""

    __slots__ = ("_answers", "_found")

    def __init__(self, answers: list[tuple[Any, Callable[..., Any]]]) -> None:
        self._answers = answers
        self._found: dict[int, tuple[Any, Callable[..., Any] | None]] = {}

    def of(self, answer: Any) -> Callable[..., Any] | None:
        """The function for an answer; None where no way goes on with it."""
        found = self._found.get(id(answer))
        if found is None or found[0] is not answer:
            if len(self._found) >= ANSWERS:
                self._found.clear()
            function = next((function for known, function in self._answers if known == answer), None)
            found = self._found[id(answer)] = answer, function
        return found[1]


class _Writer:
    """Writes the lines of a plan."""

    def __init__(
        self, scope: _Scope, plan: PlanWriter | None = None, alike: tuple[int, ...] = (), encoded: bool = False
    ) -> None:
        self.scope, self.plan, self.alike, self.encoded = scope, plan, alike, encoded
        self.lines: list[str] = []
        self.asked = 0
        self.known: dict[str, str] = {}  # what has a name by now
        self.geometries: dict[str, str] = {}  # of results: their texts, and names of these
        self.alone = False

    def folded(self, known: KnownWay) -> FoldedWay:
        """A way with what its comparisons say put in."""
        assert self.plan is not None
        found = self.plan.fold(known, self.alike)
        assert found is not None
        return found

    def tree(self, ways: list[KnownWay], depth: int, indent: str) -> None:
        """The ways, which are the same up to `depth` guards: what they ask next, and where they part."""
        together: list[Guard] = []
        guards = self.folded(ways[0]).guards
        while depth < len(guards):
            first, wanted = guards[depth], _answer(ways[0].way.guards[depth])
            others = [known for known in ways if wanted != _answer(known.way.guards[depth])]
            if isinstance(first, Choice):
                self.conditions(together, indent)
                together = []
                name = self.choice(first, indent)
                if others:
                    self.branches(ways, name, depth, indent)
                    return
                if not first.name:
                    self.lines.append(f"{indent}if not ({self.is_answer(name, first)}): return None")
            elif others and first.settled:
                self.conditions(together, indent)
                self.branches(ways, first.left.text, depth, indent)
                return
            elif others:
                self.conditions(together, indent)
                nested, rest = sorted((others, [known for known in ways if known not in others]), key=len)
                names = Names(self.known)
                asked = self.folded(nested[0]).guards[depth]
                self.lines.append(f"{indent}if {condition(_renamed(asked, names))}:")
                self.inside(nested, depth + 1, indent)
                self.tree(rest, depth + 1, indent)
                return
            elif first is not None:
                together.append(first)
            depth += 1
        self.conditions(together, indent)
        self.end(ways[0], indent)

    def inside(self, ways: list[KnownWay], depth: int, indent: str) -> None:
        """The ways within a condition: what gets a name there has none elsewhere."""
        outside, self.known = self.known, dict(self.known)
        self.tree(ways, depth, indent + " ")
        self.known = outside

    def conditions(self, together: list[Guard], indent: str) -> None:
        if together:
            names = Names(self.known)
            names.share([side for guard in together for side in _shareable(guard)], early=True)
            self.lines += [f"{indent}{line}" for line in names.lines]
            texts = conditions([_renamed(guard, names) for guard in together])
            self.lines.append(f"{indent}if not ({' and '.join(texts)}): return None")

    def choice(self, first: Choice, indent: str) -> str:
        """Asks for a choice; gives the name of what comes of it, and names its numbers where these have names."""
        name = first.name or f"c{self.asked}"
        self.asked += 1
        sizes: list[str] = []
        given = [self.scope.text(value, sizes) for value in first.args]
        given += [f"{option}={self.scope.text(value, sizes)}" for option, value in first.options.items()]
        ask = self.scope.name(Asked(f"lambda q: {self.scope.name(first.function)}({', '.join(given)})", self.scope.names))
        self.lines += [
            f"{indent}try: {name} = {ask}[{tuple_text(sizes)}]",
            f"{indent}except Exception: return None",
        ]
        self.lines += [f"{indent}{number} = {name}.{field}" for field, number in first.numbers.items() if field]
        return name

    def is_answer(self, name: str, asked: Any) -> str:
        """The text that compares what has a name with an answer."""
        if isinstance(asked, Guard):
            return f"{name} == {asked.right.constant}"
        wanted = self.scope.name(asked.result)
        return f"{name} is {wanted} or {name} == {wanted}"

    def branches(self, ways: list[KnownWay], name: str, depth: int, indent: str) -> None:
        """Goes on by what is called by a name, or written as an expression; many ways in functions of their own."""
        left, apart = ways, []
        while left and len(ways) >= MANY_WAYS:
            answer = _answer(left[0].way.guards[depth])
            assert self.plan is not None
            mine = [known for known in left if _answer(known.way.guards[depth]) == answer]
            left = [known for known in left if known not in mine]
            apart.append((answer, self.plan.function(mine, self.alike, depth + 1)))
        if apart:
            self.lines += [
                f"{indent}go_on = {self.scope.name(Branches(apart))}.of({name})",
                f"{indent}return None if go_on is None else go_on(key, pointers, arrays)",
            ]
            return
        while left:
            first = left[0].way.guards[depth]
            mine = [known for known in left if _answer(known.way.guards[depth]) == _answer(first)]
            left = [known for known in left if known not in mine]
            self.lines.append(f"{indent}if {self.is_answer(name, first)}:")
            self.inside(mine, depth + 1, indent)
        self.lines.append(f"{indent}return None")

    # Launches --------------------------------------------------------------------------------------------------

    def end(self, known: KnownWay, indent: str) -> None:
        """Makes what a way makes, launches, and gives the way back with the result."""
        way, planned, results = self.folded(known).end, self.scope.name(known.planned), {}
        for each in way.results:
            if isinstance(each, Viewed):
                results[each.memory] = each
        names = [memory.name for memory in way.memories]
        runs = [list(run) for is_result, run in groupby(way.memories, lambda each: each.name in results) if not is_result]
        taken = {run[0].name: run for run in runs}  # those that follow each other are taken together
        assert self.plan is not None
        launches = self.plan.launches_of(known, self.encoded)
        layouts = [each.layouts if isinstance(each, Packing) else None for each in launches.each]
        others = [number for each in results.values() for number in (*each.shape, *each.strides)]
        others += [_bytes(memory) for run in runs for memory in run]
        shared = SharedTerms(way, layouts, dict(self.known), others)
        texts = LaunchTexts(self.scope.name, self.scope.text, shared, launches.room.bytes)
        for terms, launch in zip(way.launches, launches.each, strict=True):
            if isinstance(launch, Packing):
                texts.add(terms, launch)
        self.lines += [f"{indent}{line}" for line in shared.lines]
        if texts.beyond is not None:
            encoded = self.scope.name(Encoded(self.plan, known, self.alike))
            self.lines.append(f"{indent}if {texts.beyond}: return {encoded}(key, pointers, arrays)  # strides of 64 GB")
        self.lines += [f"{indent}{line}" for line in texts.packed]
        device = way.launches[0].launcher.device
        memory_of = torch_memory(device)
        self.alone = memory_of.alone
        short = {"quick": memory_of.empty if results else None, "allocate": memory_of.allocate if taken else None}
        short = {name: function for name, function in short.items() if function is not None}
        if short:  # what torch allocates on the current device, and on no other
            self.scope.names |= {**short, "current": memory_of.current, "delete": memory_of.delete}
            if not memory_of.alone:
                self.lines.append(f"{indent}here = current() == {device}")
        self.scope.names["stream_of"] = torch_current_stream()
        self.lines.append(f"{indent}stream = stream_of({device})")
        if taken:
            self.lines += [f"{indent}{' = '.join(taken)} = 0", f"{indent}try:"]
        within = indent + " " if taken else indent
        self.share_geometries(list(results.values()), shared, within)
        for memory, making in zip(way.memories, known.makings, strict=True):
            if memory.name in taken:
                self.lines += [f"{within}{line}" for line in self.taking(taken[memory.name], memory_of, shared)]
            elif memory.name in results:
                self.result(self.folded(known).fold, memory, making, results[memory.name], shared, within)
        behind = {memory.name for run in runs for memory in run[1:]}  # as good as what they lie behind
        names = [name for name in names if name not in behind]
        if names:
            self.lines.append(
                f"{within}if not ({' and '.join(names)}) or ({' | '.join(names)}) & {NEW_ALIGNMENT - 1}: return None"
            )
        self.lines += [f"{within}{line}" for line in (*shared.late_lines, *self.launching(way, launches, texts, shared))]
        if taken:
            self.scope.names["give"] = memory_of.give
            gives = [f"give({name})" for name in taken]
            if "allocate" in short:
                give = "delete" if memory_of.alone else "(delete if here else give)"
                gives = [f"if {name}: {give}({name})" for name in taken]
            self.lines += [f"{indent}finally:", *[f"{within}{line}" for line in gives]]
        given = ["None" if each is None else f"arrays[{each}]" if isinstance(each, int) else f"array_{each.memory}"
                 for each in way.results]  # fmt: skip
        self.lines.append(f"{indent}return {planned}, {tuple_text(given) if way.several else given[0]}")

    def share_geometries(self, results: list[Viewed], shared: SharedTerms, indent: str) -> None:
        """Names for the sizes and strides that several results have."""
        texts = [(shared.texts(each.shape), shared.texts(each.strides)) for each in results]
        self.geometries = {}
        for number, (shape, strides) in enumerate(dict.fromkeys(texts)):
            if texts.count((shape, strides)) > 1:
                self.lines.append(f"{indent}sizes{number}, steps{number} = {shape}, {strides}")
                self.geometries[f"{shape}, {strides}"] = f"sizes{number}, steps{number}"

    def launching(self, way: Way, launches: Launches, texts: LaunchTexts, shared: SharedTerms) -> list[str]:
        """Lines that launch."""
        lines = list[str]()
        for terms, each in zip(way.launches, launches.each, strict=True):
            if isinstance(each, Packing):
                lines += texts.lines(terms)
            else:
                given = shared.texts(terms.grid), self.fields(terms, shared), shared.maps(terms)
                lines.append(f"{self.scope.name(each)}({', '.join(given)})")
        if not any([isinstance(each, Packing) for each in launches.each]):
            return lines
        lines = [texts.written, *lines]
        # Not by `with`, which takes twice as long.
        acquire, release = self.scope.name(launches.lock.acquire), self.scope.name(launches.lock.release)
        return [f"{acquire}()", "try:", *[f" {line}" for line in lines], f"finally: {release}()"]

    def taking(self, run: list[NewMemory], memory_of: TorchMemory, shared: SharedTerms) -> list[str]:
        """Lines that take memory for some arrays at once."""
        self.scope.names["take"] = memory_of.take
        sizes = [shared.text(_bytes(memory)) for memory in run]
        rooms = [f"-(-{size} // {scratch.PART}) * {scratch.PART}" for size in sizes[:-1]]
        starts = [f"room_{memory.name} = {room}" for memory, room in zip(run, rooms)]
        total = " + ".join([*[f"room_{memory.name}" for memory in run[:-1]], sizes[-1]])
        behind = [f"{memory.name} = {before.name} + room_{before.name}" for before, memory in pairwise(run)]
        take = f"take({total})"
        if memory_of.allocate is not None:
            take = f"allocate({total}, stream)" + ("" if memory_of.alone else f" if here else {take}")
        return [*starts, f"{run[0].name} = {take}", *behind]

    def like(self, fold: Folding, result: Viewed) -> tuple[int, list[str]] | None:
        """An argument of the type and the shape of a result, as far as comparisons say, and what is left to compare."""
        assert self.plan is not None
        shape = [each.text for each in result.shape]
        for number, (rank, dtype) in enumerate(zip(self.plan.ranks, self.plan.dtypes)):
            sizes = [fold(symbol(size_name(number, axis))) for axis in range(rank or 0)]
            if sizes and dtype == result.dtype and [each.text for each in sizes] == shape:
                strides = [fold(symbol(stride_name(number, axis), *ANYTHING)) for axis in range(len(sizes))]
                wanted = [*[combined("*", *each) for each in zip(strides[1:], sizes[1:])], constant(1)]
                pairs = [(step.text, dense.text) for step, dense in zip(strides, wanted, strict=True)]
                return number, [f"{step} == {dense}" for step, dense in reversed(pairs) if step != dense]
        return None

    def result(
        self, fold: Folding, memory: NewMemory, making: Making, result: Viewed, shared: SharedTerms, indent: str
    ) -> None:
        """Makes an array that is given back; without the short way, torch is quickest where an argument is like it."""
        shape, strides = result.shape, result.strides
        dense = [each.text for each in strides] == [each.text for each in _dense(shape)]
        how = f"dtype={self.scope.name(making.dtype)}, device={self.scope.text(making.device)}"
        geometry = f"{shared.texts(shape)}, {shared.texts(strides)}"
        geometry = self.geometries.get(geometry, geometry)
        text = f"empty_strided({geometry}, {how})"
        if not dense:
            span = " + ".join(f"({size.text} - 1) * {step.text}" for size, step in zip(shape, strides))
            self.lines.append(f"{indent}if 1 + {span} != {_count(memory.sizes).text}: return None")
        if _count(shape).text != _count(memory.sizes).text:
            self.lines.append(f"{indent}if {_count(shape).text} != {_count(memory.sizes).text}: return None")
        like = self.like(fold, result) if dense else None
        if like is not None:
            number, steps = like
            text = f"empty_like(arrays[{number}])" + (f" if {' and '.join(steps)} else {text}" if steps else "")
        if "quick" in self.scope.names:
            text = f"quick({geometry}, {self.scope.name(making.dtype)})" + ("" if self.alone else f" if here else {text}")
        array = f"array_{memory.name}"
        self.lines += [f"{indent}{array} = {text}", f"{indent}{memory.name} = {array}.data_ptr()"]

    def fields(self, terms: LaunchTerms, shared: SharedTerms) -> str:
        """What is packed: of an array its pointer, strides and sizes."""
        found: list[str] = []
        for value in terms.arguments:
            if isinstance(value, Viewed | Expression):
                found += map(shared.text, expressions_of(value))
            else:
                found.append(self.scope.text(value))
        return tuple_text(found)


def _shareable(guard: Guard) -> list[Expression]:
    """What a guard compares, but for remainders and multiples of symbols, of which `conditions` compares many at once."""
    found = []
    for side in (guard.left, guard.right):
        if side.sign == "%":
            side = side.args[0]
        if not (side.sign == "*" and side.args[0].sign == "symbol" and side.args[1].constant is not None):
            found.append(side)
    return found


def _renamed(guard: Guard, names: Names) -> Guard:
    """The guard with the names of what has some."""
    return Guard(names.renamed(guard.left), guard.sign, names.renamed(guard.right), guard.outcome, guard.settled)


def _bytes(memory: NewMemory) -> Expression:
    """How many an array takes."""
    return combined("*", _count(memory.sizes), constant(ITEM_BYTES[memory.dtype]))


def _count(sizes: Sequence[Expression]) -> Expression:
    """The number of elements."""
    found = constant(1)
    for size in reversed(sizes):
        found = combined("*", found, size)
    return found


def _dense(shape: Sequence[Expression]) -> list[Expression]:
    """The strides of a contiguous array."""
    steps: list[Expression] = []
    step = constant(1)
    for size in reversed(shape):
        steps.insert(0, step)
        step = combined("*", step, size)
    return steps


def terms_function(way: Way, ranks: Sequence[int | None], first: int, device: int) -> Callable[..., Any]:
    """A function of a call's key, pointers and the addresses of what it makes: what a way launches and makes, in numbers.

    It gives for each launch its grid, its numbers (None for arrays) and its arrays (None for numbers), then the
    descriptions of what is made, then of what is given back (None where that is nothing new).
    """
    scope = _Scope()

    def info(view: Viewed) -> str:
        shape, strides = _texts(view.shape), _texts(view.strides)
        return f"info('cuda', {device}, {view.data.text}, {shape}, {strides}, {view.dtype!r})"

    writer = _Writer(scope)
    for asked in way.guards:
        if isinstance(asked, Choice) and asked.name:
            writer.choice(asked, " ")
    launches = []
    for terms in way.launches:
        scalars = ["None" if isinstance(each, Viewed) else scope.text(each) for each in terms.arguments]
        infos = [info(each) if isinstance(each, Viewed) else "None" for each in terms.arguments]
        launches.append(f"({_texts(terms.grid)}, [{', '.join(scalars)}], [{', '.join(infos)}])")
    made = [
        f"info('cuda', {device}, {each.name}, {_texts(each.sizes)}, "
        f"{_texts(_dense(each.sizes))}, {each.dtype!r})"
        for each in way.memories
    ]
    given = [info(each) if isinstance(each, Viewed) else "None" for each in way.results]
    names = [each.name for each in way.memories]
    lines = [
        "def terms(key, pointers, new):", *[f" {line}" for line in _unpacked(ranks, first)],
        *([f" {tuple_text(names)} = new"] if names else []), *writer.lines,
        f" return [{', '.join(launches)}], [{', '.join(made)}], [{', '.join(given)}]",
    ]  # fmt: skip
    scope.names["info"] = ArrayInfo
    return _compiled(lines, scope, "terms")


def _compiled(lines: list[str], scope: _Scope, name: str) -> Callable[..., Any]:
    names = {"__name__": __name__, **scope.names}
    try:
        # A file of this package, as the search for the caller's line sees it.
        exec(compile("\n".join(lines), os.path.join(os.path.dirname(__file__), f"<{name}>"), "exec"), names)
    except (SyntaxError, RecursionError, MemoryError) as error:  # an expression that is too deep for Python
        raise NotPlanned(str(error)) from None
    made: Callable[..., Any] = names[name]
    return made


__all__ = ["KnownWay", "Making", "PlanWriter", "agree", "terms_function"]
