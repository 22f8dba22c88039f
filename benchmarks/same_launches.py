"""Which drawn cases a commit launches otherwise than another one: what was measured of all others holds for both.

    python benchmarks/same_launches.py faceba77 --seed 0 1 2 faceba77
    python benchmarks/same_launches.py faceba77 --op matmul few_rows --seed 7 --count 100

needs no GPU. The cases of `anywhere.py` are called with tensors of a stand-in for torch, by the sources here and by those of
the commit, each in a process of its own. Compared is what would be launched: kernels, grids, constants, the types and sizes
of arguments, and the CUDA text of each but for its comments, which name lines of Python. The exit code is 1 if anything
differs, or could not be called.
A commit is not judged by this: that takes new draws. It says what a change can have changed, and so what to measure first.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from benchmarks.drawn.draws import DRAWS, EXPERT_ROWS, FUSED, INDICES, NORMS_BACKWARD, ROWS, Case, drawn, op_of, seed_of

HERE = Path(__file__).resolve().parent
KINDS = {
    "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f8e4m3": "float8_e4m3fn", "f8e8m0": "float8_e8m0fnu",
    "i32": "int32", "i64": "int64", "bool": "bool",
}  # fmt: skip
ANY_GRID = (16, 16, 16)
"""CTAs of a launch whose grid is the compiler's, for its text, which does not depend on them: all clusters fit."""
COMMENT = re.compile(r"^[ \t]*//.*\n|[ \t]*//.*", re.MULTILINE)
"""A comment with the line that it has for itself: a statement more in Python is a comment more, and nothing else."""

Launch = list[Any]
"""A kernel's name, its grid, constants and arguments, and a digest of its text."""


def call(case: Case, library: Any, torch: Any) -> None:
    """What `anywhere.py` times of the library for a case."""

    def new(*shape: int, dtype: str = case.dtype) -> Any:
        return torch.empty(shape, dtype=getattr(torch, KINDS[dtype]), device=0)

    _CALLS[case.op](case, library, new)


def _product(case: Case, library: Any, new: Any) -> None:
    m, n, k = case.size("m", "n", "k")
    form = case.traits.get("form", "a @ b" if case.op == "batched" else "a @ b.T")
    lead = (case.sizes["batch"],) if case.sizes.get("batch", 1) > 1 else ()
    a = new(*lead, k, m).transpose(-1, -2) if form.startswith("a.T") else new(*lead, m, k)
    b = new(*lead, n, k).transpose(-1, -2) if form.endswith("b.T") else new(*lead, k, n)
    if case.op == "split_k_matmul":
        library.split_k_matmul(a, b)
        return
    scales = {f"scale_{side}": new(1, dtype="f32") for side in "ab"} if case.op == "fp8" else {}
    bias = new(n) if case.traits.get("bias") else None
    library.matmul(a, b, bias, out=new(*lead, m, n, dtype="bf16" if case.op == "fp8" else case.dtype), **scales)


def _experts(case: Case, library: Any, new: Any) -> None:
    groups, rows, n, k = case.size("groups", "rows", "n", "k")
    w, sizes = new(groups, n, k), new(groups, dtype="i32")
    if case.op == "grouped":
        library.grouped_matmul(new(rows, k), w, sizes, out=new(rows, n))
    elif case.op == "moe_gather_matmul":
        library.moe_gather_matmul(new(case.sizes["tokens"], k), new(rows, dtype="i64"), w, sizes)
    elif case.op == "moe_matmul":
        library.moe_matmul(new(rows, k), w, sizes)
    else:
        sums = new(case.sizes["tokens"], n, dtype="f32")
        library.moe_matmul_scatter(new(rows, k), w, sizes, new(rows, dtype="i64"), new(rows, dtype="f32"), sums)


def _rows(case: Case, library: Any, new: Any) -> None:
    rows, columns = case.size("rows", "columns")
    x, weight = new(rows, columns), new(columns)
    if case.op == "cross_entropy":
        library.cross_entropy(x, new(rows, dtype="i64"))
    elif case.op == "cross_entropy_gradient":
        library.cross_entropy(x, new(rows, dtype="i64"), reduction="sum", gradient=True)  # a mean is counted by torch
    elif case.op == "masked_softmax":
        library.softmax(x, scale=0.125, mask=new(1 if case.traits["mask"] == "one" else rows, columns, dtype="bool"))
    elif case.op == "add_rms_norm":
        library.add_rms_norm(x, new(rows, columns), weight)
    elif case.op == "layer_norm":
        library.layer_norm(x, weight, new(columns))
    elif case.op == "rms_norm":
        library.rms_norm(x, weight)
    else:
        getattr(library, case.op)(x)


def _norms_backward(case: Case, library: Any, new: Any) -> None:
    from phalanx.kernels.rowwise import norms_backward

    rows, columns = case.size("rows", "columns")
    options = {"bias": new(columns)} if case.op == "layer_norm_backward" else {}
    getattr(norms_backward, case.op)(new(rows, columns), new(rows, columns), new(columns), **options)


