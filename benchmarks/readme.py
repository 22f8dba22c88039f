"""Writes the tables of measurements in README.md, docs/ and examples/ from the files in `benchmarks/results/`.

    python benchmarks/readme.py
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from phalanx.runtime.device.timing import geometric_mean

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
GEMMS = {
    "v6": "bf16 GEMM v6",
    "v7": "bf16 GEMM v7",
    "matmul": "`px.kernels.matmul`, bf16",
    "triton": "(Triton's persistent TMA matmul, bf16)",
    "tilelang": "(TileLang's matmul, bf16)",
}
SIMPLE_PEERS = {
    "cublas": "cuBLAS", "triton": "Triton, three settings", "tilelang": "TileLang's `T.Pipelined`, three settings",
}  # fmt: skip

DRAWN = ("matmul", "few_rows", "fp8", "grouped", "gathered", "batched", "rows", "index")
DRAWN_OPS = {
    "matmul": "`matmul`, 16 bits", "few_rows": "`matmul`, 1 to 512 rows", "fp8": "`matmul`, fp8",
    "grouped": "`grouped_matmul`", "batched": "`matmul`, batches",
}  # fmt: skip
PEERS = {"copy": "device copy's bandwidth", "copy of half": "device copy's bandwidth"}

REGIMES = {"steady": "steady", "burst": "burst", "turns": "in turns"}


def result(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def where(data: dict[str, Any]) -> str:
    machine = data["machine"]
    return f"{machine['card']}, driver {machine['driver']}, {machine['date']}, commit {machine['commit']}"


def gemm_ratios(data: dict[str, Any], mode: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in data["rows"]:
        if row["mode"] == mode:
            found.setdefault(row["contender"], []).append(row["ratio"])
    return found


SHOWN = (
    "`px.kernels.matmul`, bf16, burst", "`px.kernels.matmul`, bf16, steady", "`matmul`, 16 bits", "`matmul`, 1 to 512 rows",
    "`matmul`, fp8,", "`grouped_matmul`, 32 drawn", "`softmax`", "`rms_norm`", "`layer_norm`", "`gather_rows`",
)  # fmt: skip
"""How the lines begin that the project's README shows."""


class Line(NamedTuple):
    """A line of the table of measurements: what was measured against whom, the ratio, the script, and the file with it."""

    what: str
    against: str
    found: str
    script: str
    source: dict[str, Any]

    def __str__(self) -> str:
        commit = self.source["machine"]["commit"]
        return f"| {self.what} | {self.against} | {self.found} | `{self.script}` | {commit} |"


def lines() -> list[Line]:
    """All lines of the table of measurements."""
    return [
        *copy_lines(), *launch_lines(), *gemm_lines(), *steady_lines(), *row_lines(), *gather_lines(), *moe_lines(),
        *simple_lines(), *product_lines(), *attention_lines(), *drawn_lines(),
    ]


def table(found: list[Line]) -> list[str]:
    """A table of these lines, and where each of their commits was measured."""
    places = dict.fromkeys(where(line.source) for line in found)
    titles = ["| what | against | result | measured by | at |", "| --- | --- | --- | --- | --- |"]
    return [*titles, *map(str, found), "", *(f"{place}." for place in places)]


def shown(found: list[Line]) -> list[Line]:
    """The lines of the project's README: the first that begins like each of `SHOWN`, at the commit of the drawn shapes."""
    drawn = result("anywhere_matmul")
    assert drawn is not None, "benchmarks/results/anywhere_matmul.json is missing"
    commit = drawn["machine"]["commit"]
    here = [line for line in found if line.source["machine"]["commit"] == commit]
    return [next(line for line in here if line.what.startswith(what)) for what in SHOWN]


def spread(ratios: list[float], digits: int, of: str = "") -> str:
    """The geometric mean, and the lowest."""
    counted = f"geometric mean of {len(ratios)} {of}, " if of else ""
    return f"{geometric_mean(ratios):.{digits}f} ({counted}lowest {min(ratios):.{digits}f})"


def copy_lines() -> Iterator[Line]:
    """The ring-buffered copy, in its fastest configuration for each size."""
    copy = result("copy")
    if copy:
        best: dict[tuple[int, ...], float] = {}
        for row in copy["rows"]:
            shape = tuple(row["shape"])
            best[shape] = max(best.get(shape, 0.0), row["ratio"])
        shown = ", ".join(f"{ratio:.2f} ({a} x {b})" for (a, b), ratio in best.items())
        yield Line("ring-buffered TMA copy, f32", "torch's device copy", shown, "benchmarks/rows/device_copy.py", copy)


def launch_lines() -> Iterator[Line]:
    """What a launch takes the host."""
    launch = result("launch")
    if launch:
        shown = f"{launch['ratio']['phalanx, kernel[grid](...)']:.2f} of its time"
        yield Line("a launch from Python, six arguments", "Triton's", shown, "benchmarks/overhead/launch.py", launch)


