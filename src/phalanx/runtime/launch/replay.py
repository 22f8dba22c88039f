"""Calls of library functions that come again: what they launched is launched once more, with other pointers.

A call is found by its options, the geometry of its arrays (types, shapes, strides, alignment, devices), and which of these
begin at one address. `CallMemory` keeps one of three things for it: a `CallReplay`, False where the call can't be repeated,
or how often it came while nobody knows yet. A call of unknown sizes launches by a plan of its kind, or takes the whole way,
which is written down as a `LaunchList`; of that a `Sketch` is kept, and of the sketch a replay is made when the call comes
again.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from phalanx.language.reader.capture import still_holds
from phalanx.runtime.device.arrays import (
    ArgumentKind,
    ArrayInfo,
    dense_strides,
    describe,
    describing_once,
    is_describing_once,
    kind_of,
)
from phalanx.runtime.device.torch_memory import bound_maker, taken_together, torch_memory
from phalanx.runtime.device.torch_tensors import PLAIN, WithoutMemory, count_versions, is_plain, refuse_gradients
from phalanx.runtime.launch.launch_list import LISTS, Captured, LaunchList, recording
from phalanx.runtime.launch.memory import LaunchMemory

ARRAYS_AT = 1
"""Where a call's arrays begin in its key, behind its options."""
PLANS = 256
"""Plans that a function has at most, for other options, types and ranks each."""
PLANNED_TIMES = 64
"""Calls with the same sizes that take a plan, before a replay is made of the next one.

A replay takes some 8 us less than a plan, and as long as 64 times that to be made.
"""
WholeWay = Callable[[tuple[Any, ...], tuple[Any, ...]], Any]
"""A function of the library, called with the options of a key and with arrays."""


class CallReplay:
    """What a call of a library function did: its launches, and what it gives back.

    Of a call that came once it has what was launched, as a `Sketch`. The second one makes launches of pointers of it. These
    are those of the arguments, then those of what the call makes by `makes`: a function gives a tensor; None in its place
    stands for so many bytes that are taken, in which several arrays start, and given back. `returned` says which sources of
    pointers come back: one, or a tuple of them. `make` is the only one of `makes`, where what it makes is the result.
    """

    __slots__ = ("_memory", "captured", "launches", "make", "makes", "returned", "sketch")

    def __init__(self, sketch: Sketch) -> None:
        self.sketch: Sketch | None = sketch
        self.captured: Captured = sketch.captured
        self.launches: tuple[Callable[[tuple[int, ...]], None], ...] = ()
        self.make: Callable[[], Any] | None = None
        self.makes: list[tuple[Callable[[], Any] | None, int, list[int]]] = []
        self.returned: int | tuple[int | None, ...] = -1

    def is_current(self) -> bool:
        """Whether the constants that its kernels captured still have the values they had."""
        return all(still_holds(source, name, value) for source, name, value in self.captured)

    def repeat(
        self, memory: CallMemory, key: Any, arrays: tuple[Any, ...], pointers: tuple[int, ...], call: WholeWay
    ) -> Any:
        """The call once more, with arguments that begin at these addresses; `call` is the whole way to it."""
        sketch = self.sketch
        if sketch is not None and not self._finish(sketch):
            memory.keep(key, False)
            return call(key, arrays)
        sources: list[Any] = [*arrays]
        places = [*pointers]
        taken: list[int] = []
        try:
            for make, total, starts in self.makes:
                if make is None:
                    place = self._memory.take(total)
                    taken.append(place)
                    places += [place + start for start in starts]
                    sources += starts
                else:
                    made = make()
                    sources.append(made)
                    places.append(made.data_ptr())
            pointers = tuple(places)
            for launch in self.launches:
                launch(pointers)
        finally:
            for place in taken:
                self._memory.give(place)
        returned = self.returned
        if isinstance(returned, int):
            return sources[returned]
        return tuple([None if number is None else sources[number] for number in returned])

    def _finish(self, sketch: Sketch) -> bool:
        """Makes launches of pointers of what was launched; False where it was more than that."""
        found = sketch.sources()
        if found is None:
            return False
        self.returned, numbers = found
        arguments = len(sketch.pointers)
        kept = {self.returned} if isinstance(self.returned, int) else set(self.returned)
        makes: list[tuple[Callable[[], Any] | None, int, list[int]]] = []
        for is_kept, run in groupby(enumerate(sketch.made, arguments), lambda pair: pair[0] in kept):
            if is_kept:
                makes += [(bound_maker(x.dtype, x.device, x.info.device, x.geometry), 0, []) for _, x in run]
            else:
                makes.append((None, *taken_together([span_of(x.info) for _, x in run])))
        self.makes = makes
        self._memory = torch_memory(sketch.launches[0].launcher.device)
        self.launches = tuple(
            [
                one.launcher.bind(one.grid, one.scalars, one.infos, mine)
                for one, mine in zip(sketch.launches, numbers, strict=True)
            ]
        )
        if len(makes) == 1 and self.returned == arguments:
            self.make = makes[0][0]
        self.sketch = None  # last: another thread may be about to do the same
        return True


