"""Ways of a library function as compiled expressions: what they compare and choose, and the numbers of what they launch.

All ways of calls whose arrays are alike are one tree. A node is one question: do all of some comparisons hold, what does one
of the library's choices answer, what is a size. The values of all sizes, strides and addresses are one tuple, which a
question's expression takes as its arguments. At a leaf two more expressions give the sizes of what the call makes, and the
grids, arguments and descriptors of its launches.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from phalanx.frozen import frozen
from phalanx.runtime.device import torch_memory as scratch
from phalanx.runtime.device.arrays import ITEM_BYTES
from phalanx.runtime.device.map_layout import WORD
from phalanx.runtime.device.torch_memory import tensor_maker, torch_memory
from phalanx.runtime.planning.ways import NotPlanned, pointer_name, size_name, stride_name
from phalanx.runtime.symbolic.choices import Choice, is_sized
from phalanx.runtime.symbolic.expressions import LARGEST, Expression, combined, constant
from phalanx.runtime.symbolic.numbers import Guard, Number
from phalanx.runtime.symbolic.traced_array import NEW_ALIGNMENT
from phalanx.runtime.symbolic.tracing import ArrayView, NewArray, Way

ANSWERS = 1 << 14
"""Answers that are kept of one of the library's choices."""
Values = tuple[Any, ...]


# Text ------------------------------------------------------------------------------------------------------


def _function(names: tuple[str, ...], lines: Sequence[str], given: dict[str, Any]) -> Callable[..., Any]:
    """A function of some numbers by name, whose lines use what is given as well."""
    text = "\n".join([f"def made({', '.join(names)}):", *(f" {line}" for line in lines)])
    namespace = {"__name__": __name__, **given}
    try:
        # A file of this package, as the search for the caller's line sees it.
        exec(compile(text, os.path.join(os.path.dirname(__file__), "<plan>"), "exec"), namespace)
    except (SyntaxError, RecursionError, MemoryError) as error:  # an expression that is too deep for Python
        raise NotPlanned(str(error)) from None
    made: Callable[..., Any] = namespace["made"]
    return made


@lru_cache(maxsize=1024)
def _expression(names: tuple[str, ...], text: str) -> Callable[..., Any]:
    """An expression of some numbers by name: trees that are made anew ask the same questions."""
    return _function(names, [f"return {text}"], {})


class _Shared:
    """The text of expressions in which what occurs several times is worked out once: `lines` do, and give it a name.

    What depends on symbols that are `late` has lines of its own, which come after the others.
    """

    def __init__(self, expressions: Sequence[Expression], late: frozenset[str]) -> None:
        self.lines: list[str] = []
        self.late_lines: list[str] = []
        self._late = late
        self._counts: dict[str, int] = {}
        self._known: dict[str, str] = {}
        for expression in expressions:
            self._count(expression)

    def _count(self, expression: Expression) -> None:
        count = self._counts[expression.text] = self._counts.get(expression.text, 0) + 1
        if count == 1 and expression.sign not in ("constant", "symbol"):
            for part in expression.args:
                self._count(part)

    def text(self, expression: Expression) -> str:
        """An expression, or the name that it has."""
        if expression.sign in ("constant", "symbol"):
            return expression.text
        name = self._known.get(expression.text)
        if name is not None:
            return name
        left, right = map(self.text, expression.args)
        text = f"-(-{left} // {right})" if expression.sign == "ceil" else f"{left} {expression.sign} {right}"
        if self._counts[expression.text] == 1:
            return f"({text})"
        name = self._known[expression.text] = f"e{len(self._known)}"
        (self.lines if expression.symbols.isdisjoint(self._late) else self.late_lines).append(f"{name} = {text}")
        return name

    def tuple(self, expressions: Iterable[Expression]) -> str:
        """The text of a tuple of them."""
        return tuple_text(map(self.text, expressions))


def tuple_text(texts: Iterable[str]) -> str:
    """Writes a tuple as Python text."""
    return "(" + "".join(f"{text}, " for text in texts) + ")"


# What a call's arguments are -------------------------------------------------------------------------------


