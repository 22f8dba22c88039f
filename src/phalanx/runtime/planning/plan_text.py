"""Plans as Python text: one function that compares, chooses, makes results and launches, with the sizes as its locals.

A loop over guards or a walk over expressions would take longer than all the rest of a call. So a tree of ways is written as
straight-line code: what all ways compare first comes first, and ways part where they differ.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.frozen import frozen
from phalanx.runtime.device.arrays import ArrayInfo
from phalanx.runtime.exporting.choices import Choice, is_sized
from phalanx.runtime.exporting.expressions import LARGEST, Expression, combined, constant
from phalanx.runtime.exporting.numbers import Guard, Number
from phalanx.runtime.exporting.traced_array import NEW_ALIGNMENT
from phalanx.runtime.exporting.tracing import Viewed
from phalanx.runtime.planning.ways import LaunchTerms, NotPlanned, Way, pointer_name, size_name, stride_name

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
    """A way that calls take, and how torch makes its new arrays."""

    way: Way
    makings: tuple[Making, ...]


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
            return _tuple(self.text(part, sizes) for part in value)
        fields = [field for field in dataclasses.fields(value) if field.init]
        given = ", ".join(f"{field.name}={self.text(getattr(value, field.name), sizes)}" for field in fields)
        return f"{self.name(type(value))}({given})"


def _texts(expressions: Any) -> str:
    return _tuple(each.text for each in expressions)


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
            self._ask = eval(self._text, self._scope)
        self[sizes] = found = self._ask(sizes)
        return found


def _tuple(texts: Any) -> str:
    return "(" + "".join(f"{text}, " for text in texts) + ")"


def _unpacked(ranks: Sequence[int | None], first: int) -> list[str]:
    """Lines that give sizes, strides and pointers their names; `first` is the first array's place in the key."""
    lines, sizes = [], []
    for number, rank in enumerate(ranks):
        if rank is None:
            continue
        lines.append(f"{pointer_name(number)} = pointers[{number}]")
        if rank:
            shape = [size_name(number, axis) for axis in range(rank)]
            strides = [stride_name(number, axis) for axis in range(rank)]
            lines.append(f"_, {_tuple(shape)}, {_tuple(strides)}, _, _ = key[{first + number}]")
            sizes += shape
    if sizes:
        lines.append(f"if max({', '.join(sizes)}, 0) > {LARGEST}: return None")
    return lines


# Comparisons ---------------------------------------------------------------------------------------------------


