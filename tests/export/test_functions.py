"""`px.export` of functions: compiled C against a stub driver, and its launches in the simulator: the library's results."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from export.replay import Memory, call_text, exported, ran, simulate_launches, statuses
from export.stub import COMPILER, MISSING
from phalanx.errors import Error
from phalanx.kernels.padding import padded_copy
from phalanx.kernels.products.matmul_config import MatmulConfig
from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.exported_ways import run_way, values_for

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
BF16 = ml_dtypes.bfloat16
SMALL = MatmulConfig(64, 64, stages=3, cluster=(1, 1), parts=1, groups=1)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(BF16)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CFunction]:
    """An exported matmul of K = 64, and its folder."""
    folder = tmp_path_factory.mktemp("matmul")
    a, b = px.spec(("m", 64), px.bf16), px.spec((64, "n"), px.bf16)
    return folder, exported(folder, px.kernels.matmul, a, b, sizes={"m": 256, "n": 256}, config=SMALL)


def test_matmul_for_any_rows_and_columns(product: tuple[Path, CFunction]) -> None:
    folder, made = product
    memory, calls, pairs = Memory(), [], []
    for m, n in ((70, 72), (1, 8)):
        x, y, out = random(m, 64, seed=m), random(64, n, seed=n), np.zeros((m, n), BF16)
        calls.append(call_text(made, {"m": m, "n": n}, [memory.put(each) for each in (x, y, out)]))
        pairs.append((x, y, out))
    found = ran(folder, made, calls)
    assert statuses(found) == [0, 0]
    simulate_launches(made, found, memory)
    for x, y, out in pairs:
        assert np.array_equal(out, px.kernels.matmul(x, y, config=SMALL))


@pytest.mark.parametrize("example", [(4096, 4096), pytest.param((300, 1000), marks=pytest.mark.long)])
def test_tiles_and_hints_of_the_example_are_those_of_all_sizes(example: tuple[int, int], tmp_path: Path) -> None:
    """What is trimmed, and which operand L2 need not keep, changes no result: no size needs a kernel of its own."""
    a, b = px.spec(("m", 4096), px.bf16), px.spec((4096, "n"), px.bf16)
    made = exported(tmp_path, px.kernels.matmul, a, b, sizes=dict(zip("mn", example)))
    pointers = [0x10000000 * place for place in (1, 2, 3, 4)[: 3 + made.has_workspace]]
    sizes = [(m, n) for m in (1, 3, 17, 100, 129, 1000, 4096, 8191) for n in (8, 24, 512, 1024, 2048, 65536)]
    calls = [call_text(made, {"m": m, "n": n}, pointers) for m, n in sizes]
    before = "  const int64_t wide_a[] = {8192, 1}, wide_b[] = {1032, 1};\n"
    calls.append(call_text(made, {"m": 100, "n": 1024}, pointers, {"a": "wide_a", "b": "wide_b"}))
    assert statuses(ran(tmp_path, made, calls, before)) == [0] * len(calls)


def test_what_an_exported_matmul_refuses(product: tuple[Path, CFunction]) -> None:
    folder, made = product
    before = "  const int64_t wide[] = {128, 1}, odd[] = {65, 1}, across[] = {1, 64};\n"
    good = [0x10000, 0x20000, 0x30000]
    calls = [
        call_text(made, {"m": 100, "n": 72}, good),
        call_text(made, {"m": 100, "n": 72}, good, {"a": "wide", "b": "wide"}),
        call_text(made, {"m": 0, "n": 72}, good),
        call_text(made, {"m": 100, "n": 73}, good),
        call_text(made, {"m": -1, "n": 72}, good),
        call_text(made, {"m": 100, "n": 72}, good, {"a": "odd"}),
        call_text(made, {"m": 100, "n": 72}, good, {"a": "across"}),
        call_text(made, {"m": 100, "n": 72}, [0x10008, *good[1:]]),
        call_text(made, {"m": 100, "n": 72}, [*good[:2], 0x30008]),
        call_text(made, {"m": 100, "n": 72}, [0, *good[1:]]),
        call_text(made, {"m": 100, "n": 72}, [*good[:2], 0]),
    ]
    found = ran(folder, made, calls, before)
    assert statuses(found) == [0, 0, 0, -3, -2, -3, -3, -4, -4, -1, -1]
    assert len([call for call in found if call["call"] == "launch"]) == 2


@pytest.mark.long
@pytest.mark.parametrize("causal", [False, True])
def test_attention_for_any_batch_and_lengths(causal: bool, tmp_path: Path) -> None:
    q, k = px.spec(("batch", 2, "queries", 64), px.bf16), px.spec(("batch", 1, "keys", 64), px.bf16)
    made = exported(tmp_path, px.kernels.attention, q, k, k, sizes={"batch": 2, "queries": 512, "keys": 512}, causal=causal)
    memory, calls, cases = Memory(), [], []
    workspace = np.zeros(1 << 14, np.uint8)
    for batch, queries, keys in ((1, 100, 130), (2, 64, 64)):
        given = [random(batch, 2, queries, 64), random(batch, 1, keys, 64, seed=1), random(batch, 1, keys, 64, seed=2)]
        out = np.zeros(given[0].shape, BF16)
        places = [memory.put(x) for x in (*given, out)] + [memory.put(workspace)] * made.has_workspace
        calls.append(call_text(made, {"batch": batch, "queries": queries, "keys": keys}, places))
        cases.append((given, out))
    assert made.has_workspace  # tiles are drawn from a counter
    found = ran(tmp_path, made, calls)
    assert statuses(found) == [0, 0]
    simulate_launches(made, found, memory)
    for given, out in cases:
        assert np.array_equal(out, px.kernels.attention(*given, causal=causal))


@pytest.mark.long
def test_the_workspace_is_asked_for_first(tmp_path: Path) -> None:
    q = px.spec(("batch", 2, "length", 64), px.bf16)
    made = exported(tmp_path, px.kernels.attention, q, q, q, sizes={"batch": 2, "length": 512}, causal=True)
    sizes, places = {"batch": 1, "length": 100}, [0x10000, 0x20000, 0x30000, 0x40000]
    calls = [call_text(made, sizes, [*places, space]) for space in (0, 0x50000, 0x50010)]
    found = ran(tmp_path, made, calls)
    assert statuses(found) == [0, 0, -8]
    assert [call["bytes"] for call in found if call["call"] == "status"] == [made.endings.counters] * 3
    assert len([call for call in found if call["call"] == "launch"]) == 1


@pytest.mark.share(3)
@pytest.mark.parametrize("name, numbers", [("rms_norm", {"eps": 0.25}), ("softmax", {}), ("rms_norm", {})])
def test_rows(name: str, numbers: dict[str, float], tmp_path: Path) -> None:
    function = getattr(px.kernels, name)
    specs = [px.spec(("rows", 256), px.bf16)] + [px.spec((256,), px.bf16)] * (name == "rms_norm")
    made = exported(tmp_path, function, *specs, sizes={"rows": 4096}, **{each: 1.0 for each in numbers})
    assert [each.name for each in made.scalars] == list(numbers)
    memory, calls, cases = Memory(), [], []
    for rows in (37, 1):
        given = [random(rows, 256, seed=rows), random(256, seed=1)][: len(specs)]
        out = np.zeros((rows, 256), BF16)
        calls.append(call_text(made, {"rows": rows}, [memory.put(x) for x in (*given, out)], numbers=numbers))
        cases.append((given, out))
    found = ran(tmp_path, made, calls)
    assert statuses(found) == [0, 0]
    simulate_launches(made, found, memory)
    for given, out in cases:
        assert np.array_equal(out, function(*given, **numbers))


def test_numbers_outside_of_what_was_exported(tmp_path: Path) -> None:
    made = exported(tmp_path, px.kernels.softmax, px.spec(("rows", 64), px.bf16), sizes={"rows": 4096}, scale=0.5)
    calls = [call_text(made, {"rows": 3}, [0x10000, 0x20000], numbers={"scale": value}) for value in (2.0, 0.0, -1.0)]
    found = ran(tmp_path, made, calls)
    assert statuses(found) == [0, -9, -9]
    (launch,) = [call for call in found if call["call"] == "launch"]
    assert struct.pack("<f", 2.0).hex() in launch["parameters"]


@pytest.mark.long
def test_numbers_that_are_combined(tmp_path: Path) -> None:
    a = px.spec(("m", 64), px.bf16)
    numbers = {"scale_a": 1.5, "scale_b": 3.0}
    b, ones = px.spec((64, 64), px.bf16), {name: 1.0 for name in numbers}
    made = exported(tmp_path, px.kernels.matmul, a, b, sizes={"m": 64}, config=SMALL, **ones)
    found = ran(tmp_path, made, [call_text(made, {"m": 3}, [0x10000, 0x20000, 0x30000], numbers=numbers)])
    (launch,) = [call for call in found if call["call"] == "launch"]
    assert struct.pack("<f", 4.5).hex() in launch["parameters"]


@px.kernel(warps=4)
def doubled(X, Y, factor, *, BM=32):
    m = px.block_id(0) * BM
    px.store(Y[m : m + BM, 0:64], px.load(X[m : m + BM, 0:64]) * factor)


def test_a_function_of_several_launches_with_memory_between_them(tmp_path: Path) -> None:
    def twice(x):
        """Four times x, by way of an array of its own; other tiles where there are few rows."""
        from phalanx.kernels.matrices import empty

        middle, result = empty(x, x.shape, "f32"), empty(x, x.shape, "f32")
        height = 32 if x.shape[0] > 64 else 16
        for source, target in ((x, middle), (middle, result)):
            doubled[px.cdiv(x.shape[0], height)](source, target, 2.0, BM=height)
        return result

    made = exported(tmp_path, twice, px.spec(("m", 64), px.f32), sizes={"m": 100})
    memory, calls, cases = Memory(), [], []
    workspace = memory.put(np.zeros(1 << 16, np.uint8))
    for m in (70, 10):
        x, out = np.random.default_rng(m).standard_normal((m, 64)).astype(np.float32), np.zeros((m, 64), np.float32)
        calls.append(call_text(made, {"m": m}, [memory.put(x), memory.put(out), workspace]))
        cases.append((x, out))
    found = ran(tmp_path, made, calls)
    assert statuses(found) == [0, 0]
    assert [call["grid"][0] for call in found if call["call"] == "launch"] == [3, 3, 1, 1]
    assert [call["program"] for call in found if call["call"] == "launch"] == [0, 0, 1, 1]
    simulate_launches(made, found, memory)
    for x, out in cases:
        assert np.array_equal(out, x * 4)


def of_a_table(x):
    doubled[{100: 4}[x.shape[0]]](x, x, 2.0)


def of_another_array(x):
    doubled[1](x, np.zeros((64, 64), np.float32), 2.0)


def of_a_copy(x):
    y = x.copy()
    doubled[1](y, y, 2.0)


@pytest.mark.parametrize(
    "function, text",
    [
        (of_a_table, "m is looked up in a table"),
        (of_another_array, "is an array that is no argument of the function"),
        (of_a_copy, "an array is copied"),
        (lambda x: px.kernels.attention(*[x.reshape(1, 1, -1, 64)[:, :, 1:]] * 3), "has the element type f32"),
        (
            lambda x: padded_copy(x.reshape(-1, 2, 16, 2).swapaxes(1, 3)),
            "elements are assigned outside of a kernel",
        ),
        (lambda x: None, "launches no kernel"),
        (lambda x: x == 0, "the elements of an array are compared"),
        (lambda x: x.sum(), "can't be exported as it is: AttributeError"),
        (lambda x: 3.0, "returns a float"),
    ],
)
def test_what_is_refused(function: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        px.export(function, px.spec(("m", 64), px.f32), to=tmp_path, name="made", sizes={"m": 100})
    assert text in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("sizes", [{"n": 3}, {"m": 0}, {"m": 2.5}])
def test_examples_that_are_none(sizes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Error, match="for a function whose sizes are m"):
        px.export(of_a_copy, px.spec(("m", 64), px.f32), to=tmp_path, sizes=sizes)


def test_operands_that_are_copied_first(tmp_path: Path) -> None:
    """Rows of 65 bf16 begin at no multiples of 16 bytes: C launches the copies, too."""
    a, b = px.spec(("m", 65), px.bf16), px.spec((65, 70), px.bf16)
    made = exported(tmp_path, px.kernels.matmul, a, b, sizes={"m": 64}, config=SMALL)
    memory, calls, cases = Memory(), [], []
    workspace = memory.put(np.zeros(1 << 16, np.uint8))
    for m in (70, 3):
        x, y, out = random(m, 65, seed=m), random(65, 70, seed=1), np.zeros((m, 70), BF16)
        calls.append(call_text(made, {"m": m}, [*[memory.put(each) for each in (x, y, out)], workspace]))
        cases.append((x, y, out))
    found = ran(tmp_path, made, calls)
    assert statuses(found) == [0, 0]
    assert len([call for call in found if call["call"] == "launch"]) == 4
    simulate_launches(made, found, memory)
    for x, y, out in cases:
        with pytest.warns(UserWarning, match="copies"):
            assert np.array_equal(out, px.kernels.matmul(x, y, config=SMALL))


@pytest.mark.long
def test_the_c_function_goes_the_librarys_way_for_any_sizes(product: tuple[Path, CFunction]) -> None:
    """Grids and views of many sizes, beside what the library itself launches for them with the same configuration."""
    folder, made = product
    rng = np.random.default_rng(0)
    sizes = [{"m": int(m), "n": 8 * int(n)} for m, n in rng.integers(1, 5000, (200, 2))]
    calls = [call_text(made, each, [0x10000, 0x20000, 0x30000]) for each in sizes]
    found = ran(folder, made, calls)
    assert statuses(found) == [0] * len(sizes)
    launches = [call for call in found if call["call"] == "launch"]
    usual = values_for(made.arguments, {"m": 256, "n": 256})
    for each, launch in zip(sizes, launches, strict=True):
        values = values_for(made.arguments, each)
        path = run_way(lambda given: px.kernels.matmul(*given, config=SMALL), made.arguments, values, usual, "sm_90a")
        (taken,) = path.launches
        assert taken.grid is not None
        assert launch["grid"] == [size.at(values) for size in taken.grid]
        slots = made.programs[launch["program"]][0].signature.given
        for view, slot, text in zip(taken.arguments, slots, launch["parameters"]):
            shape = [part.at(values) for part in (*view.strides, *view.shape)]
            assert list(struct.unpack(slot.format, bytes.fromhex(text)))[1:] == shape


def test_a_size_that_is_a_constant_of_a_kernel_is_settled(tmp_path: Path) -> None:
    def scaled(x):
        doubled[1](x, x, 2.0, BM=x.shape[0])

    made = exported(tmp_path, scaled, px.spec(("m", 64), px.f32), sizes={"m": 32})
    found = ran(tmp_path, made, [call_text(made, {"m": m}, [0x10000]) for m in (32, 16)])
    assert statuses(found) == [0, -2]
