"""The library's matmul on the GPU, against torch in f32. Operands are small integers: sums are exact in any order."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.products.matmul import CopyWarning, MatmulConfig, matmul
from phalanx.kernels.products.matmul_config import Problem, candidates, complete
from phalanx.kernels.products.matmul_cuts import fitted, fitted_width
from phalanx.kernels.products.split_config import choose_split

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::phalanx.kernels.products.matmul.CopyWarning")]
torch: Any = pytest.importorskip("torch")
functional = torch.nn.functional


@pytest.fixture(autouse=True)
def exact() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)


def integers(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    return torch.randint(-3, 4, shape, device="cuda").to(torch.float32).to(dtype)


def same(got: Any, want: Any) -> None:
    assert got.shape == want.shape
    assert torch.equal(got, want.to(got.dtype))


def near(got: Any, want: Any, unit: float) -> None:
    assert torch.isfinite(got).all()
    assert float((got.float() - want).abs().max()) <= unit * float(want.abs().max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("a_by_columns", [False, True])
@pytest.mark.parametrize("b_by_columns", [False, True])
def test_transposes(dtype: str, a_by_columns: bool, b_by_columns: bool) -> None:
    kind = getattr(torch, dtype)
    a = integers(328, 1032, dtype=kind).T if a_by_columns else integers(1032, 328, dtype=kind)
    b = integers(776, 328, dtype=kind).T if b_by_columns else integers(328, 776, dtype=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CopyWarning)
        same(matmul(a, b), a.float() @ b.float())


@pytest.mark.parametrize(
    "m, n, k",
    [(4096, 4096, 4096), (2048, 2048, 16384), (8192, 512, 1024), (5000, 3000, 1000), (64, 8192, 4096), (512, 512, 64)],
)
def test_sizes(m: int, n: int, k: int) -> None:
    a, b = integers(m, k), integers(n, k).T
    same(matmul(a, b), a.float() @ b.float())


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (1000, 1001, 1003), (77, 33, 17), (4097, 4097, 129), (3, 8192, 5)])
def test_odd_sizes(m: int, n: int, k: int) -> None:
    for a, b in ((integers(m, k), integers(k, n)), (integers(k, m).T, integers(n, k).T)):
        same(matmul(a, b), a.float() @ b.float())


@pytest.mark.parametrize("by_k", [True, False])
def test_configurations_of_every_kind(by_k: bool) -> None:
    a, b = integers(1100, 456) if by_k else integers(456, 1104).T, integers(904, 456).T if by_k else integers(456, 904)
    want, bias = a.float() @ b.float(), integers(904)
    kinds = {}
    for number, config in enumerate(candidates(Problem(4096, 4096, 4096, by_k=(by_k, by_k)))):
        if number % 7 == 0:
            kinds[config.bm, config.cluster, config.swapped] = config
    for config in kinds.values():
        same(matmul(a, b, config=config), want)
        same(matmul(a, b, bias, "relu", config=config), torch.relu(want + bias.float()))


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)])
@pytest.mark.parametrize("bm, bn, swapped", [(64, 72, True), (128, 80, True), (64, 40, False), (192, 104, False)])
def test_what_lies_across_k_comes_in_narrow_panels_and_in_rows_of_k(
    bm: int, bn: int, swapped: bool, cluster: tuple[int, int]
) -> None:
    problem = Problem(328, 776, 600, by_k=(False, False))
    config = complete(problem, bm, bn, {64: 1, 128: 2, 192: 3}[bm], cluster, swapped)
    a, b = integers(600, 328).T, integers(600, 776)
    for trimmed in (False, False), (True, True):
        same(matmul(a, b, config=replace(config, trimmed=trimmed)), a.float() @ b.float())


@pytest.mark.parametrize("by_k", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("n", [136, 144, 176, 216, 264])
def test_tiles_as_wide_as_a_narrow_result(n: int, by_k: tuple[bool, bool]) -> None:
    a = integers(3, 600, 424) if by_k[0] else integers(3, 424, 600).mT
    b = integers(3, n, 424).mT if by_k[1] else integers(3, 424, n)
    problem = Problem(600, n, 424, 3, by_k=by_k)
    width = fitted_width(problem)
    assert width is not None
    for config in fitted(problem, *width):
        same(matmul(a, b, config=config), a.float() @ b.float())


@pytest.mark.parametrize("m, n", [(100, 2048), (2048, 104), (300, 1000)])
def test_few_rows_and_columns_that_lie_across_k(m: int, n: int) -> None:
    k = 4096
    bias = integers(n)
    for a in (integers(m, k), integers(k, m // 8 * 8).T):
        for b in (integers(k, n), integers(n, k).T):
            config = choose_split(*((a.shape[0], n) if m <= n else (n, a.shape[0])), k, a_rows=False)
            same(matmul(a, b, bias, config=config), a.float() @ b.float() + bias.float())


def test_tuned_products() -> None:
    a, b = integers(300, 1024), integers(1000, 1024).T
    for _ in range(2):
        same(matmul(a, b, config="tune"), a.float() @ b.float())


@pytest.mark.parametrize("cluster", [(4, 1), (1, 4), (2, 4)])
def test_wide_clusters(cluster: tuple[int, int]) -> None:
    a, b = integers(2048, 1024), integers(2048, 1024).T
    config = MatmulConfig(128, 128, stages=4, cluster=cluster, group=2, parts=1)
    same(matmul(a, b, config=config), a.float() @ b.float())


def test_many_launches_agree() -> None:
    a, b = integers(2048, 2048), integers(2048, 2048)
    want = (a.float() @ b.float()).to(torch.bfloat16)
    out = torch.empty_like(want)
    for _ in range(200):
        out.zero_()
        matmul(a, b, out=out)
        assert torch.equal(out, want)


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu"])
def test_bias_and_activations(activation: str | None) -> None:
    a, b = torch.randn(1000, 512, device="cuda").bfloat16(), (torch.randn(512, 776, device="cuda") * 512**-0.5).bfloat16()
    for bias in (torch.randn(776, device="cuda").bfloat16(), torch.randn(1000, 776, device="cuda")):
        plain = a.float() @ b.float() + bias.float()
        known = {
            None: plain, "relu": torch.relu(plain), "gelu": functional.gelu(plain), "silu": functional.silu(plain),
            "gelu_tanh": functional.gelu(plain, approximate="tanh"),
        }
        near(matmul(a, b, bias, activation), known[activation], 2**-8)
        near(matmul(a, b, bias, activation, out_dtype=torch.float32), known[activation], 2**-17)


@pytest.mark.parametrize(
    "left, right",
    [
        ((5, 520, 200), (5, 200, 264)), ((5, 520, 200), (200, 264)), ((520, 200), (5, 200, 264)), ((200,), (200, 264)),
        ((2, 3, 130, 72), (2, 1, 72, 264)), ((64, 100, 64), (64, 64, 100)), ((3, 1, 72), (3, 72, 8)), ((520, 200), (200,)),
    ],
    ids=str,
)
def test_batches(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = integers(*left), integers(*right)
    same(matmul(a, b), torch.matmul(a.float(), b.float()))


def test_expanded_and_sliced_operands() -> None:
    a, b = integers(1, 256, 128).expand(4, 256, 128), integers(4, 128, 520)[:, :, 8:264]
    same(matmul(a, b), torch.matmul(a.float(), b.float()))
    wide = integers(256, 512)
    same(matmul(wide[:, 128:384], wide[:, :256].T), wide[:, 128:384].float() @ wide[:, :256].T.float())


@pytest.mark.parametrize("shape", [(776,), (1000, 776), (2, 1000, 776)])
def test_bias_of_batches(shape: tuple[int, ...]) -> None:
    a, b, bias = integers(2, 1000, 136), integers(2, 136, 776), integers(*shape)
    same(matmul(a, b, bias), torch.matmul(a.float(), b.float()) + bias.float())


def test_out_keeps_its_neighbours() -> None:
    a, b = integers(1000, 136), integers(136, 777)
    room = torch.zeros(1000, 800, device="cuda", dtype=torch.bfloat16)
    out = room[:, 3:780]
    assert matmul(a, b, out=out) is out
    same(out, a.float() @ b.float())
    assert not room[:, :3].any() and not room[:, 780:].any()
    turned = torch.zeros(777, 1000, device="cuda").T
    same(matmul(a, b, out=turned), a.float() @ b.float())


def test_nothing() -> None:
    assert matmul(integers(0, 8), integers(8, 16)).shape == (0, 16)
    bias = integers(16)
    same(matmul(integers(5, 0), integers(0, 16), bias), bias.float().expand(5, 16))


@pytest.mark.parametrize("left, right", [("e4m3fn", "e4m3fn"), ("e5m2", "e4m3fn"), ("e4m3fn", "e5m2")])
def test_8_bit_floats(left: str, right: str) -> None:
    for m, n, k in ((1000, 776, 528), (4096, 4096, 2048), (100, 40, 33)):
        a = integers(m, k, dtype=getattr(torch, f"float8_{left}"))
        b = integers(n, k, dtype=getattr(torch, f"float8_{right}")).T
        same(matmul(a, b), a.float() @ b.float())


def test_8_bit_floats_in_any_order() -> None:
    a, b = integers(528, 1000, dtype=torch.float8_e4m3fn).T, integers(528, 776, dtype=torch.float8_e4m3fn)
    with pytest.warns(CopyWarning, match="along K only"):
        same(matmul(a, b), a.float() @ b.float())


def test_scales() -> None:
    a, b = integers(1000, 528, dtype=torch.float8_e4m3fn), integers(776, 528, dtype=torch.float8_e4m3fn).T
    want, bias = a.float() @ b.float(), torch.randn(776, device="cuda").bfloat16()
    rows, columns = torch.rand(1000, 1, device="cuda") + 0.5, torch.rand(1, 776, device="cuda") + 0.5
    same(matmul(a, b, scale_a=0.5, scale_b=0.25), want * 0.125)
    one, another = torch.tensor(0.5, device="cuda"), torch.full((1,), 0.25, device="cuda")
    same(matmul(a, b, scale_a=one, scale_b=another), want * 0.125)
    near(matmul(a, b, bias, scale_a=rows, scale_b=columns), want * rows * columns + bias.float(), 2**-8)
    near(matmul(a, b, scale_a=rows, scale_b=2.0, out_dtype=px.f32), want * rows * 2.0, 2**-20)


def test_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    rng = cupy.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(cupy.float16) for shape in ((300, 200), (200, 264)))
    got = matmul(a, b)
    assert isinstance(got, cupy.ndarray)
    assert bool((got.astype(cupy.float32) == a.astype(cupy.float32) @ b.astype(cupy.float32)).all())


# Remembered calls, and other kernels.


def test_repeated_calls_have_their_own_arguments() -> None:
    matmul.remembered.clear()
    for _ in range(3):
        for m in (256, 384):
            a, b, bias = integers(m, 192), integers(320, 192).T, integers(320)
            same(matmul(a, b, bias), a.float() @ b.float() + bias.float())
            out = torch.full((m, 320), float("nan"), device="cuda", dtype=torch.bfloat16)
            assert matmul(a, b, out=out) is out
            same(out, a.float() @ b.float())
    assert len(matmul.remembered) == 4 and all(matmul.remembered.values())


def test_repeated_calls_run_on_the_current_stream_and_in_graphs() -> None:
    a, b, out = integers(256, 256), integers(256, 256).T, torch.zeros(256, 256, device="cuda", dtype=torch.bfloat16)
    matmul(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        matmul(a, b, out=out)
    out.zero_()
    a.copy_(integers(256, 256))
    graph.replay()
    torch.cuda.synchronize()
    same(out, a.float() @ b.float())


@pytest.mark.parametrize("m, n, k", [(128, 4096, 14336), (64, 8192, 8192), (4096, 128, 14336), (1, 8192, 8192)])
def test_few_rows_or_columns(m: int, n: int, k: int) -> None:
    a, b = integers(m, k), integers(n, k).T
    for _ in range(2):
        same(matmul(a, b), a.float() @ b.float())
        same(matmul(a, b, activation="relu"), torch.relu(a.float() @ b.float()))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_gelu_tanh_is_as_exact_as_it_says(dtype: str) -> None:
    a = torch.linspace(-8, 8, 4096, device="cuda").to(torch.float16).reshape(4096, 1).repeat(1, 16) / 16
    b = torch.ones(16, 64, device="cuda", dtype=torch.float16)
    x = a.double() @ b.double()
    got = matmul(a, b, activation="gelu_tanh", out_dtype=getattr(torch, dtype)).double()
    want = functional.gelu(x, approximate="tanh")
    unit = {"bfloat16": 2**-8, "float16": 2**-11, "float32": 2**-20}[dtype]
    allowed = unit * want.abs() + (2.6e-4 if dtype == "bfloat16" else 2e-6) * x.abs() + 1e-7
    assert bool(((got - want).abs() <= allowed).all())


@pytest.mark.parametrize("n, k", [(5000, 2048), (4936, 256)])
def test_tiles_of_160_columns(n: int, k: int) -> None:
    a, b = integers(1000, k), integers(n, k).T
    config = MatmulConfig(128, 160, stages=6, parts=5)
    same(matmul(a, b, config=config), a.float() @ b.float())


@pytest.mark.parametrize("activation", ("relu", "gelu", "gelu_tanh", "silu"))
@pytest.mark.parametrize("dtype", ("bfloat16", "float16"))
def test_a_nan_passes_every_activation(activation: str, dtype: str) -> None:
    a, b = (torch.randn(256, 256, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
    a[3, 5], a[77] = torch.nan, -torch.nan
    bad = torch.isnan(matmul(a, b, activation=activation))
    assert bool(bad[[3, 77]].all()) and int(bad.sum()) == 512