def _indexed(case: Case, library: Any, new: Any) -> None:
    rows, moved, columns = case.size("rows", "moved", "columns")
    x, indices = new(rows, columns), new(moved, dtype="i64")
    getattr(library, case.op)(*((x, indices) if case.op in INDICES[:2] else (new(moved, columns), indices, x)))


def _cached(case: Case, library: Any, new: Any) -> None:
    sizes = case.sizes
    if case.op == "attention_decode":
        batch, tokens, kv_heads, group, dim = case.size("batch", "tokens", "kv_heads", "group", "dim")
        k, v = (new(batch, tokens, kv_heads, dim) for _ in range(2))
        library.attention_decode(new(batch, 1, kv_heads * group, dim), k, v, new(batch, dtype="i32"))
    elif case.op == "sparse_attention":
        k, v = (new(1, sizes["tokens"], 1, sizes["dim"]) for _ in range(2))
        lists = new(1, sizes["queries"], 1, sizes["named"], dtype="i32")
        library.sparse_attention(new(1, sizes["queries"], sizes["heads"], sizes["dim"]), k, v, lists)
    else:
        keep = new(sizes["batch"], sizes["kept"], dtype="i32")
        library.kv_compact(new(*case.size("batch", "tokens", "heads", "dim")), keep, inplace=True)


def _quantized(case: Case, library: Any, new: Any) -> None:
    if case.op == "quantize":
        library.quantize(new(*case.size("rows", "columns")), case.traits["format"])
    else:
        library.pack_scales(new(*case.size("rows", "blocks")))


_CALLS: dict[str, Callable[[Case, Any, Any], None]] = {
    **dict.fromkeys(("matmul", "matmul_of_odd_sizes", "batched", "few_rows", "fp8", "split_k_matmul"), _product),
    **dict.fromkeys(("grouped", *EXPERT_ROWS), _experts),
    **dict.fromkeys((*ROWS, *FUSED), _rows),
    **dict.fromkeys(NORMS_BACKWARD, _norms_backward),
    **dict.fromkeys(INDICES, _indexed),
    **dict.fromkeys(("attention_decode", "sparse_attention", "kv_compact"), _cached),
    **dict.fromkeys(("quantize", "pack_scales"), _quantized),
}


class Launches:
    """What calls of the library would launch."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str, str], str] = {}

    def of(self, run: Callable[[], None]) -> list[Launch]:
        """The launches of a call, none of which runs."""
        from phalanx.runtime.device.devices import described
        from phalanx.runtime.device.outlines import taking_launches

        found: list[Launch] = []

        def take(bound: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
            constants = {name: repr(value) for name, value in sorted(given.items()) if name != "arch"}
            arguments = [[str(x.dtype), *x.shape, *x.stride()] if hasattr(x, "stride") else repr(x) for x in args]
            grid = bound.grid if isinstance(bound.grid, int | tuple) else None
            text = self.text(bound.kernel[grid or ANY_GRID], args, given)
            found.append([bound.kernel.name, repr(grid), constants, arguments, text])

        with taking_launches(take, described("sm_90a")):  # no driver is asked, for which kernels would be compiled
            run()
        return found

    def text(self, launch: Any, args: tuple[Any, ...], given: dict[str, Any]) -> str:
        """What is told of the kernel of a launch, once for all launches of it."""
        constants = {name: value for name, value in given.items() if name != "arch"}
        key = launch.kernel.name, repr(sorted(constants.items())), repr([kind_of(x) for x in args])
        if key not in self.texts:
            self.texts[key] = self.told(launch, args, constants)
        return self.texts[key]

    def told(self, launch: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> str:
        """A digest of the CUDA text of a launch, which is written and not compiled."""
        import phalanx as px
        from phalanx.cuda.lower.lower import lower
        from phalanx.cuda.module import generate
        from phalanx.ir.archs import arch_of
        from phalanx.runtime.launch import dispatch

        def written(specialisation: Any, arch: str, *_: Any) -> Any:
            target = arch_of(arch)
            return generate(lower(specialisation.prepared_for(target), target))

        with patch.object(dispatch, "compiled_for", written):
            source = px.compile(launch, *args, arch="sm_90a", **constants).source
        return hashlib.sha256(COMMENT.sub("", source).encode()).hexdigest()[:16]


def kind_of(x: Any) -> str:
    """What a text may depend on of an argument: what kernels are specialised for, of arrays."""
    from phalanx.runtime.device.arrays import describe

    info = describe(x)
    return repr(x) if info is None else f"{info.dtype_name} {info.facts}"


def allocate_nothing(torch: Any) -> None:
    """Tensors of the stand-in for torch get addresses of their own and no memory: nobody reads or writes them."""
    from phalanx.runtime.device.arrays import dense_strides
    from support.fake_torch import MEMORY, Tensor, aligned

    room, places = aligned((1 << 20,), np.uint8), itertools.cycle(range(0, 1 << 19, 4096))

    def empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any = None, device: int = 0) -> Any:
        start: Any = room[next(places) :].view(MEMORY[dtype.name])
        steps = [step * start.itemsize for step in strides]
        return Tensor(np.lib.stride_tricks.as_strided(start, shape, steps), dtype, device)

    def empty(shape: tuple[int, ...], dtype: Any = None, device: int = 0) -> Any:
        return empty_strided(tuple(shape), dense_strides(tuple(shape)), dtype, device)

    torch.empty, torch.empty_strided = empty, empty_strided
    torch.empty_like = lambda x: empty(x.shape, x.dtype, x.device)


def collect(cases: dict[str, Any], called: Callable[[Any, Any, Any], None] | None = None) -> dict[str, Any]:
    """The launches of all cases, or what error a call is. `called` takes a case, the library and torch; else `call` does."""
    import phalanx as px
    from support.fake_torch import fake_torch_gpu

    launches, found, called = Launches(), dict[str, Any](), called or call
    with fake_torch_gpu() as torch:
        allocate_nothing(torch)
        for name, case in cases.items():
            try:
                found[name] = launches.of(lambda case=case: called(case, px.kernels, torch))
            except Exception as problem:  # such a case is as good as any other, if it fails in the same way
                found[name] = f"{type(problem).__name__}: {problem}"
    return found


def cases_of(ops: list[str], seeds: list[str], count: int) -> dict[str, Case]:
    """The draws by name."""
    return {
        f"{op}, seed {seed}, {number}: {case}": case
        for op in ops for seed in seeds for number, case in enumerate(drawn(op, seed_of(seed), count))
    }  # fmt: skip


def by_tree(tree: Path, script: str, options: list[str], result: Path) -> Callable[[], dict[str, Any]]:
    """Has a script collect the launches of a tree's sources, in a process of its own; gives what waits for them."""
    command = [sys.executable, script, "--tree", str(tree), "--write", str(result), *options]
    process = subprocess.Popen(command)

    def wait() -> dict[str, Any]:
        if process.wait():
            sys.exit(f"the sources of {tree} failed")
        found: dict[str, Any] = json.loads(result.read_text())
        return found

    return wait