class Made(NamedTuple):
    """A tensor that a call made: its description, and how torch calls its type and its device."""

    info: ArrayInfo
    dtype: Any
    device: Any

    @property
    def geometry(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Its sizes and strides as torch counts them: bytes, where elements share them."""
        info = self.info.in_bytes
        return info.shape, info.strides


class Sketch:
    """What a call of a library function launched, made and gave back, without any array.

    `pointers` are the addresses of the arguments, 0 for None. `given` has for each result the number of the argument
    that it is, or its description, or None for None; `several` says whether they are a tuple. Nothing is worked out: most
    sizes come once.
    """

    __slots__ = ("given", "infos", "key", "launches", "made", "pointers", "several")

    def __init__(self, key: Any, record: LaunchList, arrays: tuple[Any, ...], result: Any) -> None:
        self.key = key
        self.launches = record.launches
        self.infos = [describe(x) for x in arrays]
        self.pointers = tuple([0 if info is None else info.pointer for info in self.infos])
        self.made = [_made(x) for x in record.made]
        self.several = type(result) is tuple
        self.given: list[int | Made | None] = []
        for x in result if self.several else (result,):
            place = _place(x, arrays)
            self.given.append(None if x is None else _made(x) if place is None else place)

    @property
    def captured(self) -> Captured:
        """The constants that all kernels captured."""
        return tuple([found for one in self.launches for found in one.captured])

    def sources(self) -> tuple[int | tuple[int | None, ...], list[list[int | None]]] | None:
        """The sources of pointers that are given back, and those that each launch takes; None where there are others.

        The sources are the arguments, then what was made. Of that, a result has the place, in its own shape.
        """
        first = len(self.pointers)
        sources = {pointer: number for number, pointer in enumerate(self.pointers) if pointer}
        for number, made in enumerate(self.made, first):
            if not made.info.pointer or made.info.pointer in sources:
                return None
            sources[made.info.pointer] = number
        room = [span_of(made.info) for made in self.made]
        returned: list[int | None] = []
        for given in self.given:
            place = given if isinstance(given, int) else None
            if isinstance(given, Made):
                place = sources.get(given.info.pointer, -1)
                if place < first or span_of(given.info) != room[place - first] or not is_whole(given.info):
                    return None
                self.made[place - first] = given
            returned.append(place)
        numbers: list[list[int | None]] = []
        for one in self.launches:
            mine = [None if info is None else sources.get(info.pointer, -1) for info in one.infos]
            for info, source in zip(one.infos, mine):
                if info is None or source is None:
                    continue
                if source < 0 or (source >= first and span_of(info) > room[source - first]):
                    return None  # what is no source, or more than was made
            numbers.append(mine)
        gives = tuple(returned) if self.several else returned[0]
        return None if gives is None else (gives, numbers)


def remembered(*arrays: str, writes: Mapping[str, str] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Lets calls of a library function with torch tensors of a known geometry repeat in a few microseconds.

    `arrays` name the parameters that take arrays or None; the others are options, hashable and compared by value. `writes`
    names those that it writes, each with the condition under which it does: torch counts a new version of them. The
    function must do nothing to memory but launch kernels, and what it does must depend on the options and on the
    arrays' types, shapes, strides, alignment (mod 16), devices and on which of them share an address alone. A call is
    remembered if every array that was launched begins where an argument does, or one that `record_array` was told of: so
    not where one was copied first, nor in the simulator. It gives back an array, or a tuple of arrays and None, each an
    argument or all of such a new one. CuPy and
    NumPy arrays take the whole way. For functions of the library; no kernel, no hardware. Example::

        @remembered("x", "weight")
        def rms_norm(x, weight=None, eps=1e-6): ...
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        memory = CallMemory()
        made: Any = functools.wraps(function)(_wrapper(function, arrays, writes or {}, memory))
        made.remembered = memory.kept
        made.memory = memory
        return made

    return decorate


def operator_of_torch(function: Any, operator: Callable[..., Any]) -> None:
    """Says what a call of a `remembered` function is on tensors that torch traces: a call of `operator`.

    It takes the same arguments. torch.compile reads it in the place of the function; eager calls go to it with tensors
    that have no memory. For `phalanx.kernels`. Example: ``operator_of_torch(softmax, lambda x: px.torch.softmax(x))``.
    """
    function._torchdynamo_inline = operator
    function.memory.operator = operator


def _wrapper(
    function: Callable[..., Any], arrays: Sequence[str], writes: Mapping[str, str], memory: CallMemory
) -> Any:
    """The function with the same signature that looks first, written as straight-line code: see `matcher`."""
    parameters = inspect.signature(function).parameters
    options = [name for name in parameters if name not in arrays]
    namespace: dict[str, Any] = {
        "__name__": __name__, "function_": _describing_once(function, memory), "kept_": memory.kept, "memory_": memory,
        "lists_": LISTS, "refuse_gradients_": refuse_gradients, "modules_": sys.modules, "plain_": PLAIN,
        "is_plain_": is_plain, "count_versions_": count_versions,
    }  # fmt: skip
    signature, passed = _signature(parameters, namespace)
    tracked = [f"{name} is not None and {name}.requires_grad" for name in arrays]
    # Of many arrays none is asked where torch records nothing.
    asked = "modules_['torch'].is_grad_enabled() and (" if len(arrays) > 3 else ""
    pointers = {name: f"pointer_{name}" for name in arrays}
    others = [name for name in options if parameters[name].kind is inspect.Parameter.VAR_KEYWORD]
    named = [name for name in options if name not in others]
    fields = [_options_text(named, others, namespace)]
    for number, name in enumerate(arrays):
        geometry = (
            f"({name}.dtype, {name}.shape, {name}.stride(), (({pointers[name]} := {name}.data_ptr()) or no_memory_) & 15, "
            f"{name}.get_device(), {_shared_text(pointers[name], [pointers[each] for each in arrays[:number]])})"
            f" if {name}.__class__ in plain_ or is_plain_({name}.__class__) else no_tensor_"  # there is no such name
        )
        fields.append(f"None if {name} is None else {geometry}")
    call = f"function_({', '.join(passed)})"
    everything = "".join(f"{name}, " for name in arrays)
    # Not by a function within the other: its variables would be cells, which each call makes and drops.
    places = {name: f"options_[{2 * number}]" for number, name in enumerate([*named, *others])}
    places |= {name: f"arrays[{number}]" for number, name in enumerate(arrays)}
    again = ", ".join([_passed(text, places) for text in passed])
    text = "\n".join(
        [
            "def again_(key, arrays):",
            "    options_ = defaults_ if key[0] is None else key[0]",
            f"    return function_({again})",
            f"def {function.__name__}({', '.join(signature)}):",
            "    if lists_:  # somebody writes down what is launched: a replay would not be seen",
            f"        return {call}",
            f"    {' = '.join(pointers.values())} = 0",
            "    try:",
            f"        key = ({', '.join(fields)},)",
            f"        tracked = {asked}{' or '.join(tracked)}{')' if asked else ''}",
            "        known = len(kept_)",
            "        found = kept_.setdefault(key, 0)  # a look-up and an entry for the price of one",
            "    except Exception:  # no torch tensors, or an option that can't be looked up; errors of the call come alone",
            "        found = tracked = False",
            "    if tracked:",
            "        if found.__class__ is int: kept_.pop(key, None)",
            f"        refuse_gradients_({tuple(arrays)!r}, ({everything}))",
            *[f"    if {condition}: count_versions_(({name},), (0,))" for name, condition in writes.items()],
            "    if found is False:",
            f"        return {call}",
            f"    places = ({', '.join(pointers.values())},)",
            "    if found.__class__ is int:  # nobody knows yet what becomes of it",
            f"        return memory_.unknown(key, found, len(kept_) != known, ({everything}), places, again_)",
            "    if found.captured and not found.is_current():",
            "        kept_.pop(key, None)",
            f"        return {call}",
            "    make = found.make",
            "    if make is None:",
            f"        return found.repeat(memory_, key, ({everything}), places, again_)",
            "    result = make()",
            f"    pointers = ({', '.join(pointers.values())}, result.data_ptr())",
            "    for launch in found.launches:",
            "        launch(pointers)",
            "    return result",
        ]
    )
    # A file of this package, as the search for the caller's line sees it.
    exec(compile(text, os.path.join(os.path.dirname(__file__), f"<calls of {function.__name__}>"), "exec"), namespace)
    return namespace[function.__name__]


def _shared_text(pointer: str, before: Sequence[str]) -> str:
    """A key's field as text: the argument before it with which an array shares its address, None for none.

    A launch knows its arrays by their addresses. Where two arguments share one, it can't be told which of them a launch
    took: either will do for calls that share as many, and for no others.
    """
    if not before:
        return "None"
    alone = " and ".join([f"{pointer} != {other}" for other in before])
    return f"None if {alone} else ({', '.join(before)},).index({pointer})"


def _options_text(named: Sequence[str], others: Sequence[str], namespace: dict[str, Any]) -> str:
    """The options of a call as one field of its key, each with its type; None where all of them were left out.

    So most calls have none to build, to hash and to compare. The namespace has the defaults, and gets them as such a field.
    """
    every = [f"{name}, {name}.__class__, " for name in named]
    every += [f"tuple({name}.items()), tuple(map(type, {name}.values())), " for name in others]
    left_out = [f"{name} is default_{name}" for name in named if f"default_{name}" in namespace]
    left_out += [f"not {name}" for name in others]
    if len(left_out) < len(every):  # one has no default
        return f"({''.join(every)})"
    defaults = [namespace[f"default_{name}"] for name in named]
    namespace["defaults_"] = (*[part for value in defaults for part in (value, type(value))], *[()] * (2 * len(others)))
    return f"None if {' and '.join(left_out)} else ({''.join(every)})" if every else "None"


def _signature(parameters: Mapping[str, inspect.Parameter], namespace: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Parameters as they are written, with their defaults in the namespace, and how each is passed on."""
    signature: list[str] = []
    passed: list[str] = []
    starred = False
    for name, parameter in parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            signature.append(f"**{name}")
            passed.append(f"**{name}")
            continue
        by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if by_name and not starred:
            signature.append("*")
            starred = True
        if parameter.default is inspect.Parameter.empty:
            signature.append(name)
        else:
            namespace[f"default_{name}"] = parameter.default
            signature.append(f"{name}=default_{name}")
        passed.append(f"{name}={name}" if by_name else name)
    return signature, passed


def _passed(text: str, places: Mapping[str, str]) -> str:
    """How an argument is passed on that is not a variable, but in some place."""
    if text.startswith("**"):
        return f"**dict({places[text[2:]]})"
    name, named, _ = text.partition("=")
    return f"{name}={places[name]}" if named else places[name]


def _describing_once(function: Callable[..., Any], memory: CallMemory) -> Callable[..., Any]:
    """The function, which passes its arrays through several hands, with each of them read once, or torch's operator."""

    def call(*args: Any, **options: Any) -> Any:
        try:
            if is_describing_once():
                return function(*args, **options)
            with describing_once():
                return function(*args, **options)
        except WithoutMemory:
            if memory.operator is None:
                raise
        except RuntimeError:
            for x in (*args, *options.values()):
                describe(x)  # torch's word that a tensor has no address becomes ours
            raise
        return memory.operator(*args, **options)

    return call


class CallMemory(LaunchMemory):
    """What is kept of the calls of one function of the library, and its plans, by options, types and ranks of arrays.

    An integer in the place of a replay says how often a plan launched a call of that geometry again. `newest` is the plan
    that was used last, with its key among the plans. `operator` is what torch's tracers get in the place of the function.
    """

    __slots__ = ("newest", "operator", "plans")

    def __init__(self) -> None:
        super().__init__()
        self.plans: dict[Any, Any] = {}
        self.newest: tuple[Any, Any] = (None, None)
        self.operator: Callable[..., Any] | None = None

    def clear(self) -> None:
        super().clear()
        self.plans.clear()
        self.newest = (None, None)

    def unknown(
        self, key: Any, times: int, is_new: bool, arrays: tuple[Any, ...], pointers: tuple[int, ...], call: WholeWay
    ) -> Any:
        """A call that is no replay yet: by a plan of its kind, or the whole way, which is remembered."""
        kept = self.kept
        if len(kept) > self.limit:
            kept.clear()
            kept[key] = times
        kind = (key[0], *[None if each is None else (each[0], len(each[1]), each[4]) for each in key[ARRAYS_AT:]])
        former, plan = self.newest
        if kind != former:
            plan = self.plans.get(kind)
            self.newest = kind, plan
        if plan is not None and times < PLANNED_TIMES:
            planned = plan.call(key, pointers, arrays)
            if planned is not None:
                if not is_new:
                    kept[key] = times + 1
                return planned[0]
        kept.pop(key, None)
        if any([x is not None and not pointer for x, pointer in zip(arrays, pointers, strict=True)]):
            return call(key, arrays)  # an empty array lies nowhere: this time, not the next
        with describing_once(), recording() as record:  # once for the call and for what is kept of it
            result = call(key, arrays)
            if not (record.launches and not record.refused and _is_exact(key) and _are_tensors(record.made, result)):
                self.keep(key, False)
                return result
            sketch = Sketch(key, record, arrays, result)
        self.keep(key, CallReplay(sketch))
        if plan is None and _PLANNERS:
            if len(self.plans) >= PLANS:
                self.plans.clear()
            plan = self.plans.setdefault(kind, _PLANNERS[-1](ARRAYS_AT))
            self.newest = kind, plan
        if plan is not None:
            plan.learn(sketch, lambda *given: call(key, given))
        return result


_PLANNERS: list[Callable[[int], Any]] = []


def plan_calls_with(planner: Callable[[int], Any]) -> None:
    """Says who makes the plans of calls: `runtime.planning`, which runs functions and so stands above this file."""
    _PLANNERS.append(planner)


def _is_exact(key: tuple[Any, ...]) -> bool:
    """Whether equal keys mean equal options: not so for zeros, of either sign, and for numbers that equal nothing."""
    return not any([isinstance(option, float) and (option == 0 or option != option) for option in key[0] or ()])


def _are_tensors(made: list[Any], result: Any) -> bool:
    """Whether all that a call made and gives back are torch tensors, but for None."""
    given = (*made, *result) if type(result) is tuple else (*made, result)
    return all([x is None or kind_of(x) is ArgumentKind.TORCH for x in given])


def _made(x: Any) -> Made:
    info = describe(x)
    assert info is not None
    return Made(info, x.dtype, x.device)


def _place(x: Any, arrays: tuple[Any, ...]) -> int | None:
    """The number of the argument that something is, the last one of several: results come last. None: it is none."""
    for number in range(len(arrays) - 1, -1, -1):
        if arrays[number] is x:
            return None if x is None else number
    return None


def is_whole(info: ArrayInfo) -> bool:
    """Whether an array's elements fill its memory, in any order of its axes."""
    if info.strides == dense_strides(info.shape):
        return True
    step = 1
    for stride, size in sorted((stride, size) for size, stride in zip(info.shape, info.strides) if size != 1):
        if stride != step:
            return False
        step *= size
    return True


def span_of(info: ArrayInfo) -> int:
    """Bytes from an array's first element to behind its last one."""
    last = 1
    for size, stride in zip(info.shape, info.strides):
        last += (size - 1) * stride
    return info.bytes_of(last)
