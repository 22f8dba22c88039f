"""A launch's arguments described, so that another process can make arrays like them.

Floating-point arrays are filled with random normal numbers; integer and bool arrays travel as they are, for they are
usually indices; scalars too. Shapes, strides and alignment stay, and so does an array that is given twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.types import DTYPES, rounded
from phalanx.runtime.device.arrays import (
    ITEM_BYTES,
    PER_BYTE,
    ArgumentKind,
    ArrayInfo,
    dense_strides,
    describe,
    kind_of,
    numpy_dtype,
)
from phalanx.runtime.device.host_copies import to_host
from phalanx.runtime.launch.specialise import Spec

FLOATS = frozenset({"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "f8e8m0", "f6e2m3", "f6e3m2"})
RANDOM_BLOCK = (1 << 22) - 3
"""Random numbers that are made; longer arrays repeat them. An odd number, so that rows differ."""
LIBRARIES = {ArgumentKind.TORCH: "torch", ArgumentKind.CUPY: "cupy", ArgumentKind.NUMPY: "numpy"}


@frozen
class ArrayPlan:
    """An array to be made: as `library` makes it ("plain" for a bare device array), on `device` (None: host memory)."""

    library: str
    device: int | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    low: int
    values: np.ndarray | None = None
    same_as: int | None = None

    @property
    def span(self) -> int:
        """Elements from the first to the last."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))


@frozen
class ScalarPlan:
    """An argument that is a number, or None."""

    value: Any


ArgumentPlan = ArrayPlan | ScalarPlan


def plan_arguments(args: Sequence[Any], device: int | None) -> list[ArgumentPlan]:
    """What to make for each argument; `device` is where arrays that are only described (`px.spec`) will lie."""
    plans: list[ArgumentPlan] = []
    seen: dict[ArrayInfo, int] = {}
    for number, value in enumerate(args):
        info = None if isinstance(value, Spec) else describe(value)
        given = value if isinstance(value, Spec) else info
        if given is not None and (given.dense or _name(given) in PER_BYTE):
            raise Error(
                f"argument {number} is an array whose elements share bytes: px.tune can't make one like it",
                location=caller_location(),
                remedy="pass a function that makes the arguments: make_args=",
            )
        if isinstance(value, Spec):
            low = 0 if value.aligned else value.dtype.itemsize % 16
            strides = dense_strides(value.shape)
            library = "numpy" if device is None else "plain"
            plans.append(ArrayPlan(library, device, value.shape, strides, value.dtype.name, low))
            continue
        if info is None:
            plans.append(ScalarPlan(value))
            continue
        if any(stride < 0 for stride in info.strides):
            raise Error(
                f"argument {number} has negative strides: px.tune can't make an array like it",
                location=caller_location(),
                remedy="pass a function that makes the arguments: make_args=",
            )
        library = LIBRARIES.get(kind_of(value), "plain" if info.kind == "cuda" else "numpy")
        earlier = seen.setdefault(info, number)
        values = None if info.dtype_name in FLOATS or earlier != number else np.ascontiguousarray(to_host(value))
        plans.append(
            ArrayPlan(
                library, info.device if info.kind == "cuda" else None, info.shape, info.strides, info.dtype_name,
                info.pointer % COPY_CHUNK, values, None if earlier == number else earlier,
            )
        )
    return plans


def _name(array: Spec | ArrayInfo) -> str:
    return array.dtype.name if isinstance(array, Spec) else array.dtype_name


def type_texts(args: Sequence[Any]) -> list[str]:
    """What a search depends on of each argument: the geometry of arrays and which are the same, the values of numbers."""
    texts: list[str] = []
    seen: dict[int, int] = {}
    for number, value in enumerate(args):
        info = None if isinstance(value, Spec) else describe(value)
        if info is not None:
            same = seen.setdefault(info.pointer, number)
            texts.append(f"{info.dtype_name} {info.shape} {info.strides} {info.pointer % COPY_CHUNK} {same}")
        else:
            texts.append(f"{type(value).__name__} {value!r}")
    return texts


def content_of(plan: ArrayPlan, rng: np.random.Generator) -> np.ndarray:
    """The elements of the array's whole window, in one dimension."""
    dtype = numpy_dtype(plan.dtype)
    if plan.values is not None:
        raw = np.zeros(plan.span, dtype)
        np.lib.stride_tricks.as_strided(raw, plan.shape, [s * dtype.itemsize for s in plan.strides])[...] = plan.values
        return raw
    if plan.dtype not in FLOATS:
        return np.zeros(plan.span, dtype)
    block = rng.standard_normal(min(plan.span, RANDOM_BLOCK), np.float32)
    block = rounded(block, DTYPES[plan.dtype]) if DTYPES[plan.dtype].is_storage else block.astype(dtype)
    return block if plan.span <= RANDOM_BLOCK else np.resize(block, plan.span)