def _condition(guard: Guard) -> str:
    return guard.text if guard.outcome else f"not {guard.text}"


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

    `ranks` has the number of axes of each array, None for None; `first` is where the first array stands in keys.
    """

    def __init__(self, ranks: Sequence[int | None], first: int, torch: Any) -> None:
        self.ranks, self.first, self.torch = tuple(ranks), first, torch
        self.launches: dict[int, list[Any]] = {}
        self.functions: dict[tuple[int, ...], Callable[..., Any]] = {}

    def function(self, ways: Sequence[KnownWay], depth: int = 0) -> Callable[..., Any]:
        """A function of a call's key, pointers and arrays: launches, and gives the way that it took and the result.

        None where the call takes none of the ways: then nothing was launched. The ways are known to be the call's up to
        `depth` guards.
        """
        key = (depth, *map(id, ways))
        found = self.functions.get(key)
        if found is None:
            scope = _Scope()
            writer = _Writer(scope, self)
            for asked in ways[0].way.guards[:depth]:
                if isinstance(asked, Choice) and asked.name:
                    writer.choice(asked, " ")
            writer.tree(list(ways), depth, " ")
            unpacked = [f" {line}" for line in _unpacked(self.ranks, self.first)]
            scope.names |= {"empty": self.torch.empty, "empty_strided": self.torch.empty_strided}
            found = _compiled(["def plan(key, pointers, arrays):", *unpacked, *writer.lines], scope, "plan")
            if len(self.functions) > 4 * MANY_WAYS * len(ways):
                self.functions.clear()  # of fewer ways
            self.functions[key] = found
        return found

    def launches_of(self, known: KnownWay) -> list[Any]:
        """The launches of a way, each with a parameter buffer of its own."""
        found = self.launches.get(id(known))
        if found is None:
            found = [terms.launcher.packing([each.fixed for each in terms.maps]) for terms in known.way.launches]
            self.launches[id(known)] = found
        return found


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

    def __init__(self, scope: _Scope, plan: PlanWriter | None = None) -> None:
        self.scope, self.plan = scope, plan
        self.lines: list[str] = []
        self.asked = 0

    def tree(self, ways: list[KnownWay], depth: int, indent: str) -> None:
        """The ways, which are the same up to `depth` guards: what they ask next, and where they part."""
        together: list[str] = []
        while depth < len(ways[0].way.guards):
            first = ways[0].way.guards[depth]
            others = [known for known in ways if _answer(first) != _answer(known.way.guards[depth])]
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
                self.lines.append(f"{indent}if {_condition(nested[0].way.guards[depth])}:")
                self.tree(nested, depth + 1, indent + " ")
                self.tree(rest, depth + 1, indent)
                return
            else:
                together.append(_condition(first))
            depth += 1
        self.conditions(together, indent)
        self.end(ways[0], indent)

    def conditions(self, together: list[str], indent: str) -> None:
        if together:
            self.lines.append(f"{indent}if not ({' and '.join(together)}): return None")

    def choice(self, first: Choice, indent: str) -> str:
        """Asks for a choice; gives the name of what comes of it, and names its numbers where these have names."""
        name = first.name or f"c{self.asked}"
        self.asked += 1
        sizes: list[str] = []
        given = [self.scope.text(value, sizes) for value in first.args]
        given += [f"{option}={self.scope.text(value, sizes)}" for option, value in first.options.items()]
        ask = self.scope.name(Asked(f"lambda q: {self.scope.name(first.function)}({', '.join(given)})", self.scope.names))
        self.lines += [
            f"{indent}try: {name} = {ask}[{_tuple(sizes)}]",
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
            apart.append((answer, self.plan.function(mine, depth + 1)))
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
            self.tree(mine, depth + 1, indent + " ")
        self.lines.append(f"{indent}return None")

    # Launches --------------------------------------------------------------------------------------------------

    def end(self, known: KnownWay, indent: str) -> None:
        """Makes what a way makes, launches, and gives the way back with the result."""
        way, made = known.way, []
        for memory, making in zip(way.memories, known.makings, strict=True):
            result = next((each for each in way.results if isinstance(each, Viewed) and each.memory == memory.name), None)
            shape, strides = (memory.sizes, None) if result is None else (result.shape, result.strides)
            if strides is not None and [each.text for each in strides] == [each.text for each in _dense(shape)]:
                strides = None
            how = f"dtype={self.scope.name(making.dtype)}, device={self.scope.text(making.device)}"
            if strides is None:
                text = f"empty({_texts(shape)}, {how})"
            else:
                text = f"empty_strided({_texts(shape)}, {_texts(strides)}, {how})"
                span = " + ".join(f"({size.text} - 1) * {step.text}" for size, step in zip(shape, strides))
                self.lines.append(f"{indent}if 1 + {span} != {_count(memory.sizes).text}: return None")
            if result is not None and _count(shape).text != _count(memory.sizes).text:
                self.lines.append(f"{indent}if {_count(shape).text} != {_count(memory.sizes).text}: return None")
            array = f"array_{memory.name}"
            made.append(memory.name)
            self.lines += [f"{indent}{array} = {text}", f"{indent}{memory.name} = {array}.data_ptr()"]
        if made:
            wrong = " or ".join(f"not {name} or {name} % {NEW_ALIGNMENT}" for name in made)
            self.lines.append(f"{indent}if {wrong}: return None")
        assert self.plan is not None
        for terms, packed in zip(way.launches, self.plan.launches_of(known), strict=True):
            launch = self.scope.name(packed)
            self.lines.append(f"{indent}{launch}({_texts(terms.grid)}, {self.fields(terms)}, {_maps(terms)})")
        given = ["None" if each is None else f"arrays[{each}]" if isinstance(each, int) else f"array_{each.memory}"
                 for each in way.results]  # fmt: skip
        self.lines.append(f"{indent}return {self.scope.name(known)}, {_tuple(given) if way.several else given[0]}")

    def fields(self, terms: LaunchTerms) -> str:
        """What is packed: of an array its pointer, strides and sizes."""
        found: list[str] = []
        for value in terms.arguments:
            if isinstance(value, Viewed):
                found += [each.text for each in (value.data, *value.strides, *value.shape)]
            else:
                found.append(self.scope.text(value))
        return _tuple(found)


def _maps(terms: LaunchTerms) -> str:
    return _tuple(
        f"({each.pointer.text}, {_texts(each.dims)}, {_texts(each.byte_strides)})"
        for each in terms.maps
    )


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
        *([f" {_tuple(names)} = new"] if names else []), *writer.lines,
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
