"""`python -m golden.choices FILE` writes what the library chooses for thousands of products, matrices and rows, a line each.

Two commits choose the same exactly if the files that they write are equal (`diff`). The cases are drawn from a seed. Run it
with `PYTHONPATH=src:tests`. `tests/kernels/test_choices.py` keeps a number over the lines of each kind.

Two kinds of lines: what a function that chooses returns, on several devices; and what a public function of the library
launches on NumPy arrays of some shape, the kernels replaced by recorders, so that the shapes can be as large as on a GPU.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np

import phalanx as px
from phalanx.kernels import gather, kv_cache
from phalanx.kernels.products import group_tiles, grouped, grouped_split, matmul_config, moe, split_k
from phalanx.kernels.rowwise import cross_entropy, losses, norms, row_config, softmax, stream_config, teams
from phalanx.runtime.device.devices import Device

matmul = sys.modules["phalanx.kernels.products.matmul"]  # the name is the function's in its package
TYPES = (ml_dtypes.bfloat16, np.float16, np.float32)
HALVES = (ml_dtypes.bfloat16, np.float16)
COUNT = 1000
SMS = (132, 132, 132, 114, 78, 148)


def size(rng: random.Random, most: int) -> int:
    """A length up to `most`, small ones as often as large ones; often a multiple of a power of two."""
    drawn = rng.randint(1, 1 << rng.randint(0, most.bit_length()))
    step = rng.choice((1, 1, 8, 64, 128, 256))
    return max(1, min(most, -(-drawn // step) * step))


def array(shape: tuple[int, ...], dtype: Any, step: int = 0) -> np.ndarray:
    """A matrix whose rows are `step` elements longer than they look, without memory behind it but for 64 elements."""
    pitch = (shape[-1] + step) * np.dtype(dtype).itemsize
    strides = [np.dtype(dtype).itemsize, pitch]
    for extent in shape[-2:0:-1]:
        strides.append(strides[-1] * extent)
    return np.lib.stride_tricks.as_strided(np.zeros(64, dtype), shape, tuple(reversed(strides[: len(shape)])))


def machine(rng: random.Random) -> Device:
    return Device("some", "sm_90a", rng.choice(SMS), 50 << 20, 232448, None)


def problem(rng: random.Random) -> Any:
    """A product; half of them have few rows or columns and a large other operand."""
    few = rng.random() < 0.5
    m, n, k = size(rng, 600 if few else 20000), size(rng, 30000), size(rng, 30000)
    if few:
        n, k = max(n, rng.randint(1000, 9000)), max(k, 8 * rng.randint(100, 1000))
        m, n = (n, m) if rng.random() < 0.5 else (m, n)
    itemsize = 2 if few else rng.choice((2, 2, 2, 1))
    by_k = (True, True) if itemsize == 1 else (rng.random() < 0.8, rng.random() < 0.8)
    return matmul_config.Problem(
        m, n, k, 1 if few else rng.choice((1, 1, 1, 3, 16)), itemsize, rng.choice((2, 2, 4)), by_k,
        rng.choice((0, 0, 0, 2, 4)), rng.random() < 0.8, rng.random() < 0.2,
    )  # fmt: skip


def choosers(rng: random.Random, count: int) -> Iterator[tuple[str, str, Any]]:
    """Kind, question and answer of the functions that choose."""
    for number in range(count):
        asked, on = problem(rng), machine(rng)
        yield "tiles", f"{asked} {on.sms}", matmul_config.choose(asked, on)
        yield "side", f"{asked} {on.sms}", matmul_config.split_side(asked, on)
        if number % 8 == 0:
            shape = (rng.randint(1, 512), size(rng, 30000), size(rng, 30000))
            yield "split", f"{shape}", split_k.choose_split(*shape)
        shape4 = (size(rng, 100000), rng.randint(1, 256), size(rng, 30000), size(rng, 30000))
        yield "grouped", f"{shape4}", grouped.choose_grouped(*shape4)
        columns, itemsize = size(rng, 1 << 20), rng.choice((2, 4))
        options = {name: rng.random() < 0.4 for name in ("weighted", "centered", "aligned", "reads")}
        held = rng.choice((6, 8))
        yield "rows", f"{columns} {itemsize} {held} {options}", row_config.choose(columns, itemsize, held, **options)
        size(rng, 64), rng.choice((4096, 8192, 65536)), rng.randint(0, 2)  # what follows is drawn as it was
        width, item, sequences = size(rng, 200000), rng.choice((1, 2, 4, 8)), rng.randint(1, 300)
        yield "move", f"{width} {item}", (
            gather.choose(width, item), gather.choose_tile(width, item), gather.choose_tile(width, item, moves=True),
        )  # fmt: skip
        yield "slices", f"{width} {item} {sequences}", kv_cache.choose_slices(width, item, sequences, on.sms)


class Recorder:
    """Stands for a kernel: notes the grid and the constants of a launch, and with what strides it was called."""

    def __init__(self, name: str, launches: list[str]) -> None:
        self.name, self.launches = name, launches

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **constants: Any) -> None:
            arrays = [x.strides if isinstance(x, np.ndarray) else x for x in args]
            self.launches.append(f"{self.name}[{grid}] {arrays} {sorted(constants.items(), key=str)}")

        return launch


KERNELS = (
    (matmul, "matmul_tiles"), (split_k, "split_ring"), (grouped, "grouped_ring"), (moe, "expert_ring"),
    (grouped_split, "grouped_split_ring"), (group_tiles, "plan_groups"), (softmax, "softmax_rows"),
    (norms, "rms_norm_rows"), (norms, "layer_norm_rows"), (cross_entropy, "cross_entropy_rows"),
    (gather, "gather_ring"), (gather, "scatter_ring"),
    (gather, "gather_tiles"), (gather, "scatter_tiles"), (kv_cache, "compact_ring"), (losses, "loss_rows"),
    (losses, "join_pieces"),
)  # fmt: skip


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Kernels that note their launches in a list."""
    launches: list[str] = []
    patches: list[Any] = [patch.object(module, name, Recorder(name, launches)) for module, name in KERNELS]
    for table in (norms.RUNS, softmax.RUNS):
        runs = {kind: (launch, Recorder(kernel.name, launches)) for kind, (launch, kernel) in table.items()}
        patches.append(patch.dict(table, runs))
    for each in patches:
        each.start()
    try:
        yield launches
    finally:
        for each in patches:
            each.stop()


