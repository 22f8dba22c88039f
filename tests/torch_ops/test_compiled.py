"""`torch.compile(fullgraph=True)` with two dynamic sizes, `torch.export`, and what Inductor makes of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from torch_operators import experts, heads, indices, numbers, order  # noqa: E402

Call = tuple[Callable[..., Any], Callable[[int, int], tuple[Any, ...]], tuple[tuple[int, int], ...]]


def some(count: int, below: int) -> Any:
    return torch.arange(count) % below


def of_groups(rows: int) -> Any:
    return indices(rows - 5, 0, 5, dtype=torch.int32)


CALLS: dict[str, Call] = {
    # A call, its arguments for two sizes, and which (argument, axis) these are.
    "softmax": (px.torch.softmax, lambda m, n: (numbers(m, n),), ((0, 0), (0, 1))),
    "log_softmax": (px.torch.log_softmax, lambda m, n: (numbers(m, n),), ((0, 0), (0, 1))),
    "rms_norm": (px.torch.rms_norm, lambda m, n: (numbers(m, n), numbers(n)), ((0, 0), (0, 1), (1, 0))),
    "add_rms_norm": (
        lambda x, r, w: px.torch.add_rms_norm(x, r.clone(), w), lambda m, n: (numbers(m, n), numbers(m, n), numbers(n)),
        ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0)),
    ),
    "layer_norm": (
        px.torch.layer_norm, lambda m, n: (numbers(m, n), numbers(n), numbers(n)), ((0, 0), (0, 1), (1, 0), (2, 0))
    ),
    "cross_entropy": (px.torch.cross_entropy, lambda m, n: (numbers(m, n), some(m, n)), ((0, 0), (0, 1), (1, 0))),
    "embedding": (px.torch.embedding, lambda m, n: (numbers(m, 40), some(n, m)), ((0, 0), (1, 0))),
    "gather_rows": (px.torch.gather_rows, lambda m, n: (numbers(m, 40), some(n, m)), ((0, 0), (1, 0))),
    "scatter_rows": (
        lambda x, i, y: px.torch.scatter_rows(x, i, y.clone()),
        lambda m, n: (numbers(m, 40), torch.arange(m), numbers(n + 9, 40)), ((0, 0), (1, 0), (2, 0)),
    ),
    "scatter_add_rows": (
        lambda x, i, y: px.torch.scatter_add_rows(x, i, y.clone()),
        lambda m, n: (numbers(m, 40), torch.arange(m), numbers(n + 9, 40)), ((0, 0), (1, 0), (2, 0)),
    ),
    "kv_compact": (
        px.torch.kv_compact, lambda m, n: (numbers(m, n, 16), torch.zeros(m, 3, dtype=torch.int64)),
        ((0, 0), (0, 1), (1, 0)),
    ),
    "quantize": (lambda x: px.torch.quantize(x, "mxfp8"), lambda m, n: (numbers(m, 32 * n),), ((0, 0), (0, 1))),
    "pack_scales": (
        lambda x: px.torch.pack_scales(x).view(torch.uint8), lambda m, n: (numbers(m, n).abs().to(torch.float8_e4m3fn),),
        ((0, 0), (0, 1)),
    ),
    "matmul": (
        lambda a, b, c: px.torch.matmul(a, b.T, c, "gelu"),
        lambda m, n: (numbers(m, 24), numbers(8 * n, 24), numbers(8 * n)),
        ((0, 0), (1, 0), (2, 0)),
    ),
    "split_k_matmul": (
        lambda a, b: px.torch.split_k_matmul(a, b.T), lambda m, n: (numbers(m, 24), numbers(8 * n, 24)), ((0, 0), (1, 0))
    ),
    "grouped_matmul": (
        px.torch.grouped_matmul, lambda m, n: (numbers(m, 8 * n), experts(16, 8 * n), of_groups(m)), ((0, 0), (0, 1), (1, 2))
    ),
    "moe_gather_matmul": (
        px.torch.moe_gather_matmul, lambda m, n: (numbers(n, 24), some(m, n), experts(), of_groups(m)), ((0, 0), (1, 0))
    ),
    "moe_matmul": (
        px.torch.moe_matmul, lambda m, n: (numbers(m, 8 * n), experts(16, 8 * n), of_groups(m)), ((0, 0), (0, 1), (1, 2))
    ),
    "moe_matmul_scatter": (
        lambda h, w, s, i, g, y: px.torch.moe_matmul_scatter(h, w, s, i, g, y.clone()),
        lambda m, n: (numbers(m, 24), experts(), of_groups(m), some(m, n), numbers(m), torch.zeros(n, 16)),
        ((0, 0), (3, 0), (4, 0), (5, 0)),
    ),
    "attention": (
        lambda q, k, v: px.torch.attention(q, k, v, causal=True),
        lambda m, n: (heads(m), heads(m + n, seed=1), heads(m + n, seed=2)), ((0, 2), (1, 2), (2, 2)),
    ),
    "attention_backward": (
        px.torch.attention_backward,
        lambda m, n: (
            heads(m), heads(m), heads(n + 9, seed=1), heads(n + 9, seed=2), heads(m, seed=3), torch.zeros(1, 2, m) + 3
        ),
        ((0, 2), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2)),
    ),
    "attention_decode": (
        lambda q, k, v, l: px.torch.attention_decode(q, k, v, l),
        lambda m, n: (numbers(m, 1, 2, 64), numbers(m, 16 * n, 1, 64), numbers(m, 16 * n, 1, 64), torch.full((m,), 9)),
        ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)),
    ),
    "sparse_attention": (
        px.torch.sparse_attention,
        lambda m, n: (
            numbers(1, m, 2, 64), numbers(1, n + 9, 1, 64), numbers(1, n + 9, 1, 64), some(4 * m, n).reshape(1, m, 1, 4)
        ),
        ((0, 1), (1, 1), (2, 1), (3, 1)),
    ),
}  # fmt: skip

EARLY, LATE = (7, 5), (9, 6)


def test_every_function_is_compiled_here() -> None:
    assert set(CALLS) == set(px.kernels.__all__)


def same(ours: Any, wanted: Any) -> None:
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (ours, wanted))):
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
        assert torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


@pytest.mark.share(6)
@pytest.mark.parametrize("name", CALLS)
def test_two_dynamic_sizes(name: str) -> None:
    """One graph serves both pairs of sizes."""
    if name == "quantize" and not hasattr(torch, "float8_e8m0fnu"):
        pytest.skip(f"torch {torch.__version__} has no float8_e8m0fnu")
    call, make, axes = CALLS[name]
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend=backend)
    for sizes in (EARLY, LATE):
        args = make(*sizes)
        for number, axis in axes:
            torch._dynamo.mark_dynamic(args[number], axis)
        same(compiled(*args), call(*args))
    assert len(graphs) == 1, "recompiled"
    assert any("phalanx" in str(node.target) for node in graphs[0].graph.nodes)


def block(x: Any, w1: Any, w2: Any, norm: Any) -> Any:
    """A small network: norm, product with activation, product, and a residual."""
    h = px.torch.matmul(px.torch.rms_norm(x, norm), w1.T, None, "silu")
    return x + px.torch.matmul(h, w2.T)


def test_a_network_is_trained_as_without_compiler() -> None:
    """Forward and backward through AOTAutograd, which traces the gradients' operators, too."""
    tensors = numbers(6, 24), numbers(40, 24), numbers(24, 40), numbers(24)
    gradients = []
    torch._dynamo.reset()
    for run in (block, torch.compile(block, fullgraph=True, backend="aot_eager")):
        own = [x.clone().requires_grad_() for x in tensors]
        run(*own).float().square().sum().backward()
        gradients.append([x.grad for x in own])
    for eager, compiled in zip(*gradients):
        assert torch.equal(eager, compiled)