class Kind:
    """Calls whose arrays have these ranks and types (None for None): how their sizes, strides and addresses are read.

    A call's key has the geometries of its arrays from `first` on.
    """

    def __init__(self, ranks: Sequence[int | None], dtypes: Sequence[str | None], first: int) -> None:
        self.ranks = tuple(ranks)
        self.first = first
        kinds = list(zip(ranks, dtypes, strict=True))
        texts = []
        for number, kind in enumerate(kinds):
            text = str(number)
            for other in reversed(range(number)):
                if kind[0] and kinds[other] == kind:
                    mine, its = f"k[{first + number}]", f"k[{first + other}]"
                    text = f"{other} if {mine}[1] == {its}[1] and {mine}[2] == {its}[2] else {text}"
            texts.append(text)
        self.alike: Callable[[tuple[Any, ...]], tuple[int, ...]] = _expression(("k",), tuple_text(texts))
        """For each array of a call the number of the first one with the same type, sizes and strides, or its own."""

    def holds(self, alike: Sequence[int]) -> Callable[[tuple[Any, ...]], bool]:
        """Whether the arrays of a call with a key are as alike as that, or more."""
        pairs = [(self.first + number, self.first + other) for number, other in enumerate(alike) if number != other]
        texts = [f"k[{a}][{part}] == k[{b}][{part}]" for a, b in pairs for part in (1, 2)]
        return _expression(("k",), " and ".join(texts) or "True")

    def names(self, alike: Sequence[int]) -> tuple[str, ...]:
        """The numbers of a call whose arrays are `alike`: `values` gives them."""
        found = [pointer_name(number) for number in range(len(self.ranks))]
        for number in self._own(alike):
            axes = range(self.ranks[number] or 0)
            found += [size_name(number, axis) for axis in axes]
            found += [stride_name(number, axis) for axis in axes]
        return tuple(found)

    def values(self, alike: Sequence[int]) -> Callable[[tuple[Any, ...], tuple[int, ...]], Values]:
        """A function that gives the numbers of a call with a key and pointers."""
        own = self._own(alike)
        parts = [f"*k[{self.first + number}][1], *k[{self.first + number}][2], " for number in own]
        return _expression(("k", "pointers"), f"(*pointers, {''.join(parts)})")

    def small(self, alike: Sequence[int]) -> str:
        """The comparison that says that no size is too large for a kernel, which guards take for granted."""
        sizes = [size_name(number, axis) for number in self._own(alike) for axis in range(self.ranks[number] or 0)]
        return f"({' | '.join(sizes)}) <= {LARGEST}" if sizes else "True"  # none is below 0; the largest is all ones

    def _own(self, alike: Sequence[int]) -> list[int]:
        return [number for number, rank in enumerate(self.ranks) if rank and alike[number] == number]


# Questions -------------------------------------------------------------------------------------------------


def _question(asked: Any) -> str:
    """What a way asks, whatever the answer: a comparison, a choice, or the value of what it settles."""
    settles = isinstance(asked, Guard) and asked.settled
    text: str = f"what is {asked.left.text}" if settles else asked.text
    return text


def _answer(asked: Any) -> Any:
    if isinstance(asked, Choice):
        return asked.name or asked.result
    return asked.right.constant if asked.settled else asked.outcome


def agree(ways: Sequence[Way], new: Way) -> bool:
    """Whether a new way can stand beside others: up to where it parts from each, both ask the same."""
    for known in ways:
        for a, b in zip(known.guards, new.guards):
            if _question(a) != _question(b):
                return False
            if _answer(a) != _answer(b):
                break
        else:
            return False  # the one goes on where the other ends
    return True


def counted(way: Way) -> Values:
    """The numbers that the library's choices answered when a way was traced, as far as they have names."""
    choices = [guard for guard in way.guards if isinstance(guard, Choice)]
    return tuple(_field(choice.result, field) for choice in choices for field in choice.numbers)


class Node:
    """A question: `ask` gives what `table` is looked up by. There the next node is, or numbers for `then` to go on with."""

    __slots__ = ("ask", "table", "then")

    def __init__(self, ask: Callable[..., Any], table: dict[Any, Any], then: Any = None) -> None:
        self.ask, self.table, self.then = ask, table, then


