"""On the GPU: attention against float64, its error beside cuDNN's, and repeats that are equal bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phalanx.kernels.attention.config import AttentionConfig
from phalanx.kernels.attention.forward import attention
from support.attention_cases import exact, exact_packed

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


def heads(*shape: int, amplitude: float = 1.0, dtype: str = "bfloat16") -> Any:
    return (torch.randn(*shape, device="cuda") * amplitude).to(getattr(torch, dtype))


def host(x: Any) -> Any:
    return x.double().cpu().numpy() if torch.is_tensor(x) else x


def relative(got: Any, want: np.ndarray) -> float:
    return float(np.linalg.norm(host(got) - want) / max(np.linalg.norm(want), 1e-30))


def judged(q: Any, k: Any, v: Any, limit: float = 0.004, *, ends: bool = False, plain: bool = True, **options: Any) -> Any:
    """Ours against float64; the same call again gives the same, also without logarithms (`plain`, another kernel).

    With `ends` float64 has the first and the last head of the last sequence alone: the host takes seconds for more.
    """
    got, logs = attention(q, k, v, lse=True, **options)
    known = {name: host(value) for name, value in options.items() if name != "config"}
    group = q.shape[1] // k.shape[1]
    parts = [(slice(None), slice(None), slice(None))]
    if ends:
        last = slice(q.shape[0] - 1, None)
        parts = [(last, slice(h, h + 1), slice(h // group, h // group + 1)) for h in sorted({0, q.shape[1] - 1})]
    for batch, mine, shared in parts:
        want, want_logs = exact(host(q[batch, mine]), host(k[batch, shared]), host(v[batch, shared]), **known)
        assert relative(got[batch, mine], want) < limit
        np.testing.assert_allclose(host(logs[batch, mine]), want_logs, rtol=1e-5, atol=1e-4)
    assert torch.equal(got, attention(q, k, v, lse=True, **options)[0])
    assert not plain or torch.equal(got, attention(q, k, v, **options))
    return got


@pytest.mark.parametrize("dim, wide", [(64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256)])
@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": (200, 30)}], ids=str)
@pytest.mark.parametrize(
    "queries, keys, amplitude, dtype", [(1000, 777, 1, "bfloat16"), (333, 1500, 6, "float16")], ids=["bf16", "f16"]
)
def test_sizes_and_masks(
    queries: int, keys: int, amplitude: int, dtype: str, mask: dict[str, Any], dim: int, wide: int
) -> None:
    torch.manual_seed(dim)
    q = heads(2, 4, queries, dim, amplitude=amplitude, dtype=dtype)
    k, v = heads(2, 2, keys, dim, dtype=dtype), heads(2, 2, keys, wide, dtype=dtype)
    judged(q, k, v, 0.004 if dtype == "bfloat16" else 0.001, **mask)


@pytest.mark.parametrize("seed", range(20))
def test_random_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    dim, kv = int(rng.choice([64, 96, 128, 192, 256])), int(rng.integers(1, 4))
    batch, group, queries, keys = (int(rng.integers(1, most)) for most in (3, 5, 4001, 4001))
    mask: dict[str, Any] = {"causal": bool(rng.random() < 0.5)}
    if rng.random() < 0.5:
        mask["window"] = tuple(int(x) for x in rng.integers(-1, 3000, 2))
    amplitude = float(rng.choice([1, 3, 8]))
    q = heads(batch, queries, kv * group, dim, amplitude=amplitude).transpose(1, 2)
    k, v = (heads(batch, keys, kv, dim).transpose(1, 2) for _ in range(2))
    assert judged(q, k, v, 0.005, ends=True, plain=False, **mask).stride(1) == dim or group * kv == 1 or queries == 1


@pytest.mark.parametrize("kind", ["cap", "slopes", "bias", "bias and cap"])
def test_caps_slopes_and_biases(kind: str) -> None:
    torch.manual_seed(0)
    q, k, v = heads(2, 4, 500, 128, amplitude=3), heads(2, 2, 700, 128), heads(2, 2, 700, 128)
    slopes = torch.tensor([0.5, 0.1, 0.01, 0.0], device="cuda")
    bias = torch.randn(2, 4, 500, 700, device="cuda")
    bias[0, 0, 3], bias[1, :, :, 10:90] = -float("inf"), -float("inf")
    options: dict[str, dict[str, Any]] = {
        "cap": {"softcap": 10.0, "causal": True}, "slopes": {"bias": slopes}, "bias": {"bias": bias},
        "bias and cap": {"bias": bias[:1, :1].bfloat16(), "softcap": 20.0},
    }  # fmt: skip
    judged(q, k, v, **options[kind])


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences(causal: bool) -> None:
    torch.manual_seed(0)
    starts_q, starts_k = [0, 1, 300, 300, 1000, 1111], [0, 50, 90, 400, 400, 1333]
    q, k, v = heads(1111, 4, 128), heads(1333, 2, 128), heads(1333, 2, 128)
    on_card = [torch.tensor(x, dtype=torch.int32, device="cuda") for x in (starts_q, starts_k)]
    got, logs = attention(q, k, v, causal=causal, lse=True, cu_seqlens_q=on_card[0], cu_seqlens_k=on_card[1])
    want, want_logs = exact_packed(host(q), host(k), host(v), starts_q, starts_k, causal=causal)
    assert relative(got, want) < 0.004
    np.testing.assert_allclose(host(logs), want_logs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dim", [64, 128, 256])
def test_8_bit_floats(dim: int) -> None:
    torch.manual_seed(0)
    q, k, v = (heads(1, 2, n, dim, dtype="float8_e4m3fn") for n in (500, 1200, 1200))
    scale = torch.full((1,), 0.5, device="cuda")
    got = attention(q, k, v, causal=True, q_scale=scale, k_scale=2.0, v_scale=scale)
    want, _ = exact(host(q.float()), host(k.float()), host(v.float()) / 2, causal=True)
    assert got.dtype == torch.bfloat16 and relative(got, want) < 0.04


@pytest.mark.parametrize("amplitude", [1, 2, 4, 8])
@pytest.mark.parametrize("causal", [False, True])
def test_errors_are_near_those_of_cudnn(causal: bool, amplitude: float) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    for dim in (64, 128):
        q, k, v = heads(1, 4, 2000, dim, amplitude=amplitude), heads(1, 4, 2000, dim), heads(1, 4, 2000, dim)
        want, _ = exact(host(q), host(k), host(v), causal=causal)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        assert relative(attention(q, k, v, causal=causal), want) <= 1.3 * relative(theirs, want)


def test_a_graph_of_calls() -> None:
    torch.manual_seed(0)
    q, k, v = (heads(2, 3, 700, 128) for _ in range(3))
    want = attention(q, k, v, causal=True)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        attention(q, k, v, causal=True)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        got = attention(q, k, v, causal=True)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(got, want)


OTHERS = AttentionConfig(keys=64), AttentionConfig(groups=2, keys=128, producer_regs=24, regs=240)


@pytest.mark.parametrize("config", OTHERS, ids=["short blocks", "two groups"])
def test_other_configurations(config: AttentionConfig) -> None:
    torch.manual_seed(0)
    q, k, v = (heads(2, 3, 700, 128) for _ in range(3))
    judged(q, k, v, causal=True, config=config)
