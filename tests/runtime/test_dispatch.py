"""`kernel[grid](...)` with every kind of argument: right results, or errors that say what is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.launch import dispatch, memory
from phalanx.runtime.launch.dispatch import is_launchable
from phalanx.runtime.launch.specialise import read_argument, specialise


@px.kernel(warps=1)
def double(X, Y, *, BM=8, BN=16):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    x = px.load(X[m : m + BM, n : n + BN])
    px.store(Y[m : m + BM, n : n + BN], x + x)


@px.kernel(warps=1)
def copy(X, Y, *, B=16):
    i = px.block_id(0) * B
    px.store(Y[i : i + B], px.load(X[i : i + B]))


@px.kernel(warps=1)
def scalar(OUT, value):
    px.store(OUT[0], value.to(OUT.dtype))


@px.kernel(warps=1)
def tma_copy(X, Y, *, BM=8, BN=16):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    s = px.shared((BM, BN), X.dtype)
    b = px.barrier()
    with b.transaction():
        px.tma.load(X[m : m + BM, n : n + BN], s, b)
    b.wait(0)
    px.tma.store(s, Y[m : m + BM, n : n + BN])
    px.tma.commit()
    px.tma.wait(0)


def tiles(x: np.ndarray) -> tuple[int, int]:
    return px.cdiv(x.shape[0], 8), px.cdiv(x.shape[1], 16)


# Arrays.


DTYPES = [
    np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8, np.bool_,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: np.dtype(t).name)
def test_every_element_type_is_copied_bit_by_bit(dtype: Any) -> None:
    item = np.dtype(dtype).itemsize
    raw = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 256, 40 * item, np.uint8)
    x = raw.view(dtype)
    y = np.zeros(40, dtype)
    copy[3](x, y)
    assert y.tobytes() == x.tobytes()


def strided(rng: np.random.Generator, kind: str) -> np.ndarray:
    base = rng.standard_normal((64, 96)).astype(np.float32)
    return {
        "contiguous": base[:37, :50].copy(),
        "sliced": base[3:40, 5:55],
        "columns": base[:37, ::2][:, :45],
        "rows": base[::3],
        "transposed": base.T[:50, :37],
        "reversed rows": base[40:3:-1, :50],
        "reversed columns": base[:37, 60:10:-1],
        "broadcast": np.broadcast_to(base[0, :50], (37, 50)),
        "one row": base[:1, :50],
        "one column": base[:37, :1],
    }[kind]


KINDS = [
    "contiguous", "sliced", "columns", "rows", "transposed", "reversed rows", "reversed columns", "broadcast",
    "one row", "one column",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_strides_of_inputs(kind: str) -> None:
    x = strided(np.random.default_rng(1), kind)
    y = np.zeros(x.shape, np.float32)
    double[tiles(x)](x, y)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "broadcast"])
def test_strides_of_outputs(kind: str) -> None:
    y = strided(np.random.default_rng(1), kind)
    x = np.random.default_rng(2).standard_normal(y.shape).astype(np.float32)
    double[tiles(x)](x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_specialisation_follows_strides_and_alignment() -> None:
    base = np.zeros(4096, np.float32)
    aligned = base[(-base.ctypes.data // 4) % 4 :][:1024].reshape(16, 64)
    cases = {
        (True, True): aligned,
        (True, False): aligned[:, 1:63],
        (False, True): aligned[:, ::2],
        (False, False): aligned[:, 1::2],
    }
    for facts, array in cases.items():
        type_ = read_argument(copy, "X", array).type
        assert (type_.unit_inner, type_.aligned) == facts  # type: ignore[union-attr]
    one_row = read_argument(copy, "X", aligned[:1, :62]).type
    assert one_row.aligned, "a stride that is never stepped along does not count"  # type: ignore[union-attr]


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty_arrays(shape: tuple[int, int]) -> None:
    x, y = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    double[tiles(x)](x, y)  # a grid of zero
    double[1, 1](x, y)  # a block that finds nothing


def test_empty_arrays_load_fill() -> None:
    @px.kernel(warps=1)
    def filled(X, Y):
        px.store(Y[0:8], px.load(X[0:8], fill=7))
        px.store(X[0:8], 1)

    y = np.zeros(8, np.int32)
    filled[1](np.zeros(0, np.int32), y)
    assert y.tolist() == [7] * 8


def test_a_grid_of_zero_does_nothing() -> None:
    x = np.ones((8, 16), np.float32)
    y = np.zeros_like(x)
    for grid in (0, (1, 0), (0, 1, 1)):
        double[grid](x, y)
    assert not y.any()


def test_arrays_of_rank_0_and_scalars_are_different_things() -> None:
    @px.kernel
    def both(X, OUT):
        px.store(OUT[0], X[()])

    out = np.zeros(1, np.float32)
    both[1](np.array(2.5, np.float32), out)
    assert out[0] == 2.5
    with pytest.raises(px.Error, match=r"a scalar of type f32 can't be indexed|axis|index"):
        both[1](2.5, out)


def test_read_only_arrays_may_be_read() -> None:
    x = np.arange(16, dtype=np.int32)
    x.flags.writeable = False
    y = np.zeros(16, np.int32)
    copy[1](x, y)
    assert y.tolist() == list(range(16))
    with pytest.raises(px.Error, match="Y is written by the kernel, but is a read-only array"):
        copy[1](y, x)


def test_the_wrong_rank_is_an_error_at_the_subscript() -> None:
    with pytest.raises(px.Error, match="2 indices for the array 'X' with 1 axis") as caught:
        double[1](np.zeros(8, np.float32), np.zeros((8, 16), np.float32))
    assert caught.value.location.text.strip() == "x = px.load(X[m : m + BM, n : n + BN])"


def test_the_wrong_dtype_is_an_error_at_the_store() -> None:
    with pytest.raises(px.Error, match=r"px\.store: a value of type f32 does not fit i32 memory"):
        copy[1](np.zeros(16, np.float32), np.zeros(16, np.int32))


FOREIGN = [np.complex64, np.dtype("U3"), np.dtype("M8[s]"), object, np.dtype([("a", "f4")]), np.longdouble]


@pytest.mark.parametrize("dtype", FOREIGN)
def test_element_types_that_no_kernel_takes(dtype: Any) -> None:
    with pytest.raises(px.Error, match=r"argument 'X': arrays of .* can't be kernel arguments") as caught:
        copy[1](np.zeros(16, dtype), np.zeros(16, np.float32))
    assert "def copy" in caught.value.location.text


def test_subclasses_and_memory_maps(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(16,))
    copy[1](np.arange(16, dtype=np.float32), mapped)
    assert mapped[15] == 15


# Scalars.


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (5, np.int32), (-5, np.int32), (2**31 - 1, np.int32), (2**31, np.int64), (-(2**31) - 1, np.int64),
        (2**63, np.uint64), (2**64 - 1, np.uint64), (np.int8(-3), np.int32), (np.uint64(2**63 + 1), np.uint64),
        (np.int64(7), np.int32), (1.5, np.float32), (np.float16(0.25), np.float32), (np.float64(0.1), np.float32),
        (ml_dtypes.bfloat16(1.5), np.float32), (float("inf"), np.float32), (-0.0, np.float32), (True, np.int32),
        (np.bool_(True), np.int32), (np.float32(3), np.int32), (1e-45, np.float32), (1e300, np.float32),
    ],
)  # fmt: skip
def test_scalars(value: Any, dtype: Any) -> None:
    out = np.zeros(1, dtype)
    scalar[1](out, value)
    with np.errstate(over="ignore"):
        want = np.array([float(value) if isinstance(value, float | np.floating) else value]).astype(dtype)
    assert out.tobytes() == want.tobytes()


def test_a_nan_stays_a_nan() -> None:
    out = np.zeros(1, np.float32)
    scalar[1](out, float("nan"))
    assert np.isnan(out[0])


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_integers_beyond_64_bits(value: int) -> None:
    with pytest.raises(px.Error, match=f"argument 'value': the integer {value} does not fit 64 bits"):
        scalar[1](np.zeros(1, np.int64), value)


@pytest.mark.parametrize("value", ["text", [1], {1: 2}, object(), 1j, range(3), px.f32], ids=lambda v: type(v).__name__)
def test_values_that_no_kernel_takes(value: Any) -> None:
    with pytest.raises(px.Error, match=r"argument 'value': a value of type .* can't be a run-time argument"):
        scalar[1](np.zeros(1, np.float32), value)


def test_the_type_of_a_scalar_specialises() -> None:
    out = read_argument(scalar, "OUT", np.zeros(1, np.float32))
    one, two, three = (specialise(scalar, [out, read_argument(scalar, "value", v)], {}) for v in (1, 2, 2.0))
    assert one is two and one is not three


# Grids.


GRIDS = [2, (2,), (2, 1), (2, 1, 1), np.int64(2), (np.int32(2), 1), lambda B: 32 // B, lambda meta: (meta["B"] // 8,)]


@pytest.mark.parametrize("grid", GRIDS)
def test_grids(grid: Any) -> None:
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    copy[grid](x, y)
    np.testing.assert_array_equal(y, x)


BAD_GRIDS = [None, "2", 1.0, (1, None), (), (1, 1, 1, 1), -1, (1, -2), True, [1], (2**31, 1), (1, 65536)]


@pytest.mark.parametrize("grid", BAD_GRIDS, ids=repr)
def test_bad_grids(grid: Any) -> None:
    x = np.zeros(16, np.int32)
    with pytest.raises(px.Error, match="the grid of kernel 'copy'") as caught:
        copy[grid](x, x)
    assert caught.value.remedy and "def copy" in caught.value.location.text


def test_the_grid_is_whole_clusters() -> None:
    @px.kernel(cluster=(2, 1, 2))
    def clustered(OUT):
        px.store(OUT[0], px.cluster.size())

    out = np.zeros(1, np.int32)
    clustered[2, 3, 4](out)
    assert out[0] == 4
    with pytest.raises(px.Error, match=r"the grid \(2, 2, 3\) of kernel 'clustered' is not a multiple of its cluster"):
        clustered[2, 2, 3](out)


# TMA.


def test_tma_at_the_edges_of_an_array() -> None:
    x = np.random.default_rng(3).standard_normal((37, 52)).astype(np.float32)
    y = np.zeros_like(x)
    tma_copy[tiles(x)](x, y)
    np.testing.assert_array_equal(y, x)


def test_tma_on_arrays_that_no_descriptor_expresses() -> None:
    """The simulator and the compiler refuse them alike, and say which rule they break."""
    base = np.zeros((64, 96), np.float32)
    good = px.spec((64, 96), px.f32)
    askew = "the start of X, or a stride of its outer axes, is not a multiple of 16 bytes, or runs backwards"
    for bad, reason in (
        (base[:, ::2], "the elements of X are not adjacent along its last axis"),
        (base[:, 1:90], askew),
        (base[::-1], askew),
        (px.spec((64, 97), px.f32), askew),
    ):
        with pytest.raises(px.Error, match=r"px.tma.load can't copy this region of X") as caught:
            px.compile(tma_copy[1], bad, good)
        assert reason in str(caught.value) and "px.tma.load(" in caught.value.location.text
        if isinstance(bad, np.ndarray):
            with pytest.raises(px.Error, match="TMA can't copy this") as caught:
                tma_copy[1, 1](bad, np.zeros((64, 96), np.float32))
            assert "px.tma.load(" in caught.value.location.text and caught.value.remedy


# Where the arguments are.


def test_host_and_cuda_arrays_do_not_mix(torch: Any) -> None:
    x, y = np.zeros(16, np.float32), torch.Tensor(0x10000, (16,), (1,))
    with pytest.raises(px.Error) as caught:
        copy[1](x, y)
    assert caught.value.message == (
        "the arguments of kernel 'copy' are in different places: 'X' is a host array and 'Y' is on CUDA device 0"
    )
    with pytest.raises(px.Error, match="'X' is on CUDA device 0 and 'Y' is on CUDA device 1"):
        copy[1](torch.Tensor(0x10000, (16,), (1,)), torch.Tensor(0x20000, (16,), (1,), device=1))


def test_host_tensors_run_in_the_simulator(torch: Any) -> None:
    argument = read_argument(copy, "X", torch.Tensor(0x10000, (16,), (1,), device=-1))
    assert argument.info is not None and dispatch.device_of(SimpleNamespace(parameters=("X",)), [argument]) is None  # type: ignore[arg-type]


class FakeLauncher:
    """Stands for a compiled kernel on a GPU: takes what it is asked to launch."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def launch(self, grid: Any, args: Any, infos: Any = None) -> None:
        self.launches.append((grid, list(args)))

    launch_anew = launch

    def try_launch(self, grid: Any, args: Any) -> bool:
        self.launches.append((grid, list(args), "fast"))
        return True

    def fresh(self) -> FakeLauncher:
        return self