class Answers(dict[tuple[Any, ...], Any]):
    """What follows the answers of one of the library's choices, by the sizes that it is asked for."""

    __slots__ = ("_choice", "_follow", "_given")

    def __init__(self, choice: Choice, given: Callable[[tuple[Any, ...]], Any], follow: Callable[[Any], Any]) -> None:
        self._choice, self._given, self._follow = choice, given, follow

    def __missing__(self, sizes: tuple[Any, ...]) -> Any:
        if len(self) >= ANSWERS:
            self.clear()
        args, options = self._given(sizes)
        self[sizes] = found = self._follow(self._choice.function(*args, **dict(options)))
        return found


def _filled(value: Any, sizes: list[Expression]) -> Callable[[tuple[Any, ...]], Any]:
    """A function that puts sizes into what a choice is asked for, in the place of a trace's numbers, which join `sizes`."""
    if isinstance(value, Number):
        sizes.append(value.expression)
        return itemgetter(len(sizes) - 1)
    if not is_sized(value):
        return lambda given: value
    if type(value) is tuple:
        parts = [_filled(part, sizes) for part in value]
        return lambda given: tuple([part(given) for part in parts])
    fields = [(field.name, _filled(getattr(value, field.name), sizes)) for field in dataclasses.fields(value) if field.init]
    return lambda given: type(value)(**{name: part(given) for name, part in fields})


def _is_power(number: int | None) -> bool:
    return number is not None and number > 0 and number & (number - 1) == 0


def _conditions(guards: Sequence[Guard]) -> list[str]:
    """The comparisons of some guards, all of which are to hold; those of many numbers with one bound as one.

    Strides are multiples of a power of two, forward, and below another one: so is what has all the bits that they have.
    """
    forward = {guard.right.text for guard in guards if guard.outcome and guard.sign != "==" and guard.left.constant == 0}
    multiples: dict[int, list[str]] = {}
    limits: dict[int, list[str]] = {}
    found = []
    for guard in guards:
        left, right = guard.left, guard.right.constant
        if guard.outcome and guard.sign == "==" and right == 0 and left.sign == "%" and _is_power(left.args[1].constant):
            multiples.setdefault(left.args[1].constant, []).append(left.args[0].text)
        elif guard.outcome and guard.sign == "<" and _is_power(right) and (left.low >= 0 or left.text in forward):
            limits.setdefault(right, []).append(left.text)
        else:
            found.append(guard.text if guard.outcome else f"not {guard.text}")
    limited = {text for texts in limits.values() for text in texts}
    found = [text for text in found if not (text.startswith("(0 <= ") and text[6:-1] in limited)]
    found += [f"not ({' | '.join(dict.fromkeys(texts))}) & {divisor - 1}" for divisor, texts in multiples.items()]
    return found + [f"0 <= ({' | '.join(dict.fromkeys(texts))}) < {limit}" for limit, texts in limits.items()]


def tree(
    ways: Sequence[Way], ends: Sequence[End], names: tuple[str, ...], depth: int = 0, before: Sequence[str] = ()
) -> Node | End:
    """The ways, which are the same up to `depth` guards: what they ask next, and where they part.

    The comparisons `before` are to hold besides.
    """
    guards, together = ways[0].guards, list[Guard]()
    while depth < len(guards):
        first = guards[depth]
        parts = any(_answer(way.guards[depth]) != _answer(first) for way in ways)
        if parts or isinstance(first, Choice):
            break
        together.append(first)
        depth += 1
    if together or before:
        text = " and ".join((*before, *_conditions(together)))
        return Node(_expression(names, text), {True: tree(ways, ends, names, depth)})
    if depth == len(guards):
        return ends[0]
    if isinstance(first, Choice):
        return _chosen(first, ways, ends, names, depth)
    text = first.left.text if first.settled else first.text
    return Node(_expression(names, text), dict(_branches(ways, ends, names, depth)))


def _chosen(first: Choice, ways: Sequence[Way], ends: Sequence[End], names: tuple[str, ...], depth: int) -> Node:
    """The node of a choice: the numbers of its answer have names from here on, or ways part by it."""
    sizes: list[Expression] = []
    given = _filled((first.args, tuple(first.options.items())), sizes)
    ask = _expression(names, tuple_text(size.text for size in sizes))
    if first.name:
        fields = list(first.numbers)
        then = tree(ways, ends, (*names, *first.numbers.values()), depth + 1)
        return Node(ask, Answers(first, given, lambda found: tuple([_field(found, field) for field in fields])), then)
    branches = list(_branches(ways, ends, names, depth))
    return Node(ask, Answers(first, given, lambda found: next(node for answer, node in branches if answer == found)))