def test_f32_products_in_a_graph() -> None:
    """What torch allows its own products of f32 is part of what a graph depends on."""
    a, b = numbers(8, 24, dtype=torch.float32), numbers(16, 24, dtype=torch.float32)
    torch._dynamo.reset()
    run = torch.compile(lambda a, b: px.torch.matmul(a, b.T), fullgraph=True, backend="aot_eager")
    former = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert torch.equal(run(a, b), px.torch.matmul(a, b.T))
    finally:
        torch.set_float32_matmul_precision(former)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="of which tensor cores read 10 bits of the fraction"):
        run(a, b)


@pytest.mark.long
def test_inductor() -> None:
    tensors = numbers(6, 24), numbers(40, 24), numbers(24, 40), numbers(24)
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.allclose(torch.compile(block, fullgraph=True)(*tensors), block(*tensors), rtol=2e-2, atol=2e-2)


def test_export() -> None:
    class Block(torch.nn.Module):
        def forward(self, x: Any, w1: Any, w2: Any, norm: Any) -> Any:
            return block(x, w1, w2, norm)

    tensors = numbers(6, 24), numbers(40, 24), numbers(24, 40), numbers(24)
    rows = torch.export.Dim("rows", min=2, max=64)
    made = torch.export.export(Block(), tensors, dynamic_shapes=({0: rows}, None, None, None))
    names = {str(node.target) for node in made.graph.nodes}
    assert {"phalanx.rms_norm.default", "phalanx.matmul.default"} <= names
    others = numbers(9, 24), *tensors[1:]
    assert torch.equal(made.module()(*others), block(*others))


def test_experts_in_a_graph() -> None:
    """A mixture of experts without a break: sizes of groups stay on the device."""

    def mixture(x: Any, w1: Any, w2: Any, gates: Any, counts: Any) -> Any:
        h = px.torch.moe_gather_matmul(x, order(), w1, counts)
        y = torch.zeros(x.shape[0], w2.shape[1])
        return px.torch.moe_matmul_scatter(h, w2, counts, order(), gates, y)

    torch._dynamo.reset()
    args = numbers(5, 24), experts(), experts(24, 16), numbers(12), of_groups(12)
    gradients = []
    for run in (mixture, torch.compile(mixture, fullgraph=True, backend="aot_eager")):
        own = [x.clone().requires_grad_() for x in args[:4]]
        run(*own, args[4]).square().sum().backward()
        gradients.append([x.grad for x in own])
    for eager, compiled in zip(*gradients):
        torch.testing.assert_close(eager, compiled, rtol=2e-2, atol=2e-2)