def gemm_lines() -> Iterator[Line]:
    """The last rungs of the ladder, the library and the peers, by the latest run of each."""
    runs = [data for data in (result("gemm_bursts"), result("gemm_again"), result("gemm")) if data]
    for mode, regime in REGIMES.items():
        for name, title in GEMMS.items():
            for data in runs:
                ratios = gemm_ratios(data, mode).get(name)
                if ratios:
                    shown = spread(ratios, 3, "shapes")
                    yield Line(f"{title}, {regime}", "cuBLAS", shown, "benchmarks/products/gemm.py", data)
                    break


def steady_lines() -> Iterator[Line]:
    """The library's product at the power limit, and the energy of a launch."""
    steady = result("gemm_steady")
    if steady:
        rows = {(row["contender"], tuple(row["shape"])): row for row in steady["rows"] if row["mode"] == "steady"}
        mine = [(row, rows["cublas", shape]) for (name, shape), row in rows.items() if name == "matmul"]
        ratios = [row["ratio"] for row, _ in mine]
        rounds = min(len(row["ms"]) for row, _ in mine)
        shown = f"{spread(ratios, 3, 'shapes')[:-1]}, {rounds} rounds)"
        joules = [row["joules"] / theirs["joules"] for row, theirs in mine if row.get("joules") and theirs.get("joules")]
        if joules:
            shown += f"; {geometric_mean(joules):.3f} of its energy"
        yield Line(f"{GEMMS['matmul']}, steady", "cuBLAS", shown, "phalanx bench gemm --modes steady", steady)


def row_lines() -> Iterator[Line]:
    """Softmax, norms and cross entropy on long rows."""
    data = result("rowwise")
    if data is None:
        return
    for kernel in dict.fromkeys(row["kernel"] for row in data["rows"]):
        shares = [row["share"] for row in data["rows"] if row["kernel"] == kernel]
        what = f"{kernel}, bf16, 4,096 to 262,144 columns"
        yield Line(what, "device copy's bandwidth", spread(shares, 2), "benchmarks/rows/rowwise.py", data)


def gather_lines() -> Iterator[Line]:
    """Rows by index."""
    gather = result("gather")
    if gather:
        gbs = gather["rows"][0]["gbs"]
        shown = f"{gbs['gather'] / gbs['index_select']:.2f}, {gbs['scatter'] / gbs['index_copy']:.2f}"
        what = "gather and scatter of 131,072 rows of 4,096 bf16"
        yield Line(what, "index_select, index_copy_", shown, "benchmarks/rows/gather.py", gather)


def moe_lines() -> Iterator[Line]:
    """The product that gathers its rows."""
    moe = result("moe")
    if moe:
        shown = ", ".join(f"{row['ratio']:.2f} (N = {row['n']:,})" for row in moe["rows"])
        what = f"`moe_gather_matmul`, {moe['rows'][0]['rows']:,} rows of {moe['rows'][0]['k']:,} by index"
        yield Line(what, "index_select, then the grouped product", shown, "benchmarks/products/moe.py", moe)


def simple_times(data: dict[str, Any], part: str, mode: str) -> dict[tuple[str, tuple[int, ...]], float]:
    """The median milliseconds of each contender on each shape."""
    rows = [row for row in data[part]["rows"] if row["mode"] == mode]
    return {(row["contender"], tuple(row["shape"])): statistics.median(row["ms"]) for row in rows}


def simple_lines() -> Iterator[Line]:
    """The short loops that pipeline themselves, beside the library's kernels and the peers, by the later run of each."""
    for part, name, kernel in (("products", "matmul", "matmul"), ("attention", "attention", "library")):
        for mode, earlier in (("steady", "simple"), ("burst", "simple_bursts")):
            runs = [data for data in (result("simple_again"), result(earlier)) if data]
            for peer, title in {kernel: f"`px.kernels.{name}`", **SIMPLE_PEERS}.items():
                for data in runs:
                    times = simple_times(data, part, mode)
                    shapes = [shape for who, shape in times if who == "simple" and (peer, shape) in times]
                    if shapes:
                        what = f"`examples/simple/{name}.py`, {data[part]['lines']['simple']} lines, bf16, {mode}"
                        shown = spread([times[peer, shape] / times["simple", shape] for shape in shapes], 3, "shapes")
                        yield Line(what, title, shown, "benchmarks/products/simple.py", data)
                        break


