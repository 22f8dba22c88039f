"""Ordinary loads, stores and atomics of global and shared memory, and the fences between proxies."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.effects import Access, Effects, FenceKind, Handshake, Mode
from phalanx.ir.type_rules import dtype_of, need, need_alike, shape_of, type_rules
from phalanx.ir.types import ArrayType
from phalanx.ir.values import Param, Value
from phalanx.ir.views import View
from phalanx.markers import attribute, defined, operand


@frozen(eq=False, repr=False)
class Extent(Op):
    """The size of an array along one axis."""

    mnemonic: ClassVar[str] = "extent"
    nonnegative: ClassVar[bool] = True
    array: Param = operand()
    axis: int = attribute()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Load(Op):
    """A region into registers; elements outside a global array, and rows by index that are not there, are `fill`.

    `once`: caches need not keep it. `shifted`: where it begins at no vector, its vectors are made of the aligned ones around
    them, not read element by element.
    """

    mnemonic: ClassVar[str] = "load"
    view: View = operand()
    fill: Value = operand()
    result: Value = defined()
    once: bool = attribute(default=False)
    shifted: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Reads the region."""
        return Effects(accesses=(Access(Mode.READ, self.view),))

    @property
    def tile_load(self) -> Load:
        """Itself."""
        return self


@frozen(eq=False, repr=False)
class Store(Op):
    """Registers into a region; elements outside a global array, and rows by index that are not there, are dropped.

    The value has the view's shape and type.
    """

    mnemonic: ClassVar[str] = "store"
    view: View = operand()
    value: Value = operand()
    once: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Writes the region."""
        return Effects(accesses=(Access(Mode.WRITE, self.view),))

    @property
    def tile_store(self) -> Store:
        """Itself."""
        return self


@frozen(eq=False, repr=False)
class Atomic(Op):
    """Updates every element of a region, atomically per element; defines the old values where `result` is given.

    `update` is the function of the old element and the new one. `folds`: it commutes with itself.
    """

    update: ClassVar[str] = ""
    folds: ClassVar[bool] = True
    view: View = operand()
    value: Value = operand()
    result: Value | None = defined()

    def effects(self) -> Effects:
        """Updates the region; it commutes with its like where nobody sees the old values."""
        folds = self.update if self.folds and self.result is None else ""
        return Effects(accesses=(Access(Mode.ATOMIC, self.view, folds=folds),))

    def without_result(self) -> Op:
        """The update without the old values."""
        return dataclasses.replace(self, result=None)

    def elements(self) -> tuple[Value, ...]:
        """The values with an element for each of the region's."""
        return (self.value,) if self.result is None else (self.value, self.result)


