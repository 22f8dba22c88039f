"""What calls left behind, so that the next one like them need not be worked out again.

There is one memory for each kernel and one for each function of the library. A kernel's launch is found again by its
constants and by the geometry of its arguments (dtypes, shapes, strides, alignment, device), a library call by its options,
the same geometry, and which of its arguments begin at one address. What is found is a launcher whose parameters are packed
already, but for the pointers and numbers that changed. `forget` empties all memories.

`Memory` holds what is kept. `Replay` is one launch of a kernel with what must still hold for it to be the same launch;
`CallReplay` is a call of a library function: several launches and the tensor it returns. `Recording` collects what a thread
launches, from which a `CallReplay` is made.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from phalanx.language.kernel import Kernel
from phalanx.language.reader.capture import still_holds
from phalanx.runtime.device import torch_memory as scratch
from phalanx.runtime.device.arrays import (
    ArgumentKind,
    ArrayInfo,
    dense_strides,
    describe,
    describing_once,
    is_describing_once,
    kind_of,
    refuse_gradients,
)
from phalanx.runtime.device.torch_memory import TorchMemory, torch_memory

if TYPE_CHECKING:
    from phalanx.runtime.launch.launcher import Launcher
    from phalanx.runtime.launch.overlaps import Watched
    from phalanx.runtime.launch.routes import Route
    from phalanx.runtime.launch.specialise import Specialisation

Captured = tuple[Any, ...]
"""Constants that a kernel captured from a user's code: who asks, the name, and the value it had."""
GEOMETRIES = 1024
"""What a memory keeps: batches of a model in use come in many sizes. One more, and they are forgotten."""
ARRAYS_AT = 1
"""Where a call's arrays begin in its key, behind its options."""
PLANS = 256
"""Plans that a function has at most, for other options, types and ranks each."""
WholeWay = Callable[[tuple[Any, ...], tuple[Any, ...]], Any]
"""A function of the library, called with the options of a key and with arrays."""
_MEMORIES: WeakSet[Memory] = WeakSet()


class Memory:
    """What is kept of one kernel or of one function of the library. For any thread.

    `kept` has replays by what a call is looked up by: False stands for a call that can't be repeated, None for a launch that
    came once, and shares a launcher with others that did. `latest` has the last launch of a kernel with given constants,
    which is tried before anything is looked at; `specialisations` its kernels as read, by types and constants; `routes`
    those that were launched, by the same and by device. `plans` has those of a library function, by its options and the
    types and ranks of its arrays; `newest` is the function of the one that was used last, which says None to calls that are
    not its own. `bound` is the kernel's own table of what `kernel[grid]` gave.
    """

    __slots__ = ("__weakref__", "bound", "kept", "latest", "limit", "newest", "plans", "routes", "specialisations")

    def __init__(self, limit: int = GEOMETRIES, bound: dict[Any, Any] | None = None) -> None:
        self.limit = limit
        self.kept: dict[Any, Any] = {}
        self.latest: dict[tuple[Any, ...], Replay] = {}
        self.specialisations: dict[Any, Specialisation] = {}
        self.routes: dict[Any, Route] = {}
        self.plans: dict[Any, Any] = {}
        self.newest: Callable[..., Any] | None = None
        self.bound = {} if bound is None else bound
        _MEMORIES.add(self)

    def keep(self, key: Any, value: Any) -> None:
        """Remembers `value` under `key`; where there are too many already, they are forgotten first."""
        if len(self.kept) >= self.limit and key not in self.kept:
            self.kept.clear()
        self.kept[key] = value

    def clear(self) -> None:
        """Forgets everything."""
        for table in (self.kept, self.latest, self.specialisations, self.routes, self.plans):
            table.clear()
        self.newest = None
        for bound in self.bound.values():
            bound.last = None
        self.bound.clear()


def memory_of(kernel: Kernel) -> Memory:
    """What is kept of a kernel; it goes when the kernel goes."""
    found = kernel.memory
    if found is None:
        found = Memory(bound=kernel.bound)
        object.__setattr__(kernel, "memory", found)
    return found


def forget() -> None:
    """Empties the memories of all kernels and functions, so that their next calls read and load everything anew."""
    for memory in list(_MEMORIES):
        memory.clear()


