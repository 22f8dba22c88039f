"""`@frozen` makes what `dataclass(frozen=True)` makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from phalanx.frozen import fields_alone, frozen, once


def family(value: Any, identity: Any, plain: Any) -> SimpleNamespace:
    """The same classes, made by `frozen` or by `dataclass`."""

    @value
    class Point:
        x: int
        y: int = 2
        unit: ClassVar[str] = "mm"

    @value
    class Named(Point):
        label: str = ""
        at: int = field(default=0, kw_only=True)

    @value
    class One:
        value: float

    @value
    class Nothing:
        pass

    @value
    class Made:
        size: int
        parts: list[int] = field(default_factory=list, repr=False)
        double: int = field(init=False, compare=False)
        seen: dict[str, int] = field(default_factory=dict, init=False, compare=False)
        fixed: int = field(default=7, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.size)

    @value
    class Loose:
        """Compared by its length alone."""

        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loose) and len(self.text) == len(other.text)

        def __hash__(self) -> int:
            return len(self.text)

        def __repr__(self) -> str:
            return f"<{self.text}>"

    @identity
    class Thing:
        name: str

    @plain
    class Operation:
        size: int = 0

        def __repr__(self) -> str:
            return f"<{type(self).__name__}>"

    @plain
    class Load(Operation):
        source: str = ""

    return SimpleNamespace(**{name: made for name, made in locals().items() if isinstance(made, type)})


OURS = family(frozen, frozen(eq=False), frozen(eq=False, repr=False))
THEIRS = family(dataclass(frozen=True), dataclass(frozen=True, eq=False), dataclass(frozen=True, eq=False, repr=False))
BOTH = pytest.mark.parametrize("made", [OURS, THEIRS], ids=["frozen", "dataclass"])


@frozen
class Kept:
    """At module level, so that it can be pickled."""

    name: str
    sizes: tuple[int, ...] = ()


@BOTH
def test_arguments(made: SimpleNamespace) -> None:
    assert vars(made.Point(1)) == {"x": 1, "y": 2}
    assert vars(made.Named(1, 3, "a", at=4)) == {"x": 1, "y": 3, "label": "a", "at": 4}
    assert vars(made.Nothing()) == {}
    assert made.Point.unit == "mm"
    for positional, named in ((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1}):
        with pytest.raises(TypeError):
            made.Point(*positional, **named)
    with pytest.raises(TypeError):
        made.Named(1, 2, "a", 4)


@BOTH
def test_factories_and_what_is_set_afterwards(made: SimpleNamespace) -> None:
    first, second, given = made.Made(3), made.Made(3), made.Made(3, [1])
    assert (first.parts, first.double, first.seen, first.fixed) == ([], 6, {}, 7)
    assert first.parts is not second.parts and first.seen is not second.seen and given.parts == [1]
    with pytest.raises(TypeError):
        made.Made(3, seen={})


@BOTH
def test_instances_never_change(made: SimpleNamespace) -> None:
    point = made.Point(1)
    for change in (
        lambda: setattr(point, "x", 2), lambda: setattr(point, "other", 2), lambda: delattr(point, "x"),
        lambda: setattr(made.Thing("a"), "name", "b"),
    ):
        with pytest.raises(FrozenInstanceError):
            change()
    assert vars(point) == {"x": 1, "y": 2}


@BOTH
def test_comparison(made: SimpleNamespace) -> None:
    assert made.Point(1) == made.Point(1, 2) and made.Point(1) != made.Point(2)
    assert hash(made.Point(1)) == hash(made.Point(1, 2)) and len({made.Point(1), made.Point(1), made.Point(3)}) == 2
    assert made.Point(1) != made.Named(1) and made.Point(1) != (1, 2) and made.Nothing() == made.Nothing()
    assert made.One(1.0) == made.One(1.0) != made.One(2.0) and hash(made.One(1.0)) == hash(made.One(1.0))
    assert made.Point(1).__eq__(1) is NotImplemented
    assert made.Made(1) == made.Made(1) and made.Made(1) != made.Made(1, [1])
    with pytest.raises(TypeError):
        hash(made.Made(1))  # a list


def test_fields_compare_as_in_tuples() -> None:
    """As dataclasses did before Python 3.13: an object equals itself, also a NaN."""
    nan = float("nan")
    assert OURS.One(nan) == OURS.One(nan) and OURS.One(nan) != OURS.One(float("nan"))
    assert OURS.Point(nan) == OURS.Point(nan) and OURS.Point(nan) != OURS.Point(float("nan"))


@BOTH
def test_methods_of_the_class_stay(made: SimpleNamespace) -> None:
    assert made.Loose("ab") == made.Loose("cd") and hash(made.Loose("ab")) == 2 and repr(made.Loose("ab")) == "<ab>"


@BOTH
def test_identity(made: SimpleNamespace) -> None:
    thing = made.Thing("a")
    assert thing == thing and thing != made.Thing("a") and len({thing, made.Thing("a")}) == 2
    assert repr(thing) == "family.<locals>.Thing(name='a')"
    assert repr(made.Load()) == "<Load>" and made.Load() != made.Load()


@BOTH
def test_text(made: SimpleNamespace) -> None:
    assert repr(made.Named(1, 2, "a")) == "family.<locals>.Named(x=1, y=2, label='a', at=0)"
    assert repr(made.Made(1)) == "family.<locals>.Made(size=1, double=2, seen={}, fixed=7)"
    held: list[Any] = []
    held.append(made.One(held))  # type: ignore[arg-type]
    assert repr(held[0]) == "family.<locals>.One(value=[...])"


@BOTH
def test_the_functions_of_dataclasses(made: SimpleNamespace) -> None:
    named = made.Named(1, at=4)
    assert dataclasses.is_dataclass(named) and [f.name for f in dataclasses.fields(named)] == ["x", "y", "label", "at"]
    assert dataclasses.replace(named, x=5) == made.Named(5, at=4)
    assert dataclasses.asdict(named) == {"x": 1, "y": 2, "label": "", "at": 4}
    assert made.Named.__match_args__ == ("x", "y", "label")
    assert copy.copy(named) == copy.deepcopy(named) == named


@pytest.mark.parametrize("name", vars(OURS))
def test_signatures_are_those_of_a_dataclass(name: str) -> None:
    ours, theirs = inspect.signature(getattr(OURS, name)), inspect.signature(getattr(THEIRS, name))
    assert ours.return_annotation == theirs.return_annotation and list(ours.parameters) == list(theirs.parameters)
    for mine, other in zip(ours.parameters.values(), theirs.parameters.values(), strict=True):
        assert (mine.kind, mine.annotation) == (other.kind, other.annotation)
        assert mine.default == other.default or "factory" in repr(other.default)


def test_pickles() -> None:
    kept = Kept("a", (1, 2))
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert Kept.__init__.__module__ == __name__ and Kept.__init__.__qualname__ == "Kept.__init__"


@frozen
class Circle:
    radius: int
    __getstate__ = fields_alone

    @once
    def points(self) -> tuple[int, ...]:
        """Its points on a line."""
        return tuple(range(-self.radius, self.radius + 1))


def test_what_a_method_finds_is_kept_beside_the_fields() -> None:
    circle = Circle(2)
    assert circle.points() == (-2, -1, 0, 1, 2) and circle.points() is circle.points()
    assert circle == Circle(2) and repr(circle) == "Circle(radius=2)"
    assert dataclasses.replace(circle, radius=1).points() == (-1, 0, 1)


def test_what_a_method_found_does_not_travel() -> None:
    circle = Circle(3)
    before = pickle.dumps(circle)
    circle.points()
    assert pickle.dumps(circle) == before
    assert pickle.loads(before).points() == circle.points()
