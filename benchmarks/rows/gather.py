"""Rows by index against torch, on a GPU, alternating in one process: gather_rows, scatter_rows, scatter_add_rows.

The two numbers: every kept row is read once and written once, so the floor is 2 x bytes of the rows over the memory's
bandwidth; the device copy of as many bytes, measured beside, is what the memory gives. There is no arithmetic.
"""

from __future__ import annotations

import torch

from benchmarks.common import machine
from phalanx.kernels.gather import MoveConfig, TileConfig, choose_tile, gather_rows, scatter_add_rows, scatter_rows

SHAPES = ((262144, 131072, 4096), (262144, 131072, 1024), (1048576, 262144, 256), (65536, 32768, 16384))
NARROW = (32, 64, 128, 256, 512, 1024, 2048)
"""Rows of a CTA that are tried for narrow ones."""
LARGEST = 1 << 14
"""Elements of a CTA that its registers have room for, with what it knows of them."""
RINGS = ((1, 24, 8), (2, 12, 3), (2, 12, 6), (4, 6, 2), (4, 6, 3), (2, 6, 2, 2), (1, 12, 4, 2), (1, 6, 2, 4))
"""Rows of 8 KiB a stage, stages, lag, CTAs of an SM; for shorter rows as many more."""


def measure(rows: int, moved: int, columns: int, rounds: int, tune: bool) -> list[dict[str, object]]:
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    part = torch.randn(moved, columns, device="cuda", dtype=torch.bfloat16)
    out, other = torch.empty_like(part), torch.empty_like(part)
    idx = torch.randint(0, rows, (moved,), device="cuda")
    places = torch.randperm(rows, device="cuda")[:moved]
    assert torch.equal(gather_rows(x, idx), torch.index_select(x, 0, idx))
    check = x.clone()
    assert torch.equal(scatter_rows(part, places, check), x.clone().index_copy_(0, places, part))
    del check
    configs: list[MoveConfig | TileConfig] = [choose_tile(columns, 2, moves=True)]
    if tune and columns <= 4096:
        configs += [MoveConfig(columns, ring[0] * 4096 // columns, *ring[1:]) for ring in RINGS]
        configs += [MoveConfig(columns, ring[0] * 2048 // columns, *ring[1:]) for ring in RINGS if columns < 4096]
    found = []
    for config in configs:
        sums = torch.zeros(rows, columns, device="cuda", dtype=torch.bfloat16)
        runs: dict[str, machine.Run] = {
            "copy": lambda: other.copy_(part),
            "gather": lambda config=config: gather_rows(x, idx, out=out, config=config),
            "index_select": lambda: torch.index_select(x, 0, idx, out=other),
            "scatter": lambda config=config: scatter_rows(part, places, x, config=config),
            "index_copy": lambda: x.index_copy_(0, places, part),
            "scatter_add": lambda sums=sums: scatter_add_rows(part, places, sums),
            "index_add": lambda sums=sums: sums.index_add_(0, places, part),
        }
        nbytes = 2 * part.nbytes
        repeats = max(3, int(2e10 / nbytes))
        times: dict[str, float] = {}
        for group in (("copy", "gather", "index_select"), ("copy", "scatter", "index_copy"), ("scatter_add", "index_add")):
            found_now = machine.medians({name: runs[name] for name in group}, rounds, repeats)
            times |= {f"copy beside {group[1]}" if name == "copy" else name: t for name, t in found_now.items()}
        speed = {name: nbytes / time / 1e6 for name, time in times.items()}
        found.append({
            "shape": [rows, moved, columns], "config": vars(config), "gbs": speed,
            "gather_vs_index_select": times["index_select"] / times["gather"],
            "gather_vs_copy": times["copy beside gather"] / times["gather"],
            "scatter_vs_index_copy": times["index_copy"] / times["scatter"],
            "scatter_vs_copy": times["copy beside scatter"] / times["scatter"],
            "scatter_add_vs_index_add": times["index_add"] / times["scatter_add"],
        })
        row = found[-1]
        print(
            f"{moved:>7} of {rows:>7} x {columns:<5} {config}: gather {speed['gather']:5.0f} GB/s, "
            f"{row['gather_vs_index_select']:.3f} of index_select's, "
            f"{row['gather_vs_copy']:.3f} of the copy's; scatter {speed['scatter']:5.0f}, "
            f"{row['scatter_vs_index_copy']:.3f} of index_copy_'s; "
            f"add {row['scatter_add_vs_index_add']:.3f} of index_add_'s",
            flush=True,
        )
    return found


def measure_narrow(columns: int, rounds: int) -> list[dict[str, object]]:
    """Narrow rows that are stored by index, by rows of a CTA, beside `index_copy_`: all are random sectors of memory."""
    moved = (1 << 28) // (2 * columns)
    x, part = (torch.randn(count, columns, device="cuda", dtype=torch.bfloat16) for count in (2 * moved, moved))
    places = torch.randperm(2 * moved, device="cuda")[:moved]
    chosen = choose_tile(columns, 2, moves=True)
    tiles = [TileConfig(rows, chosen.width) for rows in NARROW if rows * columns >= 128]
    configs = dict.fromkeys([chosen, *[tile for tile in tiles if tile.rows * tile.width <= LARGEST]])
    runs: dict[str, machine.Run] = {
        f"{config.rows} rows": lambda config=config: scatter_rows(part, places, x, config=config) for config in configs
    } | {"index_copy_": lambda: x.index_copy_(0, places, part)}  # fmt: skip
    times = machine.medians(runs, rounds, 20)
    ratios = {name: times["index_copy_"] / time for name, time in times.items()}
    said = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
    print(f"{moved:>9} x {columns}: {chosen.rows} rows are chosen; speed over index_copy_'s: {said}", flush=True)
    return [{"shape": [2 * moved, moved, columns], "chosen": vars(chosen), "ms": times}]


def main() -> None:
    parser = machine.arguments(__doc__, 7)
    parser.add_argument("--tune", action="store_true", help="try several rings, too")
    parser.add_argument("--first", action="store_true", help="only the first shape")
    parser.add_argument("--narrow", type=int, nargs="+", help="instead: scatter rows of so many columns")
    options = parser.parse_args()
    results = []
    for columns in options.narrow or ():
        results += measure_narrow(columns, options.rounds)
        machine.save(options.json, {"rows": results})
    for shape in () if options.narrow else SHAPES[:1] if options.first else SHAPES:
        results += measure(*shape, options.rounds, options.tune)
    machine.save(options.json, {"rows": results})


if __name__ == "__main__":
    main()
