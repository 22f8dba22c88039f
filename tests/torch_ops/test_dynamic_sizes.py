"""Every operator in graphs with two dynamic sizes: traced once, exported, and trained, for whatever sizes come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

from functorch.compile import make_boxed_func  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402

import phalanx as px  # noqa: E402
from phalanx.torch.library import OPERATORS  # noqa: E402
from support.torch_operators import HALF, experts, heads, indices, numbers  # noqa: E402

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
        lambda x, w, s, b: px.torch.grouped_matmul(x, w, s, bias=b, activation="gelu"),
        lambda m, n: (numbers(m, 8 * n), experts(16, 8 * n), of_groups(m), numbers(3, 16)), ((0, 0), (0, 1), (1, 2)),
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

WRITING: dict[str, Call] = {
    # Operators that write what they are given: the same functions with a place for their results.
    "matmul_out": (
        lambda a, b: px.torch.matmul(a, b.T, out=torch.empty(a.shape[0], b.shape[0], dtype=HALF)),
        lambda m, n: (numbers(m, 24), numbers(8 * n, 24)), ((0, 0), (1, 0)),
    ),
    "split_k_matmul_out": (
        lambda a, b: px.torch.split_k_matmul(a, b.T, out=torch.empty(a.shape[0], b.shape[0], dtype=HALF)),
        lambda m, n: (numbers(m, 24), numbers(8 * n, 24)), ((0, 0), (1, 0)),
    ),
    "grouped_matmul_out": (
        lambda x, w, s: px.torch.grouped_matmul(x, w, s, out=torch.empty(x.shape[0], 16, dtype=HALF)),
        lambda m, n: (numbers(m, 8 * n), experts(16, 8 * n), of_groups(m)), ((0, 0), (0, 1), (1, 2)),
    ),
    "gather_rows_out": (
        lambda x, i: px.torch.gather_rows(x, i, out=torch.empty(i.shape[0], 40, dtype=HALF)),
        lambda m, n: (numbers(m, 40), some(n, m)), ((0, 0), (1, 0)),
    ),
    "pack_scales_out": (
        lambda x: px.torch.pack_scales(x, out=torch.zeros(1, 2, 32, 4, 4).to(x.dtype)).view(torch.uint8),
        lambda m, n: (numbers(m, n).abs().to(torch.float8_e4m3fn),), ((0, 0), (0, 1)),
    ),
    "kv_compact_": (
        lambda x, i: px.torch.kv_compact(x.clone(), i, inplace=True),
        lambda m, n: (numbers(m, n, 16), torch.zeros(m, 3, dtype=torch.int64)), ((0, 0), (0, 1), (1, 0)),
    ),
}  # fmt: skip

GROUPED = ("grouped_rows_backward", "grouped_weights_backward")
TRAINED = {
    # Functions with gradients, and what else there is in the graphs of a step with them.
    "softmax": ("softmax_backward",), "log_softmax": ("softmax_backward",), "rms_norm": ("rms_norm_backward",),
    "add_rms_norm": ("rms_norm_backward",), "layer_norm": ("layer_norm_backward",),
    "cross_entropy": ("cross_entropy_backward",), "embedding": ("gather_backward",), "gather_rows": ("gather_backward",),
    "scatter_rows": ("scattered_rows", "gather_rows"), "scatter_add_rows": ("scattered_add_rows", "gather_rows"),
    "matmul": ("activated", "activation_backward", "column_sums"), "split_k_matmul": ("matmul",),
    "grouped_matmul": (*GROUPED, "grouped_biases_backward", "activation_backward"),
    "moe_gather_matmul": ("moe_rows_backward", "grouped_weights_backward"), "moe_matmul": GROUPED,
    "moe_matmul_scatter": (*GROUPED, "moe_matmul_scattered", "scaled_rows"), "attention": ("attention_backward",),
}  # fmt: skip

EARLY, LATE = (7, 5), (9, 6)


def test_every_function_is_compiled_here() -> None:
    assert set(CALLS) == set(px.kernels.__all__)


def test_so_is_every_operator() -> None:
    assert {*CALLS, *WRITING, *(name for names in TRAINED.values() for name in names)} == set(OPERATORS)


def same(ours: Any, wanted: Any) -> None:
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (ours, wanted))):
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
        assert torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def operators_of(*graphs: Any) -> set[str]:
    """The operators of ours in graphs."""
    targets = [str(node.target).split(".") for graph in graphs for node in graph.graph.nodes]
    return {parts[1] for parts in targets if parts[0] == "phalanx"}


def need_types(name: str) -> None:
    """Skips what makes elements of a type that this torch does not have."""
    if name == "quantize" and not hasattr(torch, "float8_e8m0fnu"):
        pytest.skip(f"torch {torch.__version__} has no float8_e8m0fnu")


def with_dynamic(args: Any, axes: Any) -> Any:
    """The arguments, whose sizes along some axes may be others in the next call."""
    for number, axis in axes:
        torch._dynamo.mark_dynamic(args[number], axis)
    return args


@pytest.mark.share(6)
@pytest.mark.parametrize("name", [*CALLS, *WRITING])
def test_two_dynamic_sizes(name: str) -> None:
    """One graph serves both pairs of sizes."""
    need_types(name)
    call, make, axes = {**CALLS, **WRITING}[name]
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend=backend)
    for sizes in (EARLY, LATE):
        args = with_dynamic(make(*sizes), axes)
        same(compiled(*args), call(*args))
    assert len(graphs) == 1, "recompiled"
    assert name in operators_of(*graphs)


@pytest.mark.share(6)
@pytest.mark.parametrize("name", TRAINED)
def test_two_dynamic_sizes_of_a_step_of_training(name: str) -> None:
    """One graph forward and one backward serve both pairs of sizes, and give what eager code gives."""
    call, make, axes = CALLS[name]
    graphs: list[Any] = []

    def keep(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
    for sizes in (EARLY, LATE):
        found = []
        for run in (call, compiled):
            args = [x.clone().requires_grad_() if x.is_floating_point() else x for x in make(*sizes)]
            y = run(*with_dynamic(args, axes))
            y.backward(numbers(*y.shape, dtype=y.dtype, seed=3))
            found.append([y.detach(), *(x.grad for x in args if x.is_floating_point())])
        for eager, traced in zip(*found, strict=True):
            torch.testing.assert_close(traced, eager, rtol=1e-2, atol=1e-2)
    assert len(graphs) == 2, "recompiled"
    assert {*TRAINED[name]} <= operators_of(*graphs)


@pytest.mark.share(6)
@pytest.mark.parametrize("name", [*CALLS, *WRITING])
def test_two_dynamic_sizes_of_an_exported_graph(name: str) -> None:
    """`torch.export` keeps the operator, and what it gives takes other sizes than those it was traced with."""
    need_types(name)
    call, make, axes = {**CALLS, **WRITING}[name]

    class Module(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return call(*args)

    args = make(*EARLY)
    dynamic = tuple({axis: torch.export.Dim.AUTO for which, axis in axes if which == n} for n in range(len(args)))
    with torch.no_grad():
        made = torch.export.export(Module(), args, dynamic_shapes=(dynamic,), strict=False)
    assert name in operators_of(made.graph_module)
    args = make(*LATE)
    same(made.module()(*args), call(*args))
