"""Helpers for tests of Blackwell text on the CPU: where the texts are, and scales in the order that hardware wants."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HOST = Path(__file__).parents[1] / "host"


def kernel_text(name: str, head: bool = True) -> str:
    """A kernel that was written by hand, with the functions it uses before it, or without this `head`."""
    text = (HOST / name).read_text()
    return f"{(HOST / 'blackwell.cuh').read_text()}\n{text}" if head else text


def packed_scales(scales: np.ndarray) -> np.ndarray:
    """Scales (rows, blocks of K) as words of four, 128 words to 128 rows: row r % 32, then r // 32, then the four."""
    rows, blocks = scales.shape
    order = scales.reshape(rows // 128, 4, 32, blocks // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(order).reshape(rows // 128, blocks * 128).view(np.uint32)


def scaled(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) * scales


KINDS = {
    "f16": "f16", "tf32": "tf32", "f8f6f4": "f8f6f4", "i8": "i8",
    "mxf8f6f4": "mxf8f6f4.block_scale.block32", "mxf4": "mxf4.block_scale.block32",
    "nvf4 per 16": "mxf4nvf4.block_scale.block16", "nvf4 per 32": "mxf4nvf4.block_scale.scale_vec::2X",
}  # fmt: skip
FURTHER = {
    "lanes": "f16 [%0], %1, %2, %3, {%8, %9, %9, %10}, p", "shift": "f16 [%0], %1, %2, %3, p, 3",
    "lanes and shift": "f16.collector::a::lastuse [%0], %1, %2, %3, {%9, %11, %9, %9}, p, 1",
    "fill": "f16.collector::a::fill [%0], %1, %2, %3, p",
}  # fmt: skip


def instruction_text(group: int) -> str:
    """A kernel of one instruction; which of them comes in the words."""
    forms = []
    for kind in KINDS.values():
        scales = "[%4], [%5], " if "block_scale" in kind else ""
        forms += [f"{kind} [%0], {left}, %2, %3, {scales}p" for left in ("%1", "[%7]")]
    forms += FURTHER.values() if group == 1 else []
    switch = "\n".join(
        f'    case {n}: asm volatile("{{ .reg .pred p; setp.ne.b32 p, %6, 0;'
        f' tcgen05.mma.cta_group::{group}.kind::{form}; }}" :: "r"(d), "l"(a), "l"(b), "r"(word), "r"(sa), "r"(sb), '
        '"r"(more), "r"(ta), "r"(255u), "r"(0u), "r"(0x80000000u), "r"(1u) : "memory"); break;'
        for n, form in enumerate(forms)
    )
    return kernel_text("one_instruction.cu").replace("GROUP", str(group)).replace("    CASES;", switch)


def one_instruction(group: int, kind: str, a_in_tensor_memory: bool) -> tuple[str, int]:
    """The text, and the number of an instruction in it."""
    return instruction_text(group), 2 * list(KINDS).index(kind) + a_in_tensor_memory
