"""Which lines of the table of measurements were measured of launches that the sources here make otherwise.

    python benchmarks/same_table.py                      all lines but those of drawn shapes, which `same_launches.py` has
    python benchmarks/same_table.py --commit faceba77    those that were measured at a commit

needs no GPU, but git's history. Every line names the commit that was measured. What a line's script launches on our side is
asked of the sources of that commit and of those here, on tensors of a stand-in for torch, as `same_launches.py` does:
kernels, grids, constants, the types and sizes of arguments, and the CUDA text. Not compared are a launch's time on the host,
which no launch tells, and the peers. The exit code is 1 if anything differs, or could not be called.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.products.simple import TILES
from benchmarks.same_launches import KINDS, before_and_after, collect, differing, sources_of

NOT_COMPARED = {
    "benchmarks/overhead/launch.py": "host time of a launch",
    "benchmarks/drawn/anywhere.py": "drawn shapes: same_launches.py",
}  # fmt: skip
SMS = 132
"""Of an H200: the ring-buffered copy is launched with so many CTAs, or a multiple."""
ATTENTION = re.compile(r"(\d+),(\d+),(\d+) d(\d+) (full|causal)")

Given = list[Any]
"""A call: which method of `Calls` it is, with spaces for its underscores, and what that is given."""


# What is launched for a line ------------------------------------------------------------------------------------


def calls_of(line: Any) -> dict[str, Given]:
    """What our side of a line calls, by its words; nothing for a line of two peers."""
    return {" ".join(map(str, each)): each for each in _LINES[line.script](line)}


def _copies(line: Any) -> Iterator[Given]:
    for row in line.source["rows"]:
        yield ["ring_copy", *row["shape"], row["config"]]


def _products(line: Any) -> Iterator[Given]:
    from benchmarks.readme import GEMMS

    ours = {"v6": ["rung", "v6"], "v7": ["rung", "v7"], "matmul": ["matmul"]}
    contender = next(name for name, title in GEMMS.items() if line.what.startswith(title))
    for row in line.source["rows"]:
        if row["contender"] == contender and contender in ours:
            yield [*ours[contender], *row["shape"]]


def _products_of_8_bits(line: Any) -> Iterator[Given]:
    for row in line.source["rows"]:
        if row["section"] == "fp8" and row["name"].startswith("per tensor"):
            yield ["fp8", *map(int, row["name"].partition(", ")[2].split(" x "))]


def _few_rows(line: Any) -> Iterator[Given]:
    for row in line.source["rows"]:
        if row["cold"] and row["which"] == "chosen":
            yield ["split_ring", *row["shape"]]


def _groups(line: Any) -> Iterator[Given]:
    for row in line.source["rows"]:
        yield ["grouped_matmul", line.source["groups"], row["rows"], row["n"], row["k"]]


def _rows(line: Any) -> Iterator[Given]:
    for row in line.source["rows"]:
        if line.what.startswith(f"{row['kernel']},"):
            yield ["rows", row["kernel"], *row["shape"]]


def _indexed(line: Any) -> Iterator[Given]:
    yield ["gather and scatter", *line.source["rows"][0]["shape"]]


def _experts(line: Any) -> Iterator[Given]:
    for row in line.source["rows"]:
        yield ["moe_gather_matmul", row["experts"], row["rows"], row["n"], row["k"]]


def _short_loops(line: Any) -> Iterator[Given]:
    part = "products" if "simple/matmul" in line.what else "attention"
    beside_ours = line.against.startswith("`px.kernels.")
    for row in line.source[part]["rows"]:
        if row["contender"] != "simple" or not line.what.endswith(row["mode"]):
            continue
        if part == "products":
            yield ["short matmul", *row["shape"]]
            if beside_ours:
                yield ["matmul", *row["shape"]]
            continue
        heads, length, dim = row["shape"]
        for tile in TILES[dim]:
            yield ["short attention", heads, length, dim, *tile]
        if beside_ours:
            yield ["attention", 1, heads, length, dim, False]


def _attentions(line: Any) -> Iterator[Given]:
    name = "attention_backward" if line.script.endswith("backward.py") else "attention"
    for row in line.source["rows"]:
        found = ATTENTION.fullmatch(row["case"])
        assert found is not None, row["case"]
        *sizes, mask = found.groups()
        yield [name, *map(int, sizes), mask == "causal"]


_LINES: dict[str, Callable[[Any], Iterator[Given]]] = {
    "phalanx bench gemm --modes steady": _products,
    "benchmarks/products/gemm.py": _products,
    "benchmarks/products/matmul.py": _products_of_8_bits,
    "benchmarks/products/small_m.py": _few_rows,
    "benchmarks/products/grouped.py": _groups,
    "benchmarks/products/moe.py": _experts,
    "benchmarks/products/simple.py": _short_loops,
    "benchmarks/rows/device_copy.py": _copies,
    "benchmarks/rows/rowwise.py": _rows,
    "benchmarks/rows/gather.py": _indexed,
    "benchmarks/attention/forward.py": _attentions,
    "benchmarks/attention/backward.py": _attentions,
}  # fmt: skip


# How it is called -----------------------------------------------------------------------------------------------


class Calls:
    """The calls on the library and the examples of a tree."""

    def __init__(self, tree: Path) -> None:
        self.examples = tree / "examples"
        sys.path[:0] = [str(self.examples / folder) for folder in ("gemm", "simple", "")]

    def __call__(self, given: Given, library: Any, torch: Any) -> None:
        def new(*shape: int, dtype: str = "bf16") -> Any:
            return torch.empty(shape, dtype=getattr(torch, KINDS[dtype]), device=0)

        name, *sizes = given
        getattr(self, name.replace(" ", "_"))(library, new, *sizes)

    def example(self, path: str) -> Any:
        """A file of the examples, under a name of its own: some have the names of others."""
        spec = importlib.util.spec_from_file_location(f"table_{path.replace('/', '_')}", self.examples / f"{path}.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules.get(spec.name)
        if module is None:
            module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        return module

    def ring_copy(self, library: Any, new: Any, rows: int, columns: int, config: dict[str, int]) -> None:
        constants = {name: value for name, value in config.items() if name != "CTAS_PER_SM"}
        x, y = (new(rows, columns, dtype="f32") for _ in range(2))
        self.example("ring_copy").ring_copy[SMS * config["CTAS_PER_SM"]](x, y, **constants)

    def rung(self, library: Any, new: Any, name: str, m: int, n: int, k: int) -> None:
        self.example(f"gemm/{name}").launch(m, n, k)(new(m, k), new(n, k), new(m, n))

    def matmul(self, library: Any, new: Any, m: int, n: int, k: int) -> None:
        library.matmul(new(m, k), new(n, k).T, out=new(m, n))

    def fp8(self, library: Any, new: Any, m: int, n: int, k: int) -> None:
        scales = {f"scale_{side}": new(1, dtype="f32") for side in "ab"}
        library.matmul(new(m, k, dtype="f8e4m3"), new(n, k, dtype="f8e4m3").T, **scales)

    def split_ring(self, library: Any, new: Any, m: int, n: int, k: int) -> None:
        from phalanx.kernels.products.split_config import choose_split
        from phalanx.kernels.products.split_ring import split_ring

        config, c = choose_split(m, n, k), new(m, n)
        constants = {"ROWS": True, "WHOLE": True, "BIASED": False, "ACTIVATION": None, **config.constants()}
        split_ring[config.grid(m, n)](new(m, k), new(n, k), c, c, **constants)

    def grouped_matmul(self, library: Any, new: Any, groups: int, rows: int, n: int, k: int) -> None:
        library.grouped_matmul(new(rows, k), new(groups, n, k), new(groups, dtype="i32"), out=new(rows, n))

    def rows(self, library: Any, new: Any, kernel: str, rows: int, columns: int) -> None:
        x, w, b = new(rows, columns), new(columns), new(columns)
        if kernel == "cross_entropy":
            library.cross_entropy(x, new(rows, dtype="i64"), reduction="none")
        else:
            others: dict[str, tuple[Any, ...]] = {"softmax": (), "rms_norm": (w, 1e-6), "layer_norm": (w, b, 1e-6)}
            getattr(library, kernel)(x, *others[kernel])

    def gather_and_scatter(self, library: Any, new: Any, rows: int, moved: int, columns: int) -> None:
        x, part, indices = new(rows, columns), new(moved, columns), new(moved, dtype="i64")
        library.gather_rows(x, indices, out=part)
        library.scatter_rows(part, indices, x)

    def moe_gather_matmul(self, library: Any, new: Any, experts: int, rows: int, n: int, k: int) -> None:
        x, indices = new(rows // 2, k), new(rows, dtype="i32")  # every token goes to two experts
        library.moe_gather_matmul(x, indices, new(experts, n, k), new(experts, dtype="i32"), out=new(rows, n))

    def short_matmul(self, library: Any, new: Any, m: int, n: int, k: int) -> None:
        import phalanx as px

        self.example("simple/matmul").matmul[px.auto](new(m, k), new(n, k), new(m, n))

    def short_attention(self, library: Any, new: Any, heads: int, length: int, dim: int, rows: int, keys: int) -> None:
        import phalanx as px

        arrays = [new(heads, length, dim) for _ in "qkvo"]
        self.example("simple/attention").attention[px.auto](*arrays, D=dim, ROWS=rows, KEYS=keys)

    def attention(self, library: Any, new: Any, *given: Any) -> None:
        *shape, causal = given
        library.attention(*(new(*shape) for _ in "qkv"), causal=causal)

    def attention_backward(self, library: Any, new: Any, *given: Any) -> None:
        *shape, causal = given
        do, q, k, v, o = (new(*shape) for _ in range(5))
        library.attention_backward(do, q, k, v, o, new(*shape[:-1], dtype="f32"), causal=causal)


def wrong_calls(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    """The calls that are launched otherwise, and in what; of those that failed, why."""
    failed = {name: launches.partition("\n")[0] for name, launches in after.items() if isinstance(launches, str)}
    return dict(differing(before, after)) | failed


def told_of(lines: list[Any], wrong: dict[str, str]) -> Iterator[str]:
    """What a person reads of the lines of one commit."""
    for line in lines:
        calls = calls_of(line)
        others = [name for name in calls if name in wrong]
        yield f"{line.what}, {line.against}: " + (
            f"{len(calls)} calls, {len(others)} launched otherwise" if calls else "no calls of ours"
        )
        yield from (f"    {name}: {wrong[name]}" for name in others)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="the lines that were measured at this commit; all, if it is left out")
    parser.add_argument("--calls", help=argparse.SUPPRESS)
    parser.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.tree is not None:
        sys.path[:0] = sources_of(given.tree)
        given.write.write_text(json.dumps(collect(json.loads(given.calls), Calls(given.tree))))
        return 0
    from benchmarks.readme import lines

    by_commit: dict[str, list[Any]] = {}
    for line in lines():
        if line.script not in NOT_COMPARED:
            by_commit.setdefault(line.source["machine"]["commit"], []).append(line)
    if given.commit is not None and given.commit not in by_commit:
        parser.error(f"lines were measured at {', '.join(by_commit)}")
    status = 0
    for commit in by_commit if given.commit is None else [given.commit]:
        calls = {name: call for line in by_commit[commit] for name, call in calls_of(line).items()}
        wrong: dict[str, str] = {}
        if calls:
            options = ["--calls", json.dumps(calls)]
            wrong = wrong_calls(*before_and_after(commit, __file__, options, "src", "tests", "examples"))
        print(f"{commit}:", *told_of(by_commit[commit], wrong), sep="\n  ", flush=True)
        status |= bool(wrong)
    for script, what in NOT_COMPARED.items():
        print(f"not compared: {script}, {what}")
    return status


if __name__ == "__main__":
    sys.exit(main())