def _field(found: Any, field: str) -> Any:
    return getattr(found, field) if field else found


def _branches(ways: Sequence[Way], ends: Sequence[End], names: tuple[str, ...], depth: int) -> Iterable[tuple[Any, Any]]:
    """Yields each answer that these ways got to the guard at `depth`, with the tree of the ways that got it."""
    left = list(zip(ways, ends, strict=True))
    while left:
        answer = _answer(left[0][0].guards[depth])
        mine = [pair for pair in left if _answer(pair[0].guards[depth]) == answer]
        left = [pair for pair in left if pair not in mine]
        yield answer, tree([way for way, _ in mine], [end for _, end in mine], names, depth + 1)


# Ends ------------------------------------------------------------------------------------------------------


@frozen
class Making:
    """How torch calls the type and the device of an array that a call makes."""

    dtype: Any
    device: Any


class End:
    """What a way makes and launches. `names` are the numbers that are known where it begins.

    `run(arrays, *numbers)` gives the result in a tuple, or None where the call is to take the whole way.
    """

    def __init__(self, way: Way, makings: Sequence[Making], names: tuple[str, ...]) -> None:
        self.way = way
        choices = [guard for guard in way.guards if isinstance(guard, Choice)]
        self._names = (*names, *(name for choice in choices for name in choice.numbers.values()))
        self._makings = makings
        self._views = {each.memory: each for each in way.results if isinstance(each, ArrayView)}
        results = [made for made in way.memories if made.name in self._views]
        self._whole = [text for made in results for text in _whole(made, self._views[made.name])]
        self._device = way.launches[0].launcher.device
        self.run = self._compiled(self._lines_of_run)
        self.terms = self._compiled(self._lines_of_terms)
        """What `run` makes and launches, for numbers and the addresses of what is made: sizes, strides, bytes and fields."""

    def _compiled(self, write: Callable[[_Shared, dict[str, Any]], list[str]]) -> Callable[..., Any]:
        made = [each.name for each in self.way.memories]
        shared, given = _Shared(self._expressions(), frozenset(made)), dict[str, Any]()
        lines = write(shared, given)
        return _function(("arrays", *self._names), lines, given)

    def _expressions(self) -> list[Expression]:
        found = [size for view in self._views.values() for size in (*view.shape, *view.strides)]
        found += [bytes_of(made) for made in self.way.memories if made.name not in self._views]
        for terms in self.way.launches:
            found += terms.grid
            for value in terms.arguments:
                if isinstance(value, ArrayView):
                    found += value.data, *value.strides, *value.shape
                elif isinstance(value, Expression):
                    found.append(value)
            found += [number for each in terms.maps for number in each.numbers]
        return found

    def _lines_of_run(self, shared: _Shared, given: dict[str, Any]) -> list[str]:
        memory, new = torch_memory(self._device), [each.name for each in self.way.memories]
        given |= {"take": memory.take, "give": memory.give}
        checks = [*self._whole, *self._words(shared)]
        making = [f"if not ({' and '.join(checks)}): return None"] if checks else []
        giving: list[str] = []
        pairs = zip(self.way.memories, self._makings, strict=True)
        for is_result, run in groupby(pairs, lambda pair: pair[0].name in self._views):
            if is_result:
                for made, how in run:
                    given[f"make_{made.name}"] = tensor_maker(how.dtype, how.device, self._device)
                    making.append(f"array_{made.name} = make_{made.name}({self._geometry(made, shared)})")
                    making.append(f"{made.name} = array_{made.name}.data_ptr()")
            else:  # those that follow each other are taken together
                together = [made for made, _ in run]
                first = together[0].name
                rooms = [f"-(-{shared.text(bytes_of(made))} // {scratch.PART}) * {scratch.PART}" for made in together[:-1]]
                making += [f"room_{made.name} = {room}" for made, room in zip(together, rooms)]
                total = " + ".join([*[f"room_{made.name}" for made in together[:-1]], shared.text(bytes_of(together[-1]))])
                making.append(f"{first} = take({total})")
                making += [f"{b.name} = {a.name} + room_{a.name}" for a, b in pairwise(together)]
                giving.insert(0, f"if {first}: give({first})")
        if new:
            making.append(f"if not ({' and '.join(new)}) or ({' | '.join(new)}) & {NEW_ALIGNMENT - 1}: return None")
        launching = []
        for number, (terms, numbers) in enumerate(zip(self.way.launches, self._launches(shared, given), strict=True)):
            given[f"launch{number}"] = terms.launcher.enqueue([each.layout for each in terms.maps])
            launching.append(f"launch{number}({numbers})")
        results = [
            "None" if each is None else f"arrays[{each}]" if isinstance(each, int) else f"array_{each.memory}"
            for each in self.way.results
        ]
        result = f"return ({tuple_text(results) if self.way.several else results[0]},)"
        within = [*making, *shared.late_lines, *launching, result]
        if not giving:
            return [*shared.lines, *within]
        start = " = ".join(line.split()[1].rstrip(":") for line in giving) + " = 0"
        return [*shared.lines, start, "try:", *(f" {line}" for line in within), "finally:", *(f" {line}" for line in giving)]

    def _lines_of_terms(self, shared: _Shared, given: dict[str, Any]) -> list[str]:
        results = [f"{name!r}: ({self._geometry(NewArray(name, '', ()), shared)})" for name in self._views]
        others = [made for made in self.way.memories if made.name not in self._views]
        spans = [f"{made.name!r}: {shared.text(bytes_of(made))}" for made in others]
        launches = tuple_text(f"({text})" for text in self._launches(shared, given))
        unpacked = [f"{tuple_text(made.name for made in self.way.memories)} = arrays"] if self.way.memories else []
        result = f"return {launches}, {{{', '.join(results)}}}, {{{', '.join(spans)}}}, {' and '.join(self._whole) or True}"
        return [*shared.lines, *unpacked, *shared.late_lines, result]

    def _words(self, shared: _Shared) -> list[str]:
        """The comparison that says that strides of descriptors are words: larger ones take the whole way."""
        maps = [each for terms in self.way.launches for each in terms.maps]
        words = [number for each in maps for number in each.numbers[1 + len(each.dims) :]]
        texts = dict.fromkeys(shared.text(each) for each in words if each.high >= WORD)
        return [f"({' | '.join(texts)}) < {WORD}"] if texts else []

    def _geometry(self, made: NewArray, shared: _Shared) -> str:
        view = self._views[made.name]
        return f"{shared.tuple(view.shape)}, {shared.tuple(view.strides)}"

    def _launches(self, shared: _Shared, given: dict[str, Any]) -> list[str]:
        """For each launch its grid, the fields of its arguments, and those of its descriptors."""
        texts = []
        for terms in self.way.launches:
            fields: list[str] = []
            for value in terms.arguments:
                if isinstance(value, ArrayView):
                    fields += map(shared.text, (value.data, *value.strides, *value.shape))
                elif isinstance(value, Expression):
                    fields.append(shared.text(value))
                else:
                    fields.append(f"c{len(given)}")
                    given[fields[-1]] = value
            maps = [text for each in terms.maps for text in each.layout.fields(list(map(shared.text, each.numbers)))]
            texts.append(f"{shared.tuple(terms.grid)}, {tuple_text(fields)}, {tuple_text(map(_literal, maps))}")
        return texts


def _literal(field: str | bytes) -> str:
    return repr(field) if isinstance(field, bytes) else field


def bytes_of(memory: NewArray) -> Expression:
    """How many bytes an array takes."""
    return combined("*", count_of(memory.sizes), constant(ITEM_BYTES[memory.dtype]))


def count_of(sizes: Sequence[Expression]) -> Expression:
    """The number of elements."""
    found = constant(1)
    for size in reversed(sizes):
        found = combined("*", found, size)
    return found


def _whole(memory: NewArray, view: ArrayView) -> list[str]:
    """The comparisons that say that a result is all of what was made for it, but for those that are plain to see."""
    count, dense, step = count_of(memory.sizes), True, constant(1)
    for size, stride in zip(reversed(view.shape), reversed(view.strides)):
        dense = dense and stride.text == step.text
        step = combined("*", step, size)
    found = [] if step.text == count.text else [f"{step.text} == {count.text}"]
    if not dense:
        span = " + ".join(f"({size.text} - 1) * {stride.text}" for size, stride in zip(view.shape, view.strides))
        found.append(f"1 + {span} == {count.text}")
    return found
