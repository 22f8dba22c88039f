"""Every tile kernel on the GPU: the simulator's results. As a program it prints a summary of all mismatches."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import support.memory_cases  # noqa: F401  more of CASES
from support.tile_cases import CASES, Case, family, mismatch, simulated

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

# NumPy element type -> torch's, and a plain integer type of the same size to carry the bits.
_TORCH = {
    "float64": "float64",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint8": "uint8",
    "uint32": "uint32",
    "uint64": "uint64",
    "uint16": "uint16",
    "bool": "bool",
}
_CARRIER = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def to_gpu(value: Any) -> Any:
    """The array on the GPU, with the same strides and the same alignment of its start."""
    if not isinstance(value, np.ndarray):
        return value
    base = value
    while isinstance(base.base, np.ndarray):
        base = base.base
    item = value.dtype.itemsize
    raw = torch.from_numpy(np.frombuffer(base.tobytes(), np.uint8).copy()).cuda()
    if any(stride < 0 for stride in value.strides):
        pytest.skip("torch has no negative strides")
    start = value.ctypes.data - base.ctypes.data
    if base is not value:  # as far from a 256-byte boundary as on the host
        shift = base.ctypes.data % 256
        moved = torch.zeros(raw.numel() + 512, dtype=torch.uint8, device="cuda")
        first = -moved.data_ptr() % 256 + shift
        moved[first : first + raw.numel()] = raw
        raw = moved[first : first + raw.numel()]
    length = (raw.numel() - start) // item * item
    flat = raw[start : start + length]
    if flat.data_ptr() % item:
        flat = flat.clone()
    typed = flat.view(getattr(torch, _TORCH[value.dtype.name]))
    return torch.as_strided(typed, value.shape, tuple(s // item for s in value.strides), typed.storage_offset())


def to_host(tensor: Any, like: np.ndarray) -> np.ndarray:
    carrier = torch.from_numpy(np.zeros(1, _CARRIER[like.dtype.itemsize])).dtype
    return tensor.view(carrier).cpu().contiguous().numpy().view(like.dtype).reshape(like.shape)


def run(case: Case) -> str | None:
    want = simulated(case)
    host = case.args(np.random.default_rng(0))
    args = [to_gpu(value) for value in host]
    case.kernel[case.grid](*args, **case.constants)
    torch.cuda.synchronize()
    got = [to_host(a, h) if isinstance(h, np.ndarray) else h for a, h in zip(args, host, strict=True)]
    return mismatch(case, got, want)


@pytest.mark.parametrize("name", CASES)
def test_equals_the_simulator(name: str) -> None:
    wrong = run(CASES[name])
    assert wrong is None, wrong


def main() -> int:
    """Runs everything (or the families named on the command line) and prints one line per mismatch."""
    wanted = [name for name in CASES if not sys.argv[1:] or family(name) in sys.argv[1:]]
    problems: list[str] = []
    for name in wanted:
        try:
            wrong = run(CASES[name])
        except pytest.skip.Exception:
            continue
        except Exception as error:
            wrong = f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
        if wrong is not None:
            problems.append(wrong)
            print(wrong, flush=True)
    print(f"{len(wanted)} kernels, {len(problems)} wrong")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