class Replay:
    """One launch of a kernel on a GPU, and what must still hold for another one to be like it.

    `given` are the constants that were passed, as an exact key where equal ones may mean different things; `none_at` says
    where the arguments were None. `fitting_grid` is what `px.auto` was as the grid; None where a grid was given. `watched`:
    arguments that may not share memory.
    """

    __slots__ = (
        "captured", "cluster", "constants", "fitting_grid", "given", "kinds", "launcher", "none_at", "specialisation",
        "watched",
    )

    def __init__(
        self, specialisation: Specialisation, launcher: Launcher, none_at: tuple[int, ...], kinds: tuple[type, ...],
        given: Any, fitting_grid: tuple[int, int, int] | None = None, watched: Watched | None = None,
    ) -> None:
        self.specialisation = specialisation
        self.launcher = launcher
        self.none_at = none_at
        self.kinds = kinds
        self.given = given
        self.fitting_grid = fitting_grid
        self.watched = watched
        self.cluster = specialisation.reading.function.cluster
        self.captured = specialisation.reading.captured
        self.constants = specialisation.constants


# What a thread launches ------------------------------------------------------------------------------------


class Recording:
    """What one thread launches on GPUs, and the arrays that the library makes for it meanwhile.

    `refused`: some of it was no plain launch of torch tensors on a GPU, which a list can't say.
    """

    __slots__ = ("launches", "made", "refused", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.launches: list[Recorded] = []
        self.made: list[Any] = []
        self.refused = False


class Recorded(NamedTuple):
    """A launch: a launcher of the kernel, the constants that this captured, and its arguments but for None.

    `scalars` has None for arrays, `infos` for all else. No array is kept.
    """

    launcher: Launcher
    captured: Captured
    grid: tuple[int, int, int]
    scalars: list[Any]
    infos: list[ArrayInfo | None]


RECORDINGS: list[Recording] = []


@contextmanager
def recording() -> Iterator[Recording]:
    """Collects the launches of this thread. While anyone records, every launch goes the whole way."""
    made = Recording()
    RECORDINGS.append(made)
    try:
        yield made
    finally:
        RECORDINGS.remove(made)


def is_recorded() -> bool:
    """Whether somebody collects the launches of this thread."""
    thread = threading.get_ident() if RECORDINGS else 0
    for one in RECORDINGS:  # noqa: SIM110  (a third of what `any` takes)
        if one.thread == thread:
            return True
    return False


def record_launch(
    launcher: Launcher, captured: Captured, grid: tuple[int, int, int], values: list[Any], infos: list[ArrayInfo | None]
) -> None:
    """Adds a launch to the recordings of this thread."""
    scalars: list[Any] = []
    for x, info in zip(values, infos):
        scalars.append(x if info is None else None)
        if info is not None and kind_of(x) is not ArgumentKind.TORCH:
            refuse_recording()
    found = Recorded(launcher, captured, grid, scalars, infos)
    for one in RECORDINGS:
        if one.thread == threading.get_ident():
            one.launches.append(found)


def record_array(made: Any) -> Any:
    """The array, noted in the recordings of this thread: a new one, of which launches alone write what is read.

    The library makes its results, and what passes between its kernels, through it: calls that come again make such arrays
    anew. Example: ``record_array(torch.empty(shape, device=x.device))``.
    """
    for one in RECORDINGS:
        if one.thread == threading.get_ident():
            one.made.append(made)
    return made


def refuse_recording() -> None:
    """Tells the recordings of this thread that it ran something that they can't repeat."""
    for one in RECORDINGS:
        if one.thread == threading.get_ident():
            one.refused = True


@contextmanager
def unrecorded() -> Iterator[None]:
    """Launches of this thread meanwhile are no part of what is recorded, and go the short ways: measurements."""
    mine = [one for one in RECORDINGS if one.thread == threading.get_ident()]
    for one in mine:
        RECORDINGS.remove(one)
    try:
        yield
    finally:
        RECORDINGS.extend(mine)


# Calls of library functions --------------------------------------------------------------------------------


class CallReplay:
    """What a call of a library function did: its launches, and what it gives back.

    Of a call that came once it has what was launched, as a `Sketch`. The second one makes launches of pointers of it.
    `make` then allocates the one tensor that the call made, the last source of pointers and its result, after the argument
    number `like` where they are alike: torch is quickest then. Otherwise `makes` say of what it made, the last sources, how
    that is allocated: by a function, after an argument if there is a number beside it, or as so many bytes where None is in
    its place, which `memory` has and gets back; `behind`: so many bytes behind the source before. `returned` says which
    sources come back: one, or a tuple of them.
    """

    __slots__ = ("captured", "launches", "like", "make", "makes", "memory", "returned", "sketch")

    def __init__(self, sketch: Sketch) -> None:
        self.sketch: Sketch | None = sketch
        self.captured: Captured = sketch.captured
        self.launches: tuple[Callable[[tuple[int, ...]], None], ...] = ()
        self.make: Callable[..., Any] | None = None
        self.like: int | None = None
        self.makes: tuple[tuple[Callable[..., Any] | None, int | None], ...] = ()
        self.memory: TorchMemory | None = None
        self.returned: int | tuple[int | None, ...] = -1

    def is_current(self) -> bool:
        """Whether the constants that its kernels captured still have the values they had."""
        return all(still_holds(source, name, value) for source, name, value in self.captured)

    def repeat(self, key: Any, arrays: tuple[Any, ...], pointers: tuple[int, ...], call: WholeWay) -> Any:
        """The call once more, with arguments that begin at these addresses; `call` is the whole way to it."""
        sketch = self.sketch
        if sketch is not None and not self._finish(sketch, len(arrays)):
            sketch.memory.keep(key, False)
            return call(key, arrays)
        sources, places, memory = [*arrays], [*pointers], self.memory
        try:
            for make, like in self.makes:
                if make is None:
                    places.append(memory.take(like))  # type: ignore[union-attr, arg-type]
                    sources.append(None)
                elif make is behind:
                    places.append(places[-1] + like)  # type: ignore[operator]
                    sources.append(None)
                else:
                    made = make() if like is None else make(arrays[like])
                    places.append(made.data_ptr())
                    sources.append(made)
            pointers = tuple(places)
            for launch in self.launches:
                launch(pointers)
        finally:
            if memory is not None:
                for pointer, (make, _) in zip(places[len(arrays) :], self.makes):
                    if make is None:
                        memory.give(pointer)
        returned = self.returned
        if isinstance(returned, int):
            return sources[returned]
        return tuple([None if number is None else sources[number] for number in returned])

    def _finish(self, sketch: Sketch, arguments: int) -> bool:
        """Makes launches of pointers of what was launched; False where it was more than that."""
        found = sketch.sources()
        if found is None:
            return False
        self.returned, numbers = found
        kept = {self.returned} if isinstance(self.returned, int) else set(self.returned)
        makes: list[tuple[Callable[..., Any] | None, int | None]] = []
        first = None  # of some that follow each other, and are taken together
        for number, made in enumerate(sketch.made):
            if arguments + number not in kept:
                span = span_of(made.info)
                if first is None:
                    first = number
                    makes.append((None, span))
                else:
                    room = -(-span_of(sketch.made[number - 1].info) // scratch.PART) * scratch.PART
                    makes.append((behind, room))
                    makes[first] = None, sum([each[1] or 0 for each in makes[first + 1 :]]) + span
                self.memory = torch_memory(made.info.device)
                continue
            first = None
            like = None if torch_memory(made.info.device).empty is not None else sketch.alike(made)
            makes.append((_maker(made) if like is None else sys.modules["torch"].empty_like, like))
        self.makes = tuple(makes)
        self.launches = tuple(
            [
                one.launcher.repeating(one.grid, one.scalars, one.infos, mine)
                for one, mine in zip(sketch.launches, numbers, strict=True)
            ]
        )
        if len(makes) == 1 and self.returned == arguments:
            self.make, self.like = makes[0]
        self.sketch = None  # last: another thread may be about to do the same
        return True


def behind() -> None:
    """Stands for memory that was taken with what comes before it."""


class Made(NamedTuple):
    """A tensor that a call made: its description, and how torch calls its type and its device."""

    info: ArrayInfo
    dtype: Any
    device: Any


class Sketch:
    """What a call of a library function launched, made and gave back, without any array.

    `pointers` are the addresses of the arguments, 0 for None. `given` has for each result the number of the argument
    that it is, or its description, or None for None; `several` says whether they are a tuple. Nothing is worked out: most
    sizes come once.
    """

    __slots__ = ("given", "infos", "key", "launches", "made", "memory", "pointers", "several")

    def __init__(self, memory: Memory, key: Any, record: Recording, arrays: tuple[Any, ...], result: Any) -> None:
        self.memory, self.key = memory, key
        self.launches = record.launches
        self.infos = [describe(x) for x in arrays]
        self.pointers = tuple([0 if info is None else info.pointer for info in self.infos])
        self.made = [_made(x) for x in record.made]
        self.several = type(result) is tuple
        self.given: list[int | Made | None] = []
        for x in result if self.several else (result,):
            place = _place(x, arrays)
            self.given.append(None if x is None else _made(x) if place is None else place)

    def alike(self, found: Made) -> int | None:
        """The argument that has the shape, the order and the type of an array that was made, if there is one."""
        made = found.info
        if made.strides != dense_strides(made.shape):
            return None  # torch orders axes of equal strides anew
        wanted = made.shape, made.strides, made.dtype_name, made.device
        for number, info in enumerate(self.infos):
            if info is not None and (info.shape, info.strides, info.dtype_name, info.device) == wanted:
                return number
        return None

    @property
    def captured(self) -> Captured:
        """The constants that all kernels captured."""
        return tuple([found for one in self.launches for found in one.captured])

    def sources(self) -> tuple[int | tuple[int | None, ...], list[list[int | None]]] | None:
        """Which sources of pointers are given back, and which ones each launch takes; None where there are others.

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


def remembered(*arrays: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Lets calls of a library function with torch tensors of a known geometry repeat in a few microseconds.

    `arrays` name the parameters that take arrays or None; the others are options, hashable and compared by value. The
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
        memory = Memory()
        made: Any = functools.wraps(function)(_wrapper(function, arrays, memory))
        made.remembered = memory.kept
        made.memory = memory
        return made

    return decorate


def _wrapper(function: Callable[..., Any], arrays: Sequence[str], memory: Memory) -> Any:
    """The function with the same signature that looks first, written as straight-line code: see `matcher`."""
    parameters = inspect.signature(function).parameters
    options = [name for name in parameters if name not in arrays]
    once = Once(memory)
    namespace: dict[str, Any] = {
        "__name__": __name__, "function_": _describing_once(function), "kept_": memory.kept, "memory_": memory,
        "once_": once, "recordings_": RECORDINGS, "refuse_gradients_": refuse_gradients, "modules_": sys.modules,
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
            f"({name}.dtype, {name}.shape, {name}.stride(), ({pointers[name]} := {name}.data_ptr()) & 15, "
            f"{name}.get_device(), {_shared_text(pointers[name], [pointers[each] for each in arrays[:number]])})"
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
            "    if recordings_:  # somebody writes down what is launched: a replay would not be seen",
            f"        return {call}",
            f"    {' = '.join(pointers.values())} = 0",
            "    try:",
            f"        key = ({', '.join(fields)},)",
            f"        tracked = {asked}{' or '.join(tracked)}{')' if asked else ''}",
            "        known = len(kept_)",
            "        found = kept_.setdefault(key, once_)  # a look-up and an entry for the price of one",
            "    except Exception:  # no torch tensors, or an option that can't be looked up; errors of the call come alone",
            "        found = tracked = False",
            "    if tracked:",
            "        if found is once_: kept_.pop(key, None)",
            f"        refuse_gradients_({tuple(arrays)!r}, ({everything}))",
            "    if found is once_ and len(kept_) != known:  # it never came before",
            f"        places, given, newest = ({', '.join(pointers.values())},), ({everything}), memory_.newest",
            "        planned = None if newest is None else newest(key, places, given)",
            "        if planned is not None:",
            f"            if known >= {memory.limit}: kept_.clear()",
            "            return planned[1]",
            "        return once_.learn(key, given, places, again_)",
            "    if found is False:",
            f"        return {call}",
            "    if found.captured and not found.is_current():",
            "        kept_.pop(key, None)",
            f"        return {call}",
            "    make = found.make",
            "    if make is None:",
            f"        return found.repeat(key, ({everything}), ({', '.join(pointers.values())},), again_)",
            f"    result = make() if found.like is None else make(({everything})[found.like])",
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
    """Which of the arguments before it an array shares its address with, as the text of a key's field; None: with none.

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


def _describing_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which passes its arrays through several hands, with each of them read once."""

    def call(*args: Any, **options: Any) -> Any:
        if is_describing_once():
            return function(*args, **options)
        with describing_once():
            return function(*args, **options)

    return call


class Once:
    """Stands in a function's memory for calls that came once: most geometries do, and nothing more is kept of them.

    It is there before the call is made, so that a key is hashed once. It has what replays have: nothing to look at, nothing
    made yet.
    """

    __slots__ = ("captured", "make", "memory")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.captured = self.make = None

    def repeat(
        self, key: tuple[Any, ...], arrays: tuple[Any, ...], pointers: tuple[int, ...], call: WholeWay
    ) -> Any:
        """The call a second time: by the newest plan, or the whole way."""
        newest = self.memory.newest
        planned = None if newest is None else newest(key, pointers, arrays)
        if planned is None:
            return self.learn(key, arrays, pointers, call)
        self.memory.keep(key, planned[0].more)
        return planned[1]

    def learn(
        self, key: tuple[Any, ...], arrays: tuple[Any, ...], pointers: tuple[int, ...], call: WholeWay
    ) -> Any:
        """A call that the newest plan does not know."""
        self.memory.kept.pop(key, None)
        kinds = [None if each is None else (each[0], len(each[1]), each[4]) for each in key[ARRAYS_AT:]]
        return _learn(self.memory, (key[:ARRAYS_AT], *kinds), key, arrays, pointers, call)


def _learn(
    memory: Memory, kind: Any, key: Any, arrays: tuple[Any, ...], pointers: tuple[int, ...], call: WholeWay
) -> Any:
    """Runs a call of a new geometry, by a plan of its kind if there is one, and remembers it, or that it can't be."""
    plan = memory.plans.get(kind)
    if plan is not None:
        planned = plan.call(key, pointers, arrays)
        if planned is not None:
            memory.keep(key, planned[0])
            memory.newest = plan.function
            return planned[1]
    if any([x is not None and not x.data_ptr() for x in arrays]):
        return call(key, arrays)  # an empty array lies nowhere: this time, not the next
    record = Recording()
    with describing_once():  # once for the call and for what is kept of it
        RECORDINGS.append(record)
        try:
            result = call(key, arrays)
        finally:
            RECORDINGS.remove(record)
        if not (record.launches and not record.refused and _is_exact(key) and _are_tensors(record.made, result)):
            memory.keep(key, False)
            return result
        sketch = Sketch(memory, key, record, arrays, result)
        memory.keep(key, CallReplay(sketch))
    if plan is None and _PLANNERS:
        if len(memory.plans) >= PLANS:
            memory.plans.clear()
        plan = memory.plans.setdefault(kind, _PLANNERS[-1](ARRAYS_AT))
    if plan is not None:
        plan.learn(sketch, lambda *given: call(key, given), pointers)
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
    """Which of the arguments something is, the last one of several: results come last. None where it is none of them."""
    for number in range(len(arrays) - 1, -1, -1):
        if arrays[number] is x:
            return None if x is None else number
    return None


def _maker(made: Made) -> Callable[[], Any]:
    """What makes a tensor like one whose elements fill its memory; strides that are given are what torch takes quickest."""
    torch, info = sys.modules["torch"], made.info.in_bytes  # torch counts bytes where elements share them
    make = functools.partial(torch.empty_strided, info.shape, info.strides, dtype=made.dtype, device=made.device)
    memory, shape, strides, dtype, device = torch_memory(info.device), info.shape, info.strides, made.dtype, info.device
    empty, current = memory.empty, memory.current
    if empty is None:
        return make

    def quick() -> Any:
        return empty(shape, strides, dtype) if current() == device else make()

    return functools.partial(empty, shape, strides, dtype) if memory.alone else quick


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