def product_call(rng: random.Random) -> tuple[str, Callable[[], Any]]:
    dtype = rng.choice((*HALVES, ml_dtypes.float8_e4m3fn))
    m, n, k = size(rng, 600 if rng.random() < 0.5 else 20000), size(rng, 20000), 16 * size(rng, 1000)
    batch = (rng.randint(2, 5),) if rng.random() < 0.2 else ()
    stacked = bool(batch) and rng.random() < 0.5
    a = array((*batch, k, m), dtype, (-m) % 16).swapaxes(-1, -2) if rng.random() < 0.2 and dtype in HALVES else None
    a = array((*batch, m, k), dtype, rng.choice((0, 0, 16))) if a is None else a
    b = array((*(() if stacked else batch), n, k), dtype).swapaxes(-1, -2)
    if dtype in HALVES and rng.random() < 0.3:
        b = array((*(() if stacked else batch), k, n), dtype, (-n) % 8)
    bias = rng.choice((None, None, array((n,), np.float32), array((m, n), np.float32), array((*batch, m, n), np.float32)))
    number = rng.choice((None, None, 0.5))
    scale = rng.choice((None, None, array((m, 1), np.float32)))
    options = {"activation": rng.choice((None, "relu", "gelu")), "scale_a": scale, "scale_b": number}
    told = [x if x is None else (x.shape, x.strides) for x in (a, b, bias, scale)]
    return f"{np.dtype(dtype)} {told} {options['activation']} {number}", lambda: px.kernels.matmul(a, b, bias, **options)


def group_call(rng: random.Random) -> tuple[str, Callable[[], Any]]:
    groups, n, k, count = rng.randint(1, 40), 8 * size(rng, 2000), 8 * size(rng, 1500), size(rng, 40000)
    (x, w), sizes = (array(shape, HALVES[0]) for shape in ((count, k), (groups, n, k))), array((groups,), np.int32)
    which, idx = rng.randrange(3), array((count,), np.int64)
    call = (
        lambda: px.kernels.grouped_matmul(x, w, sizes),
        lambda: px.kernels.moe_matmul(x, w, sizes),
        lambda: px.kernels.moe_gather_matmul(x, idx, w, sizes),
    )[which]
    return f"{which} {count} {groups} {n} {k}", call


def row_call(rng: random.Random) -> tuple[str, Callable[[], Any]]:
    dtype, count, columns = rng.choice(TYPES), size(rng, 500), size(rng, 1 << 19)
    if rng.random() < 0.2:
        columns = size(rng, 32) * 8192
    x, vector = array((count, columns), dtype), array((columns,), dtype)
    which, targets = rng.randrange(5), array((count,), np.int64)
    call = (
        lambda: px.kernels.softmax(x),
        lambda: px.kernels.log_softmax(x),
        lambda: px.kernels.rms_norm(x, vector if columns % 2 else None),
        lambda: px.kernels.layer_norm(x, vector, None if count % 3 else vector),
        lambda: px.kernels.cross_entropy(x, targets, reduction="none"),
    )[which]
    return f"{which} {count} {columns} {np.dtype(dtype)}", call


def move_call(rng: random.Random) -> tuple[str, Callable[[], Any]]:
    dtype, count, columns = rng.choice(TYPES), size(rng, 100), size(rng, 20000)
    x, y, idx = array((count, columns), dtype), np.empty((count, columns), dtype), array((count,), np.int32)
    which = rng.randrange(3)
    call = (
        lambda: px.kernels.gather_rows(x, idx, out=y),
        lambda: px.kernels.scatter_rows(x, idx, y),
        lambda: px.kernels.scatter_add_rows(x, idx, y),
    )[which]
    return f"{which} {count} {columns} {np.dtype(dtype)}", call


CALLS = {"matmul": product_call, "groups": group_call, "rowwise": row_call, "moves": move_call}


def launches(rng: random.Random, count: int) -> Iterator[tuple[str, str, Any]]:
    """Kind, question and what public functions launch."""
    with recorded() as seen:
        chunks = patch.object(stream_config, "clusters_at_once", lambda *_: 15)
        dealt = patch.object(teams, "clusters_at_once", lambda *_: 15)
        with chunks, dealt:
            for _ in range(count):
                for kind, draw in CALLS.items():
                    asked, call = draw(rng)
                    del seen[:]
                    call()
                    yield kind, asked, list(seen)


def choices(count: int) -> Iterator[tuple[str, str]]:
    """`count` cases of each kind: the kind, and a line."""
    for source in (choosers, launches):
        for kind, asked, answer in source(random.Random(14), count):
            yield kind, f"{asked} -> {answer}"


def main(path: Path) -> None:
    """Writes a line for each case, and prints how many there are."""
    lines = [f"{kind}: {line}" for kind, line in choices(COUNT)]
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} choices")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
