"""Kernels as IR in tests: read from their source and prepared, as the simulator and the CUDA back end get them."""

from __future__ import annotations

from typing import Any

from phalanx.cuda.prepare import prepare_for
from phalanx.ir.archs import Arch
from phalanx.ir.core import Function
from phalanx.ir.types import ArrayType, DType, ScalarType, f32
from phalanx.language.kernel import Kernel
from phalanx.language.reader.reading import read_kernel

Types = tuple[ArrayType | ScalarType, ...]


def array(rank: int, dtype: DType = f32, *, unit_inner: bool = True, aligned: bool = True, whole: bool = False) -> ArrayType:
    return ArrayType(rank, dtype, unit_inner, aligned, whole)


def prepared(kernel: Kernel, types: Types, arch: Arch | None = None, **constants: Any) -> Function:
    return prepare_for(read_kernel(kernel, types, kernel.bind_constants(constants)).function, arch)
