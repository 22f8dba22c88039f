"""Writes the measured tables of the READMEs from the files in `benchmarks/results/`: `python benchmarks/readme.py`."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

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

DRAWN = ("matmul", "few_rows", "fp8", "grouped", "batched", "rows", "index")
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


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def gemm_ratios(data: dict[str, Any], mode: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in data["rows"]:
        if row["mode"] == mode:
            found.setdefault(row["contender"], []).append(row["ratio"])
    return found


def summary() -> list[str]:
    """The table of the project's README."""
    lines = ["| what | against | result | measured by |", "| --- | --- | --- | --- |"]
    copy, launch, gemm, again = result("copy"), result("launch"), result("gemm"), result("gemm_again")
    rows, gather = result("rowwise"), result("gather")
    if copy:
        best: dict[tuple[int, ...], float] = {}
        for row in copy["rows"]:
            shape = tuple(row["shape"])
            best[shape] = max(best.get(shape, 0.0), row["ratio"])
        shown = ", ".join(f"{ratio:.2f} ({a} x {b})" for (a, b), ratio in best.items())
        lines.append(f"| ring-buffered TMA copy, f32 | torch's device copy | {shown} | `benchmarks/device_copy.py` |")
    if launch:
        ratio = launch["ratio"]["phalanx, kernel[grid](...)"]
        shown = f"{ratio:.2f} of its time"
        lines.append(f"| a launch from Python, six arguments | Triton's | {shown} | `benchmarks/launch.py` |")
    if gemm:
        for mode, regime in REGIMES.items():
            ratios = gemm_ratios(gemm, mode) | (gemm_ratios(again, mode) if again else {})  # the later ones of each
            for name, title in GEMMS.items():
                if name in ratios:
                    lines.append(
                        f"| {title}, {regime} | cuBLAS | {mean(ratios[name]):.3f} (geometric mean of "
                        f"{len(ratios[name])} shapes, lowest {min(ratios[name]):.3f}) | `benchmarks/gemm.py` |"
                    )
    lines += steady_lines()
    if rows:
        for kernel in dict.fromkeys(row["kernel"] for row in rows["rows"]):
            shares = [row["share"] for row in rows["rows"] if row["kernel"] == kernel]
            lines.append(
                f"| {kernel}, bf16, 4,096 to 262,144 columns | device copy's bandwidth | {mean(shares):.2f} (lowest "
                f"{min(shares):.2f}) | `benchmarks/rowwise.py` |"
            )
    if gather:
        first = gather["rows"][0]
        gbs = first["gbs"]
        lines.append(
            f"| gather and scatter of 131,072 rows of 4,096 bf16 | index_select, index_copy_ | "
            f"{gbs['gather'] / gbs['index_select']:.2f}, {gbs['scatter'] / gbs['index_copy']:.2f} | `benchmarks/gather.py` |"
        )
    moe = result("moe")
    if moe:
        shown = ", ".join(f"{row['ratio']:.2f} (N = {row['n']:,})" for row in moe["rows"])
        tokens, k = f"{moe['rows'][0]['rows']:,}", f"{moe['rows'][0]['k']:,}"
        lines.append(
            f"| `moe_gather_matmul`, {tokens} rows of {k} by index | index_select, then the grouped product | {shown} | "
            "`benchmarks/moe.py` |"
        )
    lines += simple_lines()
    lines += product_lines()
    lines += attention_lines()
    lines += drawn_lines()
    named = (
        "copy", "launch", "gemm", "gemm_again", "gemm_steady", "matmul", "small_m", "grouped", "rowwise", "gather", "moe",
        "attention", "attention_backward", "simple", "simple_bursts", "simple_again", "anywhere_matmul", "anywhere_few_rows",
    )  # fmt: skip
    sources = [data for data in map(result, named) if data]
    places = dict.fromkeys(where(data) for data in sources)
    return [*lines, "", *(f"{place}." for place in places)]