def sources_of(tree: Path) -> list[str]:
    """Where a tree's sources are, and what stands in for torch and the driver: its own, where it has that."""
    tests = [root / "tests" for root in (tree, HERE.parent) if (root / "tests" / "support").exists()]
    return [str(tree / "src"), str(tests[0])]


def before_and_after(commit: str, script: str, options: list[str], *folders: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a script collects of the folders of a commit, and of those here."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(HERE.parent), "archive", commit, *folders], stdout=subprocess.PIPE, check=True
        )  # fmt: skip
        subprocess.run(["tar", "x", "-C", str(tree)], input=archive.stdout, check=True)
        waiting = [
            by_tree(of, script, options, Path(folder) / f"{name}.json")
            for name, of in (("before", tree), ("after", HERE.parent))
        ]  # fmt: skip
        before, after = (wait() for wait in waiting)
        return before, after


def differing(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    """The cases that are launched otherwise, and in what."""
    names = "kernel", "grid", "constants", "arguments", "text"
    found = []
    for name, old in before.items():
        new = after[name]
        if old == new:
            continue
        if isinstance(old, str) or isinstance(new, str) or len(old) != len(new):
            found.append((name, "other launches"))
            continue
        parts = {part for one, other in zip(old, new) for part, a, b in zip(names, one, other) if a != b}
        found.append((name, ", ".join(part for part in names if part in parts)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="what the sources here are compared with")
    parser.add_argument("--op", nargs="+", type=op_of, default=list(DRAWS), choices=list(DRAWS))
    parser.add_argument("--seed", nargs="+", default=["0"])
    parser.add_argument("--count", type=int, default=60, help="cases of each operation and seed")
    parser.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    cases = cases_of(given.op, given.seed, given.count)
    if given.tree is not None:
        sys.path[:0] = sources_of(given.tree)
        given.write.write_text(json.dumps(collect(cases)))
        return 0
    if given.commit is None:
        parser.error("name the commit to compare with")
    options = ["--op", *given.op, "--seed", *given.seed, "--count", str(given.count)]
    before, after = before_and_after(given.commit, __file__, options, "src", "tests")
    found = differing(before, after)
    for op in given.op:
        others = [each for each in found if each[0].startswith(f"{op}, ")]
        print(f"{op:22} {sum(name.startswith(f'{op}, ') for name in cases):5} cases, {len(others)} launched otherwise")
    for name, parts in found:
        print(f"    {name}: {parts}")
    failed = [name for name, launches in after.items() if isinstance(launches, str)]
    for name in failed:
        print(f"    {name}: {after[name]}")
    return 1 if found or failed else 0


if __name__ == "__main__":
    sys.exit(main())
