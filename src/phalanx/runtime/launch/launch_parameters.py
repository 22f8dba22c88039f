"""The parameter buffer of a launch in C layout, and what an array must be to go there: parts of `launcher.Launcher`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from phalanx.cuda.abi import ArraySlot, ScalarSlot
from phalanx.errors import Error
from phalanx.ir.archs import COPY_CHUNK
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo

_COMPILE_AGAIN = "or compile the kernel for arrays like this one"


def grid_words(config: Any) -> memoryview:
    """The grid of a launch configuration, to be written: a field of ctypes is made anew whenever it is asked for."""
    words = (ctypes.c_char * cuda.LaunchConfig.grid.size).from_buffer(config, cuda.LaunchConfig.grid.offset)
    return memoryview(words).cast("B").cast("I")


def joined_format(slots: Sequence[ArraySlot | ScalarSlot], offsets: Sequence[int]) -> str:
    """The layout of all parameters, as the `struct` module names it, from the buffer's first byte on."""
    text, end = "<", 0
    for slot, offset in zip(slots, offsets):
        text += f"{offset - end}x{slot.format[1:]}"
        end = offset + slot.nbytes
    return text


def called(slot: ArraySlot | ScalarSlot, number: int) -> str:
    """How messages name a parameter: by its name, or by its number among the arguments."""
    return f"argument {slot.name}" if slot.name else f"argument {number}"


def match_nothing(args: Sequence[Any]) -> None:
    """The matcher of a launcher that has launched nothing yet: no arguments are those of the last launch."""
    return None


def check_array(slot: ArraySlot, info: ArrayInfo | None, number: int, device: int) -> ArrayInfo:
    """The compiled kernel relies on these; a dispatcher that specialises by them never sees the errors."""
    what = called(slot, number)
    if info is None:
        raise Error(
            f"{what} is an array of rank {slot.rank}, got a scalar",
            remedy=f"pass an array of {slot.dtype} on CUDA device {device}",
        )
    if info.kind != "cuda":
        raise Error(
            f"{what} is in host memory, the kernel runs on CUDA device {device}", remedy="copy it there"
        )
    if info.device != device:
        raise Error(
            f"{what} is on CUDA device {info.device}, the kernel runs on device {device}",
            remedy="put all arguments on one device",
        )
    if (info.dtype_name, len(info.shape)) != (slot.dtype, slot.rank):
        raise Error(
            f"{what} is {info.dtype_name} of rank {len(info.shape)}, "
            f"the kernel was compiled for {slot.dtype} of rank {slot.rank}",
            remedy=f"convert or reshape it, {_COMPILE_AGAIN}",
        )
    if slot.contiguous_inner and not info.contiguous_inner:
        raise Error(
            f"{what} has inner stride {info.strides[-1]}, the kernel was compiled for 1",
            remedy=f"pass a contiguous copy, {_COMPILE_AGAIN}",
        )
    if slot.aligned16 and not info.aligned16:
        raise Error(
            f"{what} is not aligned to 16 bytes, the kernel was compiled for arrays that are",
            remedy=f"pass a contiguous copy whose rows are multiples of 16 bytes, {_COMPILE_AGAIN}",
        )
    if slot.whole_rows and not info.whole_rows:
        raise Error(
            f"{what} has {info.shape[-1]} columns, the kernel was compiled for a multiple of 16 bytes",
            remedy=f"pad its rows to a multiple of {COPY_CHUNK // ITEM_BYTES[slot.dtype]} columns, {_COMPILE_AGAIN}",
        )
    return info