def window(raw: np.ndarray, plan: ArrayPlan) -> np.ndarray:
    """The array in its window."""
    return np.lib.stride_tricks.as_strided(raw, plan.shape, [s * raw.itemsize for s in plan.strides])


def in_host_memory(raw: np.ndarray, plan: ArrayPlan) -> np.ndarray:
    """The window in memory of its own, aligned as planned."""
    memory = np.empty(raw.nbytes + 256, np.uint8)
    start = (plan.low - memory.ctypes.data) % 256
    mine = memory[start : start + raw.nbytes].view(raw.dtype)
    mine[:] = raw
    return window(mine, plan)


def on_device(raw: np.ndarray, plan: ArrayPlan) -> Any:
    """The window in device memory, as the planned library sees it."""
    assert plan.device is not None
    if plan.library == "torch":
        import torch

        offset = plan.low // ITEM_BYTES[plan.dtype]
        padded = np.concatenate([np.zeros(offset, raw.dtype), raw]) if offset else raw
        name = numpy_dtype(plan.dtype).name
        flat = torch.from_numpy(padded.view(np.uint8)).to(f"cuda:{plan.device}").view(getattr(torch, name))
        return flat.as_strided(plan.shape, plan.strides, offset)
    if plan.library == "cupy":
        import cupy

        with cupy.cuda.Device(plan.device):
            offset = plan.low // ITEM_BYTES[plan.dtype]
            flat = cupy.asarray(np.concatenate([np.zeros(offset, raw.dtype), raw]))[offset:]
            return cupy.lib.stride_tricks.as_strided(flat, plan.shape, [s * raw.itemsize for s in plan.strides])
    from phalanx.runtime.device.device_array import DeviceArray

    return DeviceArray(raw, plan.shape, plan.strides, plan.dtype, device=plan.device, low=plan.low)


class PlannedArguments:
    """Arrays made from plans; `reset` gives them their first content again."""

    def __init__(self, plans: Sequence[ArgumentPlan], seed: int, *, plain: bool) -> None:
        """`plain`: arrays on a GPU are bare device arrays, whatever the library."""
        self.plans = plans
        self.plain = plain
        rng = np.random.default_rng(seed)
        self.raw = [
            content_of(plan, rng) if isinstance(plan, ArrayPlan) and plan.same_as is None else None for plan in plans
        ]
        self.values: list[Any] = []
        self._make()

    def _make(self) -> None:
        self.values = []
        for plan, raw in zip(self.plans, self.raw):
            if isinstance(plan, ScalarPlan):
                self.values.append(plan.value)
            elif plan.same_as is not None:
                self.values.append(self.values[plan.same_as])
            else:
                assert raw is not None
                if plan.device is None:
                    self.values.append(in_host_memory(raw, plan))
                elif self.plain:
                    from phalanx.runtime.device.device_array import DeviceArray

                    made = DeviceArray(raw, plan.shape, plan.strides, plan.dtype, device=plan.device, low=plan.low)
                    self.values.append(made)
                else:
                    self.values.append(on_device(raw, plan))

    def reset(self) -> None:
        """Gives every array its first contents again."""
        from phalanx.runtime.device.device_array import DeviceArray

        if all(p.device is None for p in self.plans if isinstance(p, ArrayPlan)) or self.plain:
            for plan, raw, value in zip(self.plans, self.raw, self.values):
                if raw is not None and isinstance(plan, ArrayPlan):
                    if isinstance(value, DeviceArray):
                        value.write(raw)
                    else:
                        value[...] = window(raw, plan)
        else:
            self._make()

    def on_host(self) -> list[Any]:
        """Copies of the first contents, for a reference."""
        out: list[Any] = []
        for plan, raw in zip(self.plans, self.raw):
            if isinstance(plan, ScalarPlan):
                out.append(plan.value)
            elif raw is None:
                out.append(out[plan.same_as or 0])
            else:
                out.append(window(raw, plan).copy())
        return out


class MadeArguments:
    """Arrays that a function of the user's makes."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.values: list[Any] = list(make())

    def reset(self) -> None:
        """Makes all arguments anew."""
        self.values = list(self.make())

    def on_host(self) -> list[Any]:
        """The arguments as NumPy arrays, for a reference."""
        return [to_host(value).copy() if describe(value) is not None else value for value in self.values]
