"""Arrays of any framework as matrices of rows, and results of the same kind."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from phalanx.errors import Error, caller_location
from phalanx.runtime.device.arrays import (
    ITEM_BYTES,
    PER_BYTE,
    ArgumentKind,
    ArrayInfo,
    describe,
    kind_of,
    numpy_dtype,
)
from phalanx.runtime.device.outlines import is_outlined
from phalanx.runtime.device.torch_tensors import refuse_gradients
from phalanx.runtime.launch.launch_list import record_array
from phalanx.runtime.symbolic.numbers import is_traced_real

FLOATS = ("bf16", "f16", "f32")
HALVES = ("bf16", "f16")
"""Operands of the tensor cores of 16 bits."""


def refused(message: str, remedy: str) -> Error:
    """A mistake in a call of the library, at the line of the user's code that made it."""
    return Error(message, location=caller_location(), remedy=remedy)


def has_work(*sizes: int) -> bool:
    """Whether there is something to launch: none of these sizes is 0, and the call is not for its result's shape alone."""
    return not is_outlined() and 0 not in sizes


def info_of(what: str, x: Any, dtypes: tuple[str, ...] = FLOATS) -> ArrayInfo:
    """What an array is; anything else, or another element type, is an error that names `what`."""
    info = describe(x)
    if info is None:
        raise Error(
            f"{what} is a {type(x).__name__}, not an array", location=caller_location(),
            remedy="pass a torch, CuPy or NumPy array",
        )
    if info.dtype_name not in dtypes:
        raise Error(
            f"{what} has the element type {info.dtype_name}", location=caller_location(),
            remedy=f"convert it to {'one of ' * (len(dtypes) > 1)}{', '.join(dtypes)}",
        )
    if kind_of(x) is ArgumentKind.TORCH and x.requires_grad:
        refuse_gradients((what,), (x,))
    return info


def result_info(what: str, x: Any, dtypes: tuple[str, ...] = FLOATS) -> ArrayInfo:
    """What an array is that a kernel is to write: it can be written, and each element has a place of its own."""
    info = info_of(what, x, dtypes)
    if kind_of(x) is ArgumentKind.NUMPY and not x.flags.writeable:
        raise refused(f"{what} is a read-only array", "pass a writable array")
    if kind_of(x) is ArgumentKind.JAX:
        raise refused(f"{what} is a JAX array, of which there are no views to write to", "pass a NumPy array")
    if 0 not in info.shape and any(size > 1 and stride == 0 for size, stride in zip(info.shape, info.strides)):
        raise refused(
            f"{what}, of shape {info.shape} and strides {info.strides}, has several elements in one place",
            "pass an array that was not made by broadcasting",
        )
    return info


def as_rows(x: Any, info: ArrayInfo) -> Any:
    """The array as a matrix of its last axis' rows: a view where its strides allow one with contiguous rows."""
    if not info.shape:
        raise Error(
            "an array without axes has no rows", location=caller_location(), remedy="pass one with at least one axis"
        )
    if len(info.shape) == 2 and info.shape[1] and info.contiguous_inner:
        return x
    matrix = x.reshape(-1, info.shape[-1]) if info.shape[-1] else x.reshape(0, 0)
    inner = describe(matrix)
    assert inner is not None
    if inner.contiguous_inner:
        return matrix
    return matrix.contiguous() if kind_of(x) is ArgumentKind.TORCH else matrix.copy()


TORCH_NAMES = {
    "bf16": "bfloat16", "f16": "float16", "f32": "float32", "i32": "int32", "i64": "int64", "f8e4m3": "float8_e4m3fn",
    "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn_x2",
}  # fmt: skip
"""What torch calls the types of results."""


def empty(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """A new contiguous array of the same kind, on the same device."""
    kind = kind_of(like)
    if kind is ArgumentKind.TORCH:
        torch = sys.modules["torch"]
        if dtype in PER_BYTE:  # torch counts bytes
            shape = (*shape[:-1], shape[-1] // PER_BYTE[dtype])
        element = getattr(torch, TORCH_NAMES[dtype], None)
        if element is None:
            raise refused(
                f"torch {torch.__version__} has no type for {dtype}", f"use a torch that has torch.{TORCH_NAMES[dtype]}"
            )
        return record_array(torch.empty(shape, dtype=element, device=like.device))
    if kind is ArgumentKind.CUPY:
        cupy = sys.modules["cupy"]
        with like.device:
            return cupy.empty(shape, numpy_dtype(dtype))
    if kind is ArgumentKind.NUMPY:
        return np.empty(shape, numpy_dtype(dtype))
    if hasattr(like, "new_array"):  # an array of a traced function: see `runtime.exporting`
        return like.new_array(shape, dtype)
    raise Error(
        f"a result can't be made as a {type(like).__name__}", location=caller_location(),
        remedy='pass torch, CuPy or NumPy arrays; for JAX np.asarray(x), or px.export(..., interfaces="jax")',
    )


def like(x: Any, shape: tuple[int, ...], *, zero: bool = False) -> Any:
    """A new contiguous array of the same kind, type and device, which anything may write."""
    kind = kind_of(x)
    if kind is ArgumentKind.TORCH:
        return x.new_zeros(shape) if zero else x.new_empty(shape)
    if kind is ArgumentKind.CUPY:
        cupy = sys.modules["cupy"]
        with x.device:
            return (cupy.zeros if zero else cupy.empty)(shape, x.dtype)
    if hasattr(x, "new_array") and not zero:  # of a traced function, which says what it can't write there
        return x.new_array(shape, info_of("x", x, tuple(ITEM_BYTES)).dtype_name)
    return (np.zeros if zero else np.empty)(shape, x.dtype)


def require_vector(what: str, x: Any, columns: int) -> None:
    """Refuses a weight or bias that is no vector with one number per column of the rows."""
    info = info_of(what, x)
    if info.shape != (columns,):
        raise Error(
            f"{what} has shape {info.shape}, the rows have {columns} columns", location=caller_location(),
            remedy=f"pass a vector of {columns} numbers, or None",
        )


def number_of(what: str, value: Any) -> float:
    """A scalar argument of a function, as a float."""
    if is_traced_real(value):  # of an export, whose caller gives it
        number: float = value
        return number
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise Error(
            f"{what} is {described(value)}", location=caller_location(), remedy="give a number, or leave it out"
        )
    return float(value)


def require_config(config: Any, *kinds: type) -> Any:
    """The configuration that a caller chose, or None for the function's own choice."""
    if config is not None and not isinstance(config, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise Error(
            f"config is {described(config)}", location=caller_location(), remedy=f"give a {names}, or leave it out"
        )
    return config


def is_among(name: Any, names: Any) -> bool:
    """Whether an argument is one of the names that a function knows; an array, say, is none of them."""
    return (name is None or isinstance(name, str)) and name in names


def described(value: Any) -> str:
    """A value as messages show it: simple ones as they are, others by their type."""
    return repr(value) if value is None or isinstance(value, str | int | float) else f"of type {type(value).__name__}"