@pytest.fixture
def gpu(torch: Any, monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    fake = FakeLauncher()
    compiled = SimpleNamespace(signature=SimpleNamespace(debug=False))
    monkeypatch.setattr(dispatch, "load_launcher", lambda *_: (fake, compiled))
    memory.forget()
    return fake


def test_a_second_launch_takes_the_short_way(gpu: FakeLauncher, torch: Any) -> None:
    x, y = torch.Tensor(0x10000, (32,), (1,)), torch.Tensor(0x20000, (32,), (1,))
    copy[2](x, y)
    copy[3](x, y)
    copy[2, 1](x, y, B=16)
    copy[2, 1](x, y, B=16)
    assert gpu.launches == [
        ((2, 1, 1), [x, y]), ((3, 1, 1), [x, y], "fast"), ((2, 1, 1), [x, y]), ((2, 1, 1), [x, y], "fast"),
    ]  # fmt: skip


class OneGeometry:
    """A launcher that knows the shapes of its last launch, as the real one does."""

    def __init__(self, ways: list[str]) -> None:
        self.ways = ways
        self.shapes: list[Any] = []

    def launch(self, grid: Any, args: Any, infos: Any = None) -> None:
        self.shapes = [getattr(x, "shape", None) for x in args]
        self.ways.append("long")

    launch_anew = launch

    def try_launch(self, grid: Any, args: Any) -> bool:
        if [getattr(x, "shape", None) for x in args] != self.shapes:
            return False
        self.ways.append("short")
        return True

    def fresh(self) -> OneGeometry:
        return OneGeometry(self.ways)


def test_shapes_in_turns_take_the_short_way(gpu: FakeLauncher, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[str] = []
    first = OneGeometry(ways)
    compiled = SimpleNamespace(signature=SimpleNamespace(debug=False))
    monkeypatch.setattr(dispatch, "load_launcher", lambda *_: (first, compiled))

    @px.kernel
    def fill(X, Y, *, B=16):
        px.store(X[0:B], px.zeros((B,), X.dtype))

    def launch(size: int, B: int = 16, other: bool = False) -> str:
        x = torch.Tensor(0x10000, (size,), (1,))
        fill[2](x, x if other else None, B=B)
        return ways[-1]

    memory.memory_of(fill).limit = 5
    sizes = (32, 64, 96)
    assert {launch(size) for _ in range(2) for size in sizes} == {"long"}  # when it comes again, it has a buffer of its own
    assert {launch(size) for _ in range(2) for size in sizes} == {"short"}
    assert launch(32, B=8) == "long" and launch(32) == "short"
    assert [launch(32, other=True) for _ in range(2)] == ["long", "short"]
    for way in ("long", "short"):
        assert launch(64) == "short" and launch(32, other=True) == way
    assert launch(128) == "long"  # one more than are kept: forgotten
    assert launch(128) == "short" and launch(32) == "long" and launch(128) == "long" and launch(32) == "long"
    assert launch(32) == "short" and launch(128) == "short"


def test_the_short_way_is_only_for_the_same_constants(gpu: FakeLauncher, torch: Any) -> None:
    @px.kernel
    def typed(X, *, K=1, T=()):
        px.store(X[0], K * 1.0 + len(T))

    x = torch.Tensor(0x10000, (32,), (1,))
    for constants in ({"K": 1}, {"K": True}, {"K": 1.0}, {"T": (1,)}, {"T": (1.0,)}, {"K": 0.0}, {"K": -0.0}):
        typed[1](x, **constants)
    assert [launch[2:] for launch in gpu.launches] == [()] * 7
    typed[1](x, K=-0.0)
    assert gpu.launches[-1][2:] == ("fast",)


def test_the_short_way_sees_changed_captures(gpu: FakeLauncher, torch: Any) -> None:
    size = 4

    @px.kernel
    def closed(X):
        px.store(X[0], size)

    x = torch.Tensor(0x10000, (32,), (1,))
    closed[1](x)
    closed[1](x)
    size = 5
    closed[1](x)
    assert [launch[2:] for launch in gpu.launches] == [(), ("fast",), ()]


def test_the_short_way_refuses_what_the_long_way_refuses(gpu: FakeLauncher, torch: Any) -> None:
    @px.kernel(cluster=2)
    def clustered(X, *, K=1):
        px.store(X[0], K)

    x = torch.Tensor(0x10000, (32,), (1,))
    clustered[2](x)
    clustered[0](x)
    assert len(gpu.launches) == 1
    for grid, reason in ((3, "not a multiple of its cluster"), (-2, "is -2"), ((2, 70000), "the hardware takes 65535")):
        with pytest.raises(px.Error, match=reason):
            clustered[grid](x)
    with pytest.raises(px.Error, match="the constant 'K' of kernel 'clustered' is a list"):
        clustered[2](x, K=[1])
    assert len(gpu.launches) == 1


def test_none_among_the_arguments(gpu: FakeLauncher, torch: Any) -> None:
    @px.kernel
    def optional(X, BIAS, n):
        px.store(X[0], n if BIAS is None else n + 1)

    x = torch.Tensor(0x10000, (32,), (1,))
    optional[1](x, None, 3)
    optional[1](x, None, 4)
    optional[1](x, x, 4)
    assert gpu.launches == [((1, 1, 1), [x, 3]), ((1, 1, 1), [x, 4], "fast"), ((1, 1, 1), [x, x, 4])]


@pytest.mark.parametrize(
    ("grid", "cluster", "answer"),
    [
        ((1, 1, 1), (1, 1, 1), True), ((4, 1, 1), (2, 1, 1), True), ((3, 1, 1), (2, 1, 1), False),
        ((0, 1, 1), (1, 1, 1), False), ((1, 65536, 1), (1, 1, 1), False), ((2**31, 1, 1), (1, 1, 1), False),
        ((2, 1, 3), (2, 1, 2), False),
    ],
)  # fmt: skip
def test_launchable_grids(grid: Any, cluster: Any, answer: bool) -> None:
    assert is_launchable(grid, cluster) is answer


# Compiling.


def test_compile_is_remembered_per_target() -> None:
    s = px.spec((64, 64), px.f32)
    first = px.compile(double[1], s, s)
    assert px.compile(double[1], s, s) is first
    assert px.compile(double[1], s, s, arch="sm_100a").arch == "sm_100a"
    assert px.compile(double[1], np.zeros((64, 64), np.float32), s) is first


def test_spec_describes_the_array_it_stands_for() -> None:
    assert px.spec(64, px.f32).shape == (64,)
    array = read_argument(copy, "X", np.zeros((4, 64), np.float32))
    assert read_argument(copy, "X", px.spec((4, 64), px.f32)).type == array.type
    assert not read_argument(copy, "X", px.spec((4, 63), px.f32)).type.aligned  # type: ignore[union-attr]
    assert read_argument(copy, "X", px.spec((1, 63), px.f32)).type.aligned  # type: ignore[union-attr]
