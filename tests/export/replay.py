"""Exported functions without a GPU: what their C asks of the stub driver runs in the simulator.

The C function is compiled and called with addresses of arrays that are not there. The launches that the stub writes down
have packed parameters, as a kernel gets them; their addresses are looked up among the arrays, and the kernel runs on what
lies there.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from export.stub import known, run
from phalanx.cuda.abi import ArraySlot
from phalanx.runtime.device.arrays import numpy_dtype
from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.export import write_files
from phalanx.runtime.exporting.function_export import function_export
from phalanx.sim.run import simulate

STREAM = 0x5000
ARCH = "sm_90a"


def exported(
    folder: Path, function: Any, *args: Any, name: str = "", sizes: dict[str, int], **options: Any
) -> CFunction:
    """An exported function with its files in a folder."""
    made = function_export(function, args, options, [ARCH], name or function.__name__, sizes)
    write_files(made, folder)
    return made


class Memory:
    """Arrays at addresses that the C function is told."""

    def __init__(self) -> None:
        self.arrays: list[tuple[int, np.ndarray]] = []

    def put(self, x: np.ndarray, misplaced: int = 0) -> int:
        """The address of a contiguous array."""
        address = 0x10000000 * (len(self.arrays) + 1) + misplaced
        self.arrays.append((address, x))
        return address

    def view(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> np.ndarray:
        """What lies at an address, as a kernel sees it; inside of one array."""
        for start, x in self.arrays:
            if start <= address <= start + x.nbytes:
                element = numpy_dtype(dtype)
                flat = np.frombuffer(x.reshape(-1).view(np.uint8), np.uint8)[address - start :].view(element)
                reach = sum((size - 1) * step for size, step in zip(shape, strides))
                assert 0 in shape or reach < flat.size, "a launch reaches beyond an array"
                return np.lib.stride_tricks.as_strided(flat, shape, [step * element.itemsize for step in strides])
        raise AssertionError(f"a launch has an address that it was not told: {address:#x}")


def call_text(
    made: CFunction, sizes: dict[str, int], pointers: list[int], strides: dict[str, str] | None = None,
    numbers: dict[str, float] | None = None,
) -> str:
    """The call in C: arrays and results by address, NULL or a name for their strides; numbers by name."""
    parts = ["stream", *(str(sizes[name]) for name in made.sizes)]
    rest = list(pointers)
    for given in made.arguments:
        if given.name in (numbers or {}):
            parts.append(repr((numbers or {})[given.name]))
        else:
            parts += [f"{rest.pop(0):#x}ull", (strides or {}).get(given.name, "NULL")]
    parts += [f"{rest.pop(0):#x}ull" for _ in made.results]
    if made.has_workspace:
        parts += [f"{rest.pop(0):#x}ull" if rest else "0", "&bytes"]
    return f"{made.name}({', '.join(parts)})"


def ran(folder: Path, made: CFunction, calls: list[str], before: str = "") -> list[dict[str, Any]]:
    """What the C function asks the stub driver for in these calls; a line with each status, and with `bytes` behind it."""
    codes = {made.code_name(n, each.arch): each.signature for n, of in enumerate(made.programs) for each in of}
    texts = [
        f'  {{ int status = {call}; printf("{{\\"call\\": \\"status\\", \\"value\\": %d, \\"bytes\\": %lld}}\\n", status, '
        "(long long)bytes); }\n"
        for call in calls
    ]
    start = f"  CUstream stream = (CUstream){STREAM:#x};\n  int64_t bytes = 1ll << 40;\n  stub_know();\n"
    body = f"{start}{before}{''.join(texts)}  return 0;\n"
    return run(folder, made.name, f"{known(codes)}int main(void) {{\n{body}}}\n")


def statuses(calls: list[dict[str, Any]]) -> list[int]:
    return [call["value"] for call in calls if call["call"] == "status"]


def simulate_launches(made: CFunction, calls: list[dict[str, Any]], memory: Memory) -> None:
    """Runs the launches in the simulator, on the arrays whose addresses they have."""
    for launch in calls:
        if launch["call"] != "launch":
            continue
        assert launch["stream"] == STREAM
        specialisation = made.endings.specialisations[launch["program"]]
        values: list[Any] = []
        slots = made.programs[launch["program"]][0].signature.given
        for slot, text in zip(slots, launch["parameters"]):
            numbers = struct.unpack(slot.format, bytes.fromhex(text))
            if isinstance(slot, ArraySlot):
                strides, shape = numbers[1 : 1 + slot.rank], numbers[1 + slot.rank :]
                values.append(memory.view(numbers[0], shape, strides, slot.dtype))
            else:
                values.append(np.float32(numbers[0]) if slot.dtype == "f32" else numbers[0])
        simulate(specialisation.prepared, tuple(launch["grid"]), values)


def manifest(folder: Path, made: CFunction) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{made.name}.json").read_text())
    return found
