"""A card is data: every number has a unit and a sentence, and those that follow from others do."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, get_type_hints

import phalanx as px
from phalanx.ir.archs import SHARED_LIMIT
from phalanx.machines import model
from phalanx.machines.h200 import H200

GROUPS = [cls for _, cls in inspect.getmembers(model, inspect.isclass) if cls.__module__ == model.__name__]


def sentences(cls: type) -> dict[str, str]:
    """The text below each field of a class."""
    found: dict[str, str] = {}
    body = ast.parse(inspect.getsource(cls)).body[0].body  # type: ignore[attr-defined]
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            found[field.target.id] = below.value.value  # type: ignore[attr-defined, union-attr]
    return found


def numbers(of: Any = H200) -> Iterator[tuple[str, Any]]:
    """The names and values of a card, groups included."""
    for field in dataclasses.fields(of):
        value = getattr(of, field.name)
        if dataclasses.is_dataclass(value):
            yield from numbers(value)
        else:
            yield field.name, value


def test_every_number_has_a_unit_and_a_sentence() -> None:
    assert len(GROUPS) == 10
    for cls in GROUPS:
        hints, told = get_type_hints(cls, include_extras=True), sentences(cls)
        for field in dataclasses.fields(cls):
            kind = hints[field.name]
            if kind is str or kind in GROUPS:
                continue
            assert isinstance(kind, type(Mapping[int, int])) or kind.__metadata__[0], field.name
            assert told[field.name].strip().endswith("."), field.name


NOTHING = (
    "stored", "step_shared_columns", "hbm_unasked", "read_together", "read_together_broken", "further_part", "finds_kept",
    "pushes", "lacking_steps", "turned_tiles", "uneven_steps",
)  # fmt: skip
"""What may cost nothing."""


def test_numbers_are_positive() -> None:
    assert len(list(numbers())) > 50
    for name, value in numbers():
        if isinstance(value, int | float):
            assert value >= 0 if name in NOTHING else value > 0, name


def test_what_follows_from_a_card() -> None:
    assert H200.shared_bytes() == SHARED_LIMIT and H200.shared_bytes(2) == 115712
    assert H200.clusters_at_once[1] == H200.sms
    assert all(H200.clustered_sms >= size * count for size, count in H200.clusters_at_once.items() if size > 2)
    if px.device().simulated:
        assert (px.device().sms, px.device().l2_bytes) == (H200.sms, H200.l2_bytes)
        assert [px.device().clusters(size) for size in (1, 2, 3, 4, 8, 16)] == [132, 66, 39, 30, 15, 7]
