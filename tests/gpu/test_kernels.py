"""The row-wise library on the GPU: every size, element type and cluster, against torch in f64."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.rowwise.row_config import RowConfig, choose
from phalanx.kernels.rowwise.stream_config import StreamConfig

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

EPS = 1e-5
COLUMNS = (1, 37, 256, 1000, 1024, 4096, 5001, 16384, 20000, 32768, 65536, 131072, 262144, 1 << 19, 1 << 20)


def near(got: Any, want: Any) -> None:
    unit = torch.finfo(got.dtype).eps
    error = (got.double() - want).abs()
    limit = unit * want.abs() + 4e-6 * want.abs().max()
    assert torch.isfinite(got).all() and bool((error <= limit).all()), float((error - limit).max())


def exact_rms_norm(wide: Any, w: Any) -> Any:
    return wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + EPS) * w.double()


def exact_layer_norm(wide: Any, w: Any, b: Any) -> Any:
    vectors = (None if vector is None else vector.double() for vector in (w, b))
    return torch.nn.functional.layer_norm(wide, wide.shape[1:], *vectors, EPS)


def verify(rows: int, columns: int, dtype: Any, config: RowConfig | StreamConfig | None = None) -> None:
    torch.manual_seed(columns)
    x = (3 * torch.randn(rows, columns, device="cuda")).to(dtype)
    w, b = (torch.randn(columns, device="cuda").to(dtype) for _ in range(2))
    targets = torch.randint(0, columns, (rows,), device="cuda")
    wide, functional = x.double(), torch.nn.functional
    for got, want in (
        (px.kernels.softmax(x, config=config), torch.softmax(wide, -1)),
        (px.kernels.log_softmax(x, config=config), torch.log_softmax(wide, -1)),
        (px.kernels.rms_norm(x, w, EPS, config=config), exact_rms_norm(wide, w)),
        (px.kernels.layer_norm(x, w, b, EPS, config=config), exact_layer_norm(wide, w, b)),
    ):
        assert got.dtype == dtype and got.shape == x.shape and got.device == x.device
        near(got, want)
    losses = px.kernels.cross_entropy(x, targets, reduction="none", config=config if isinstance(config, RowConfig) else None)
    near(losses, functional.cross_entropy(wide, targets, reduction="none"))


@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
@pytest.mark.parametrize("columns", COLUMNS)
def test_every_size(columns: int, dtype: str) -> None:
    verify(7 if columns > 100_000 else 133, columns, getattr(torch, dtype))


@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
@pytest.mark.parametrize(
    "columns",
    (4097, 8191, 9000, 18008, 32767, 36000, 49151, 65001, 90008, 131071, 200000, 200001, 230000, 262145),
)
def test_awkward_sizes(columns: int, dtype: str) -> None:
    """No vector fits them, or they leave a large cluster partly empty."""
    verify(7 if columns > 100_000 else 133, columns, getattr(torch, dtype))


@pytest.mark.parametrize("columns", (100, 1024, 5001, 65536, 131072))
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_a_nan_makes_its_row_nan_and_no_other(columns: int, dtype: str) -> None:
    """Rows without one, with one, with some, with nothing else: of both signs, as torch has it."""
    x = torch.randn(9, columns, device="cuda").to(getattr(torch, dtype))
    x[1, columns - 3] = torch.nan
    x[2, ::7] = -torch.nan
    x[4] = torch.nan
    x[5] = -torch.nan
    x[6, : columns // 2] = -torch.nan
    targets = torch.arange(9, device="cuda")
    for got, want in (
        (px.kernels.softmax(x), torch.softmax(x.double(), -1)),
        (px.kernels.log_softmax(x), torch.log_softmax(x.double(), -1)),
        (px.kernels.rms_norm(x), x * x),
        (px.kernels.layer_norm(x), x - x.mean(-1, keepdim=True)),
        (
            px.kernels.cross_entropy(x, targets, reduction="none")[:, None],
            torch.nn.functional.cross_entropy(x.double(), targets, reduction="none")[:, None],
        ),
    ):
        bad = torch.isnan(want).any(-1)
        assert bad.tolist() == [row in (1, 2, 4, 5, 6) for row in range(9)]
        assert bool(torch.isnan(got[bad]).all()) and bool(torch.isfinite(got[~bad]).all())


@px.kernel(warps=4)
def largest_and_smallest(X, Y, AT, *, N):
    row = px.block_id(0)
    x = px.load(X[row, 0:N])
    px.store(Y[row, 0], px.max(x).to(px.f32))
    px.store(Y[row, 1], px.min(x).to(px.f32))
    px.store(AT[row], px.argmax(x, 0))


@pytest.mark.parametrize("n", (32, 64, 128, 1000))
@pytest.mark.parametrize("dtype", ("float64", "float32", "float16", "bfloat16"))
def test_max_min_and_argmax_find_a_nan_as_torch_does(n: int, dtype: str) -> None:
    x = torch.randn(6, n, device="cuda").to(getattr(torch, dtype))
    x[1, n // 3] = -torch.nan
    x[2, 5::4] = torch.nan
    x[3] = torch.nan
    x[4] = -torch.nan
    x[5, 0] = -torch.inf
    y, at = torch.zeros(6, 2, device="cuda"), torch.zeros(6, device="cuda", dtype=torch.int32)
    largest_and_smallest[6](x, y, at, N=n)
    want = torch.stack([x.amax(-1), x.amin(-1)], -1).float()
    assert torch.equal(y.isnan(), want.isnan()) and torch.equal(y.nan_to_num(), want.nan_to_num())
    assert at.tolist() == x.argmax(-1).tolist()


@pytest.mark.parametrize("cluster", (1, 2, 4, 8, 16))
@pytest.mark.parametrize("columns", (32768, 30001))
def test_every_cluster(cluster: int, columns: int) -> None:
    threads = 256
    width = threads * 8
    verify(300, columns, torch.bfloat16, RowConfig(cluster, threads // 32, 1, width, px.cdiv(columns, cluster * width)))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
@pytest.mark.parametrize("row_bytes", (1 << 18, 1 << 19, 1 << 20))
@pytest.mark.parametrize("biased", (False, True))
def test_norms_of_long_rows_are_the_same_every_time(biased: bool, row_bytes: int, dtype: str) -> None:
    kind = getattr(torch, dtype)
    columns = row_bytes // kind.itemsize
    torch.manual_seed(columns)
    x = (3 * torch.randn(150, columns, device="cuda")).to(kind)
    w, b = (torch.randn(columns, device="cuda").to(kind) for _ in range(2))
    near(px.kernels.rms_norm(x, w, EPS), exact_rms_norm(x.double(), w))
    got = px.kernels.layer_norm(x, w, b if biased else None, EPS)
    near(got, exact_layer_norm(x.double(), w, b if biased else None))
    for _ in range(5):
        assert torch.equal(got, px.kernels.layer_norm(x, w, b if biased else None, EPS))


@pytest.mark.parametrize("columns", (37, 1024, 4096, 5001, 16384, 30001, 65536, 65000, 131072, 131000, 262144, 1 << 20))
@pytest.mark.parametrize("rows", (5, 133))
def test_a_large_mean_costs_no_digits(rows: int, columns: int) -> None:
    """The mean itself is known to a few roundings of f32 at 1,000, 6e-5 each; x^2 and its mean squared would not do."""
    torch.manual_seed(columns)
    x = 1000 + torch.randn(rows, columns, device="cuda")
    got = px.kernels.layer_norm(x, None, None, EPS).double()
    want = exact_layer_norm(x.double(), None, None)
    assert float((got - want).abs().max()) < 2.5e-4
    slope = (got * want).mean(-1) - got.mean(-1) * want.mean(-1)
    assert float((slope / want.var(-1, correction=0) - 1).abs().max()) < 1e-5


def test_part_of_the_row_in_shared_memory() -> None:
    verify(50, 20000, torch.float32, RowConfig(2, 8, 1, 1024, 6, 4))


def test_infinities() -> None:
    x = torch.zeros(300, 70000, device="cuda", dtype=torch.bfloat16)
    x[:, 4:] = -float("inf")
    got = px.kernels.softmax(x)
    assert bool((got[:, :4] == 0.25).all()) and bool((got[:, 4:] == 0).all())


def test_repeated_runs_agree_bit_by_bit() -> None:
    x = torch.randn(512, 262144, device="cuda", dtype=torch.bfloat16)
    first = px.kernels.softmax(x)
    for _ in range(5):
        assert torch.equal(first, px.kernels.softmax(x))
    assert choose(262144, 2).cluster == 8


def test_strided_input_and_leading_axes() -> None:
    x = torch.randn(4, 6, 96, device="cuda")
    near(px.kernels.softmax(x[:, ::2, 3:]), torch.softmax(x[:, ::2, 3:].double(), -1))
    near(px.kernels.softmax(x.transpose(1, 2)), torch.softmax(x.transpose(1, 2).double(), -1))


def test_mean_loss_like_torch() -> None:
    logits = torch.randn(50, 3000, device="cuda")
    targets = torch.randint(0, 3000, (50,), device="cuda")
    targets[::7] = -100
    want = torch.nn.functional.cross_entropy(logits.double(), targets)
    assert abs(float(px.kernels.cross_entropy(logits, targets)) - float(want)) < 1e-5


@pytest.mark.parametrize("call", ["softmax", "matmul", "rms_norm", "embedding", "grouped_matmul"])
def test_a_gradient_is_never_dropped(call: str) -> None:
    x = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    calls = {
        "softmax": lambda w: px.kernels.softmax(w),
        "matmul": lambda w: px.kernels.matmul(x, w.T),
        "rms_norm": lambda w: px.kernels.rms_norm(x, w[0]),
        "embedding": lambda w: px.kernels.embedding(w, torch.zeros(5, device="cuda", dtype=torch.int64)),
        "grouped_matmul": lambda w: px.kernels.grouped_matmul(x, w[None], [64]),
    }
    run = calls[call]
    for _ in range(2):
        with pytest.raises(px.Error, match="requires grad"):
            run(weight)
        with torch.no_grad():
            run(weight)


STREAMS = (
    StreamConfig(1, 4, 1, 24, 16, 2, 4), StreamConfig(2, 8, 2, 6, 3, 1, 2), StreamConfig(8, 8, 2, 13, 10, 1, 2),
    StreamConfig(16, 16, 2, 13, 10), StreamConfig(1, 8, 1, 13, 6, per_sm=2, group=2), StreamConfig(4, 8, 1, 9, 5, group=2),
)  # fmt: skip


@pytest.mark.parametrize("columns", (5003, 50257, 60_008, 262145, 1_000_003))
@pytest.mark.parametrize("config", STREAMS, ids=str)
def test_rows_chunk_by_chunk(config: StreamConfig, columns: int) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        verify(7 if columns > 100_000 else 133, columns, dtype, config)


@pytest.mark.parametrize("columns", (33, 39, 99, 130, 181, 257, 331, 429, 590, 1001))
def test_short_rows_that_begin_anywhere(columns: int) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        verify(1333, columns, dtype)


@pytest.mark.parametrize("columns", (903, 1803, 4507, 6703, 8003, 12003, 24003, 35691, 50257, 72000, 90001, 119819, 200003))
def test_norms_by_teams(columns: int) -> None:
    """Rows of every kind of team, of which the last clusters have one less, or none."""
    for dtype in (torch.bfloat16, torch.float32):
        for rows in (5, 777):
            x, w, b = torch.randn(rows, columns, device="cuda").to(dtype), *torch.randn(2, columns, device="cuda").to(dtype)
            near(px.kernels.rms_norm(x, w, EPS), exact_rms_norm(x.double(), w))
            near(px.kernels.layer_norm(x, w, b, EPS), exact_layer_norm(x.double(), w, b))


@pytest.mark.parametrize("cluster, kept, columns", [(2, 7, 50257), (4, 5, 76162), (16, 16, 1_000_003)])
def test_rows_held_in_registers(cluster: int, kept: int, columns: int) -> None:
    parts = kept if kept < 8 else 0
    verify(37, columns, torch.bfloat16, StreamConfig(cluster, 16, 1, 26, kept, parts, hold=True))


def test_rows_that_no_cluster_holds() -> None:
    verify(3, 2_000_001, torch.float32)


@pytest.mark.parametrize("columns", (96, 257, 1000, 5001, 50257, 1_300_001))
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_what_rows_are_computed_together_with(columns: int, dtype: str) -> None:
    torch.manual_seed(columns)
    x, residual = (torch.randn(37, columns, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
    w = torch.randn(columns, device="cuda").to(x.dtype)
    total = x + residual
    got = px.kernels.add_rms_norm(x, residual, w, EPS)
    assert torch.equal(residual, total)
    near(got, exact_rms_norm(total.double(), w))
    keep = torch.rand(37, columns, device="cuda") < 0.7
    want = torch.softmax((x.double() * 0.5).masked_fill(~keep, -torch.inf), -1)
    near(px.kernels.softmax(x, scale=0.5, mask=keep), want)
    targets = torch.randint(0, columns, (37,), device="cuda")
    targets[3] = -100
    logits = x.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(logits, targets)
    loss.backward()
    mine = px.kernels.cross_entropy(x, targets, gradient=True)
    assert abs(float(mine) - float(loss)) < 1e-4 * float(loss)
    near(x, logits.grad)