@frozen(eq=False, repr=False)
class AtomicAdd(Atomic):
    """Adds to every element of a region, atomically per element; defines the old values where `result` is given.

    `ordered`, of one element of global memory: it releases and acquires at the scope of the GPU.
    """

    mnemonic: ClassVar[str] = "atomic_add"
    update: ClassVar[str] = "add"
    ordered: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Updates the region; what is ordered also hands on what its agent did, to those who come to the element later."""
        effects = super().effects()
        return dataclasses.replace(effects, handshakes=(Handshake(self.view),)) if self.ordered else effects


@frozen(eq=False, repr=False)
class AtomicMax(Atomic):
    """The larger of the old element and the new one, as `AtomicAdd`; not a number if one of them is none."""

    mnemonic: ClassVar[str] = "atomic_max"
    update: ClassVar[str] = "max"


@frozen(eq=False, repr=False)
class AtomicMin(Atomic):
    """The smaller of the old element and the new one, as `AtomicAdd`; not a number if one of them is none."""

    mnemonic: ClassVar[str] = "atomic_min"
    update: ClassVar[str] = "min"


@frozen(eq=False, repr=False)
class AtomicExch(Atomic):
    """Puts the new element in the place of the old one, as `AtomicAdd`."""

    mnemonic: ClassVar[str] = "atomic_exch"
    update: ClassVar[str] = "exch"
    folds: ClassVar[bool] = False


@frozen(eq=False, repr=False)
class AtomicCas(Atomic):
    """Puts the new element in the place of the old one where that equals `compare`, as `AtomicAdd`."""

    mnemonic: ClassVar[str] = "atomic_cas"
    update: ClassVar[str] = "cas"
    folds: ClassVar[bool] = False
    compare: Value = operand()

    def elements(self) -> tuple[Value, ...]:
        """The new values, the old ones where they are read, and those that are compared."""
        return (*super().elements(), self.compare)


@frozen(eq=False, repr=False)
class AtomicLoad(Op):
    """Every element of a region as it is now, atomically per element; elements outside a global array are 0.

    A read, but no race with those who update the region. Of global memory it comes from where all SMs see it.
    """

    mnemonic: ClassVar[str] = "atomic_load"
    view: View = operand()
    result: Value = defined()

    def effects(self) -> Effects:
        """Reads the region while others may update it."""
        return Effects(accesses=(Access(Mode.READ, self.view, strong=True),))


ATOMICS: tuple[type[Atomic], ...] = (AtomicAdd, AtomicMax, AtomicMin, AtomicExch, AtomicCas)


@frozen(eq=False, repr=False)
class FenceAsyncProxy(Op):
    """Generic accesses before it are ordered before asynchronous ones after it, in one space.

    `reason` is empty where the user wrote it.
    """

    mnemonic: ClassVar[str] = "fence.async_proxy"
    space: str = attribute()
    reason: str = attribute(default="")

    def effects(self) -> Effects:
        """Is a proxy fence of its space."""
        kinds = {"cta": FenceKind.PROXY_CTA, "cluster": FenceKind.PROXY_CLUSTER, "global": FenceKind.PROXY_GLOBAL}
        return Effects(fences=(kinds[self.space],))


@frozen(eq=False, repr=False)
class FenceCluster(Op):
    """Acquires and releases at cluster scope."""

    mnemonic: ClassVar[str] = "fence.cluster"

    def effects(self) -> Effects:
        """Is a fence at cluster scope."""
        return Effects(fences=(FenceKind.ACQ_REL_CLUSTER,))


# What the types of operands and results must be.


@type_rules(Extent)
def _check_extent(op: Extent) -> None:
    need(isinstance(op.array, Param) and isinstance(op.array.type, ArrayType), op, "of something not an array")


@type_rules(Load)
def _check_load(op: Load) -> None:
    need(shape_of(op.result) == op.view.shape and dtype_of(op.result) == op.view.dtype, op, "result unlike its view")
    need(shape_of(op.fill) == () and dtype_of(op.fill) == op.view.dtype, op, f"fill is {op.fill.type}")


def require_written(op: Op, view: View, value: Value) -> None:
    """A value has the type and the shape of the region that it goes to: users see the error where it has not."""
    if dtype_of(value) != view.dtype:
        raise Error(
            f"{dtype_of(value)} values do not fit memory of {view.dtype}",
            location=op.loc,
            remedy=f"convert them: .to(px.{view.dtype})",
        )
    if shape_of(value) != view.shape:
        raise Error(
            f"values of shape {shape_of(value)} do not fit a region of shape {view.shape}",
            location=op.loc,
            remedy="both must have the same shape",
        )


@type_rules(Store)
def _check_store(op: Store) -> None:
    require_written(op, op.view, op.value)


@type_rules(AtomicAdd, AtomicMax, AtomicMin, AtomicExch)
def _check_atomic(op: Atomic) -> None:
    require_written(op, op.view, op.value)
    if op.result is not None:
        need(op.result.type == op.value.type, op, f"result is {op.result.type}")


@type_rules(AtomicCas)
def _check_cas(op: AtomicCas) -> None:
    _check_atomic(op)
    need(op.compare.type == op.value.type, op, f"compare is {op.compare.type}")


@type_rules(AtomicLoad)
def _check_atomic_load(op: AtomicLoad) -> None:
    need_alike(op, op.view, op.result)