def steady_lines() -> list[str]:
    """The library's product at the power limit, and the energy of a launch."""
    steady = result("gemm_steady")
    if not steady:
        return []
    rows = {(row["contender"], tuple(row["shape"])): row for row in steady["rows"] if row["mode"] == "steady"}
    mine = [(row, rows["cublas", shape]) for (name, shape), row in rows.items() if name == "matmul"]
    ratios = [row["ratio"] for row, _ in mine]
    rounds = min(len(row["ms"]) for row, _ in mine)
    shown = f"{mean(ratios):.3f} (geometric mean of {len(ratios)} shapes, lowest {min(ratios):.3f}, {rounds} rounds)"
    joules = [row["joules"] / theirs["joules"] for row, theirs in mine if row.get("joules") and theirs.get("joules")]
    if joules:
        shown += f"; {mean(joules):.3f} of its energy"
    return [f"| {GEMMS['matmul']}, steady | cuBLAS | {shown} | `phalanx bench gemm --modes steady` |"]


def simple_times(data: dict[str, Any] | None, part: str, mode: str) -> dict[tuple[str, tuple[int, ...]], float]:
    """The median milliseconds of each contender on each shape."""
    rows = data[part]["rows"] if data else []
    return {(row["contender"], tuple(row["shape"])): statistics.median(row["ms"]) for row in rows if row["mode"] == mode}


def simple_lines() -> list[str]:
    """The short loops that pipeline themselves, beside the library's kernels and the peers."""
    lines = []
    again = result("simple_again")
    for part, name, kernel in (("products", "matmul", "matmul"), ("attention", "attention", "library")):
        for mode, data in (("steady", result("simple")), ("burst", result("simple_bursts"))):
            if data is None:
                continue
            earlier, later = simple_times(data, part, mode), simple_times(again, part, mode)
            for peer, title in {kernel: f"`px.kernels.{name}`", **SIMPLE_PEERS}.items():
                # Ratios are of one process: the later one where the peer took part in it.
                times = later if any(who == peer for who, _ in later) else earlier
                shapes = [shape for who, shape in times if who == "simple" and (peer, shape) in times]
                values = [times[peer, shape] / times["simple", shape] for shape in shapes]
                if values:
                    lines.append(
                        f"| `examples/simple/{name}.py`, {data[part]['lines']['simple']} lines, bf16, {mode} | {title} | "
                        f"{mean(values):.3f} (geometric mean of {len(values)} shapes, lowest {min(values):.3f}) | "
                        "`benchmarks/simple.py` |"
                    )
    return lines


def product_lines() -> list[str]:
    """The library's products: fp8, few rows, groups."""
    lines = []
    matmul, small, grouped = result("matmul"), result("small_m"), result("grouped")
    if matmul:
        found = [row for row in matmul["rows"] if row["section"] == "fp8" and row["name"].startswith("per tensor")]
        shown = ", ".join(f"{row['ratio']:.2f} ({row['name'].partition(', ')[2]})" for row in found)
        peer = "`torch._scaled_mm`, fast accumulation"
        lines.append(f"| `px.kernels.matmul`, fp8 | {peer} | {shown} | `benchmarks/matmul.py` |")
    if small:
        found = [row for row in small["rows"] if row["cold"] and row["which"] == "chosen"]
        shown = ", ".join(f"{row['ratio']:.2f} ({' x '.join(map(str, row['shape']))})" for row in found[:3])
        lines.append(f"| `split_k_matmul`'s kernel, few rows, L2 flushed | cuBLAS | {shown} | `benchmarks/small_m.py` |")
    if grouped:
        ratios = [row["ratios"] for row in grouped["rows"]]
        for name, title in (("cublas loop", "a loop of cuBLAS"), ("torch grouped", "torch's grouped mm")):
            values = [r[name] for r in ratios if r.get(name)]
            if values:
                lines.append(
                    f"| `grouped_matmul`, {grouped['groups']} uneven groups | {title} | {mean(values):.2f} "
                    f"(lowest {min(values):.2f}) | `benchmarks/grouped.py` |"
                )
    return lines


