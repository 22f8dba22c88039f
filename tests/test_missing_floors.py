"""An instruction that lacks a floor is refused at the user's line, before anything runs or any layout is chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest

import phalanx as px
from errors.casebook import normalised
from phalanx.cuda.lower.copies import plan_copies
from phalanx.cuda.lower.lower import arrange, lower
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import arch_of
from phalanx.ir.core import INSTRUCTIONS, Function, Op, rewrite
from phalanx.ir.effects import Access, Effects, Mode
from phalanx.ir.engines import COPY_ENGINE
from phalanx.ir.ops.memory import Store
from phalanx.ir.values import Value
from phalanx.ir.views import View
from phalanx.markers import operand
from phalanx.sim.run import simulate
from support.front import array, prepared


@pytest.fixture(scope="module")
def planted() -> Iterator[type[Op]]:
    """An instruction of a family `toy` that has no file on any floor."""

    @frozen(eq=False, repr=False)
    class Planted(Op):
        """Takes a tile and a place of global memory."""

        mnemonic: ClassVar[str] = "toy.take"
        value: Value = operand()
        view: View = operand()

        def effects(self) -> Effects:
            return Effects(accesses=(Access(Mode.WRITE, self.view, engine=COPY_ENGINE),))

    Planted.family = "toy"
    INSTRUCTIONS.remove(Planted)
    yield Planted


@px.kernel(warps=4)
def takes(X):
    px.store(X[0:128], px.arange(128).to(px.f32))


@pytest.fixture
def function(planted: type[Op]) -> Function:
    """The kernel with the planted instruction in the place of its store."""
    whole = prepared(takes, (array(1),))

    def visit(op: Op) -> list[Op] | None:
        return [planted(op.value, op.view, loc=op.loc)] if isinstance(op, Store) else None

    return dataclasses.replace(whole, body=rewrite(whole.body, visit))


PLACE = """\
   --> test_missing_floors.py:LINE:5
   |
LINE |     px.store(X[0:128], px.arange(128).to(px.f32))
   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: this is a mistake in Phalanx, not in the kernel: """


def text(what: str, remedy: str) -> str:
    """The whole message, at the line of the kernel."""
    line = str(takes.fn.__code__.co_firstlineno + 2)
    return f"{what}\n{PLACE.replace('LINE', line)}{remedy}"


def test_no_meaning(function: Function) -> None:
    with pytest.raises(Error) as caught:
        simulate(function, 1, (np.zeros(128, np.float32),))
    assert normalised(str(caught.value)) == text(
        "nothing says what px.toy.take does in the simulator",
        "register what toy.take means with @meaning in sim/ops/toy.py",
    )


def test_no_emitter(function: Function) -> None:
    with pytest.raises(Error) as caught:
        lower(function, arch_of("sm_90a"))
    assert normalised(str(caught.value)) == text(
        "nothing writes px.toy.take as CUDA: the kernel runs in the simulator alone",
        "register what writes toy.take with @emits in cuda/ops/toy.py",
    )


def test_no_layout_rule(function: Function) -> None:
    with pytest.raises(Error) as caught:
        arrange(function)
    assert normalised(str(caught.value)) == text(
        "px.toy.take works on register tiles, but nothing says how they are laid out for it",
        "register a rule for toy.take with @asks in cuda/lower/ops/toy.py",
    )


def test_no_regions(function: Function) -> None:
    with pytest.raises(Error) as caught:
        plan_copies(function, {})
    assert normalised(str(caught.value)) == text(
        "nothing says between which regions px.toy.take copies",
        "register its regions with @transfers in cuda/lower/ops/toy.py",
    )
