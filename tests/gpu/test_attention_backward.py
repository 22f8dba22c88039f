"""On the GPU: gradients of attention against float64 on the host; deterministic ones repeat bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phalanx.kernels.attention.backward import attention_backward
from phalanx.kernels.attention.backward_config import BackwardConfig
from phalanx.kernels.attention.forward import attention
from support.attention_cases import BF16, heads
from support.backward_cases import assert_gradients, gradients, packed_gradients

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


def on_gpu(x: np.ndarray) -> Any:
    """The same numbers on the GPU."""
    if x.dtype == BF16:
        return torch.from_numpy(x.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(x).cuda()


def on_host(x: Any) -> np.ndarray:
    return x.double().cpu().numpy()


def both(rng: Any, batch: int, group: int, kv_heads: int, queries: int, keys: int, dim: int, *, dtype: Any = BF16,
         amplitude: float = 1.0, rounding: float = 2**-8, deterministic: bool = False, config: Any = None,
         dbias: bool = False, **options: Any) -> None:  # fmt: skip
    """Ours, from our own forward pass, beside float64; three times where it is to repeat."""
    do, q = (heads(rng, batch, kv_heads * group, queries, dim, dtype=dtype, amplitude=a) for a in (1.0, amplitude))
    k, v = (heads(rng, batch, kv_heads, keys, dim, dtype=dtype) for _ in range(2))
    given = {name: on_gpu(x) if isinstance(x, np.ndarray) else x for name, x in options.items()}
    arrays = [on_gpu(x) for x in (do, q, k, v)]
    saved = attention(*arrays[1:], lse=True, **given)
    more = {"deterministic": deterministic, "config": config, "dbias": dbias, **given}
    got = attention_backward(*arrays, *saved, **more)
    assert_gradients([on_host(x) for x in got], gradients(do, q, k, v, **options), rounding)
    for _ in range(3 * deterministic):
        again = attention_backward(*arrays, *saved, **more)
        assert all(torch.equal(one, other) for one, other in zip(got, again))


MASKS = [{}, {"causal": True}, {"window": (200, 31)}, {"causal": True, "window": (300, -1)}]


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_sizes_and_masks(dtype: str, dim: int, mask: dict[str, Any], deterministic: bool) -> None:
    rng = np.random.default_rng(dim)
    if dtype == "bf16":
        both(rng, 2, 2, 2, 777, 1000, dim, deterministic=deterministic, **mask)
        both(rng, 1, 4, 1, 1, 1, dim, deterministic=deterministic, **mask)
    else:
        both(rng, 1, 1, 3, 1000, 513, dim, dtype=np.float16, rounding=2**-10, deterministic=deterministic, **mask)


CONFIGS = [
    BackwardConfig(64), BackwardConfig(128), BackwardConfig(64, 3), BackwardConfig(64, early=False),
    BackwardConfig(128, apart=True),
]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_configurations(config: BackwardConfig) -> None:
    both(np.random.default_rng(1), 1, 2, 2, 1300, 1300, 64, causal=True, amplitude=4.0, config=config)


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("kind", ["cap", "slopes", "bias", "bias of all queries"])
def test_caps_and_biases(kind: str, dim: int) -> None:
    rng = np.random.default_rng(2)
    if kind == "cap":
        both(rng, 2, 2, 2, 300, 400, dim, softcap=3.0, causal=True)
    elif kind == "slopes":
        slopes = np.array([0.5, 0.01, 0.1, 0.02], np.float32)
        both(rng, 2, 2, 2, 300, 400, dim, bias=slopes, dbias=True, causal=True)
    else:
        shape = (2, 4, 300, 400) if kind == "bias" else (1, 4, 1, 400)
        both(rng, 2, 2, 2, 300, 400, dim, bias=rng.standard_normal(shape).astype(np.float32), dbias=True)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dim", [64, 96, 128])
def test_packed_sequences(dim: int, deterministic: bool) -> None:
    rng = np.random.default_rng(3)
    starts = [np.cumsum([0, *sizes]).astype(np.int32) for sizes in ((300, 0, 1, 513, 64), (250, 20, 128, 600, 0))]
    do, q = heads(rng, starts[0][-1], 4, dim), heads(rng, starts[0][-1], 4, dim)
    k, v = heads(rng, starts[1][-1], 2, dim), heads(rng, starts[1][-1], 2, dim)
    options = {"causal": True, "cu_seqlens_q": on_gpu(starts[0]), "cu_seqlens_k": on_gpu(starts[1])}
    arrays = [on_gpu(x) for x in (do, q, k, v)]
    got = attention_backward(*arrays, *attention(*arrays[1:], lse=True, **options), deterministic=deterministic, **options)
    assert_gradients([on_host(x) for x in got], packed_gradients(do, q, k, v, *starts, causal=True))