def drawn_lines() -> list[str]:
    """Shapes that nobody chose: of every operation and regime the geometric mean, the lowest, and how many."""
    lines = []
    for name in DRAWN:
        data = result(f"anywhere_{name}")
        found: dict[tuple[str, str, str], list[float]] = {}
        for row in data["rows"] if data else ():
            if "ratio" in row:
                found.setdefault((row["op"], row["mode"], row["against"]), []).append(row["ratio"])
        for op, mode in dict.fromkeys((op, mode) for op, mode, _ in found):
            peers = [who for drawn, regime, who in found if (drawn, regime) == (op, mode)]
            ratios = [ratio for who in peers for ratio in found[op, mode, who]]
            against = " or ".join(PEERS.get(who, f"torch's `{who}`") for who in peers)
            lines.append(
                f"| {DRAWN_OPS.get(op, f'`{op}`')}, {len(ratios)} drawn shapes, {mode} | {against} | {mean(ratios):.2f} "
                f"(lowest {min(ratios):.2f}) | `benchmarks/anywhere.py` |"
            )
    return lines


def attention_lines() -> list[str]:
    """Attention forward and backward."""
    lines = []
    for name, title in (("attention", "`px.kernels.attention`"), ("attention_backward", "`px.kernels.attention_backward`")):
        data = result(name)
        measured = data["rows"] if data else []
        for mode in ("steady", "burst"):
            rows = [row["ms"] for row in measured if mode in row["ms"]["phalanx"]]
            ratios = [row["cuDNN"][mode] / row["phalanx"][mode] for row in rows]
            if not ratios:  # not measured that way
                continue
            lines.append(
                f"| {title}, bf16, {mode} | cuDNN | {mean(ratios):.3f} (geometric mean of {len(ratios)} rows, lowest "
                f"{min(ratios):.3f}) | `benchmarks/{name}.py` |"
            )
    return lines


def ladder() -> list[str]:
    """The table of the GEMM ladder: TFLOP/s and ratio to cuBLAS, in turns."""
    data = result("gemm")
    if data is None:
        return ["Not measured yet: `python benchmarks/gemm.py` on an H200."]
    rows = [row for row in data["rows"] if row["mode"] == "turns"]
    contenders = [c for c in dict.fromkeys(row["contender"] for row in rows) if c != "reference"]
    lines = ["| M, N, K | " + " | ".join(contenders) + " |", "| --- |" + " --- |" * len(contenders)]
    for shape in dict.fromkeys(tuple(row["shape"]) for row in rows):
        cells = {row["contender"]: row for row in rows if tuple(row["shape"]) == shape}
        shown = [f"{cells[c]['tflops']:.0f} ({cells[c]['ratio']:.2f})" if c in cells else "" for c in contenders]
        lines.append(f"| {', '.join(map(str, shape))} | " + " | ".join(shown) + " |")
    ratios = gemm_ratios(data, "turns")
    lines.append("| geometric mean | " + " | ".join(f"{mean(ratios[c]):.3f}" for c in contenders) + " |")
    return [*lines, "", f"TFLOP/s and ratio to cuBLAS, random normal bf16 data, in turns. {where(data)}."]


def replace(path: Path, marker: str, lines: list[str]) -> None:
    """Puts `lines` between the marker's comments."""
    text = path.read_text()
    pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- end {marker} -->)", re.DOTALL)
    assert pattern.search(text), f"{path.name} has no {marker} section"
    path.write_text(pattern.sub(lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text))


if __name__ == "__main__":
    replace(ROOT / "README.md", "measured", summary())
    replace(ROOT / "examples" / "gemm" / "README.md", "measured", ladder())