def product_lines() -> Iterator[Line]:
    """The library's products: fp8, few rows, groups."""
    matmul, small, grouped = result("matmul"), result("small_m"), result("grouped")
    if matmul:
        found = [row for row in matmul["rows"] if row["section"] == "fp8" and row["name"].startswith("per tensor")]
        shown = ", ".join(f"{row['ratio']:.2f} ({row['name'].partition(', ')[2]})" for row in found)
        peer = "`torch._scaled_mm`, fast accumulation"
        yield Line("`px.kernels.matmul`, fp8", peer, shown, "benchmarks/products/matmul.py", matmul)
    if small:
        found = [row for row in small["rows"] if row["cold"] and row["which"] == "chosen"]
        shown = ", ".join(f"{row['ratio']:.2f} ({' x '.join(map(str, row['shape']))})" for row in found[:3])
        what = "`split_k_matmul`'s kernel, few rows, L2 flushed"
        yield Line(what, "cuBLAS", shown, "benchmarks/products/small_m.py", small)
    if grouped:
        ratios = [row["ratios"] for row in grouped["rows"]]
        for name, title in (("cublas loop", "a loop of cuBLAS"), ("torch grouped", "torch's grouped mm")):
            values = [r[name] for r in ratios if r.get(name)]
            if values:
                what = f"`grouped_matmul`, {grouped['groups']} uneven groups"
                yield Line(what, title, spread(values, 2), "benchmarks/products/grouped.py", grouped)


def drawn_lines() -> Iterator[Line]:
    """Shapes that nobody chose: of every operation and regime the geometric mean, the lowest, and how many."""
    for name in DRAWN:
        data = result(f"anywhere_{name}")
        if data is None:
            continue
        found: dict[tuple[str, str, str], list[float]] = {}
        for row in data["rows"]:
            if "ratio" in row:
                found.setdefault((row["op"], row["mode"], row["against"]), []).append(row["ratio"])
        for op, mode in dict.fromkeys((op, mode) for op, mode, _ in found):
            peers = [who for drawn, regime, who in found if (drawn, regime) == (op, mode)]
            ratios = [ratio for who in peers for ratio in found[op, mode, who]]
            against = " or ".join(PEERS.get(who, f"torch's `{who}`") for who in peers)
            what = f"{DRAWN_OPS.get(op, f'`{op}`')}, {len(ratios)} drawn shapes, {mode}"
            yield Line(what, against, spread(ratios, 2), "benchmarks/drawn/anywhere.py", data)


def attention_lines() -> Iterator[Line]:
    """Attention forward and backward."""
    for name, file in (("attention", "forward"), ("attention_backward", "backward")):
        data, title, script = result(name), f"`px.kernels.{name}`", f"benchmarks/attention/{file}.py"
        if data is None:
            continue
        for mode in ("steady", "burst"):
            rows = [row["ms"] for row in data["rows"] if mode in row["ms"]["phalanx"]]
            ratios = [row["cuDNN"][mode] / row["phalanx"][mode] for row in rows]
            if ratios:  # else not measured that way
                yield Line(f"{title}, bf16, {mode}", "cuDNN", spread(ratios, 3, "rows"), script, data)


def ladder() -> list[str]:
    """The table of the GEMM ladder: TFLOP/s and ratio to cuBLAS, in turns."""
    data = result("gemm")
    if data is None:
        return ["Not measured yet: `python -m benchmarks.products.gemm` on an H200."]
    rows = [row for row in data["rows"] if row["mode"] == "turns"]
    contenders = [c for c in dict.fromkeys(row["contender"] for row in rows) if c != "reference"]
    lines = ["| M, N, K | " + " | ".join(contenders) + " |", "| --- |" + " --- |" * len(contenders)]
    for shape in dict.fromkeys(tuple(row["shape"]) for row in rows):
        cells = {row["contender"]: row for row in rows if tuple(row["shape"]) == shape}
        shown = [f"{cells[c]['tflops']:.0f} ({cells[c]['ratio']:.2f})" if c in cells else "" for c in contenders]
        lines.append(f"| {', '.join(map(str, shape))} | " + " | ".join(shown) + " |")
    ratios = gemm_ratios(data, "turns")
    lines.append("| geometric mean | " + " | ".join(f"{geometric_mean(ratios[c]):.3f}" for c in contenders) + " |")
    return [*lines, "", f"TFLOP/s and ratio to cuBLAS, random normal bf16 data, in turns. {where(data)}."]


def replace(path: Path, marker: str, lines: list[str]) -> None:
    """Puts `lines` between the marker's comments."""
    text = path.read_text()
    pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- end {marker} -->)", re.DOTALL)
    assert pattern.search(text), f"{path.name} has no {marker} section"
    path.write_text(pattern.sub(lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text))


if __name__ == "__main__":
    measured = lines()
    replace(ROOT / "README.md", "measured", table(shown(measured)))
    replace(ROOT / "docs" / "measurements.md", "measured", table(measured))
    replace(ROOT / "examples" / "gemm" / "README.md", "measured", ladder())
