"""The operators on a GPU: beside the simulator, beside torch's gradients, compiled, and in a CUDA graph."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")
from torch.nn import functional as F  # noqa: E402

import phalanx as px  # noqa: E402
from phalanx.torch.library import OPERATORS  # noqa: E402
from support.torch_gradients import CASES, verify  # noqa: E402
from support.torch_operators import CALLS, HALF, numbers, on  # noqa: E402

pytestmark = pytest.mark.gpu


@px.kernel(warps=4)
def double(X, Y, *, BM=8):
    m = px.block_id(0) * BM
    px.store(Y[m : m + BM, 0:64], px.load(X[m : m + BM, 0:64]) * 2)


def results(name: str, args: tuple[Any, ...]) -> list[Any]:
    """What an operator gives and leaves behind in the arguments that it writes."""
    found = OPERATORS[name](*args)
    made = [x for x in (found if isinstance(found, tuple | list) else [found]) if x is not None]
    written = [
        x for x, a in zip(args, OPERATORS[name]._schema.arguments) if a.alias_info is not None and a.alias_info.is_write
    ]
    return [*made, *written]


def near(ran: list[Any], simulated: list[Any]) -> None:
    """Results of the device beside the simulator's."""
    assert len(ran) == len(simulated)
    for one, other in zip(ran, simulated):
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
        wide = one.cpu().float()
        limit = 0.02 * other.float().abs().max() if other.numel() else 0
        assert torch.equal(wide.isfinite(), other.float().isfinite())
        assert ((wide - other.float()).nan_to_num(0, 0, 0).abs() <= limit).all()


@pytest.mark.parametrize("name", CALLS)
def test_as_the_simulator(name: str) -> None:
    simulated = results(name, CALLS[name]())
    with on("cuda"):
        near(results(name, CALLS[name]()), simulated)


@pytest.mark.parametrize("name", CALLS)
def test_in_a_cuda_graph(name: str) -> None:
    """Nothing of an operator waits for the device, or is left to the host: a replay computes it anew."""
    simulated = results(name, CALLS[name]())
    with on("cuda"):
        args, unused = CALLS[name](), CALLS[name]()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        results(name, args)  # kernels are compiled and loaded
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ran = results(name, args)
    for x in ran:
        x.copy_(torch.zeros(x.shape, device="cuda"))
    for x, fresh in zip(args, unused):
        if isinstance(x, torch.Tensor):
            x.copy_(fresh)
    graph.replay()
    near(ran, simulated)


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name: str) -> None:
    with on("cuda"):
        args = CALLS[name]()
        checks = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
        if any(isinstance(x, torch.Tensor) and x.dtype == torch.float8_e4m3fn for x in args):
            checks.remove("test_schema")
        near = {} if name in ("quantize", "pack_scales", "pack_scales_out") else {"atol": 1e-2, "rtol": 1e-2}
        torch.library.opcheck(OPERATORS[name], args, test_utils=checks, **near)  # bits of 8-bit floats are compared


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    with on("cuda"):
        verify(CASES[name])


class Block(torch.nn.Module):
    """A transformer block: ours, or with torch's functions."""

    def __init__(self, dim: int = 512, heads: int = 8, kv_heads: int = 2) -> None:
        super().__init__()
        self.norm1, self.norm2 = px.torch.nn.RMSNorm(dim, 1e-6), px.torch.nn.RMSNorm(dim, 1e-6)
        self.attention = px.torch.nn.Attention(dim, heads, kv_heads)
        self.up, self.down = px.torch.nn.Linear(dim, 4 * dim, activation="gelu_tanh"), px.torch.nn.Linear(4 * dim, dim)

    def forward(self, x: Any, rope: Any) -> Any:
        x = x + self.attention(self.norm1(x), rope)
        return x + self.down(self.up(self.norm2(x)))

    def plain(self, x: Any, rope: Any) -> Any:
        """The same by torch alone."""
        at = self.attention
        made = F.linear(F.rms_norm(x, x.shape[-1:], self.norm1.weight, 1e-6), at.qkv.weight)
        q, k, v = made.unflatten(-1, (-1, at.head_dim)).transpose(1, 2).split((at.heads, at.kv_heads, at.kv_heads), 1)
        q, k = (px.torch.nn.rotated(part, *rope) for part in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + F.linear(y.transpose(1, 2).flatten(-2), at.out.weight)
        h = F.linear(F.rms_norm(x, x.shape[-1:], self.norm2.weight, 1e-6), self.up.weight, self.up.bias)
        h = F.gelu(h, approximate="tanh")
        return x + F.linear(h, self.down.weight, self.down.bias)


def block() -> tuple[Block, Any, Any]:
    torch.manual_seed(0)
    made = Block().to("cuda", HALF)
    with on("cuda"):
        x = numbers(2, 300, 512)
    return made, x, tuple(part.cuda() for part in px.torch.nn.rotations(300, 64))


def test_a_compiled_block_in_a_cuda_graph() -> None:
    """`mode="reduce-overhead"` captures the block; the third call on is a replay."""
    made, x, rope = block()
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(made, fullgraph=True, mode="reduce-overhead")
        wanted = made.plain(x, rope).float()
        for number in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            ours = compiled(x, rope).float()
            assert (ours - wanted).abs().max() < 0.03 * wanted.abs().max(), number


def test_a_block_is_captured_by_hand() -> None:
    made, x, rope = block()
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                made(x, rope)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = made(x, rope)
        x.copy_(x.flip(0))
        graph.replay()
        wanted = made.plain(x, rope).float()
        assert (y.float() - wanted).abs().max() < 0.03 * wanted.abs().max()


def test_a_compiled_block_is_trained() -> None:
    made, x, rope = block()
    gradients = []
    torch._dynamo.reset()
    for run in (torch.compile(made, fullgraph=True), made.plain):
        made.zero_grad()
        run(x, rope).float().square().mean().backward()
        gradients.append([p.grad.float().clone() for p in made.parameters()])
    for ours, theirs in zip(*gradients):
        assert (ours - theirs).abs().max() < 0.04 * theirs.abs().max()


def test_repeated_launches_tell_autograd() -> None:
    """The whole way, the launch that is kept, and those that repeat it: with other pointers, and with other sizes."""
    for rows in (16, 16, 16, 24, 24):
        x, y = torch.ones(rows, 64, device="cuda"), torch.zeros(rows, 64, device="cuda")
        double[px.cdiv(rows, 8)](x, y)
        assert (x._version, y._version) == (0, 1)
        x.requires_grad_()
        with pytest.raises(px.Error, match="argument 'X' of kernel 'double' requires grad"):
            double[px.cdiv(rows, 8)](x, y)
        with torch.no_grad():
            double[px.cdiv(rows, 8)](x, y)
        assert y._version == 2 and y.eq(2).all()


def test_repeated_calls_of_the_library_count_versions() -> None:
    for _ in range(4):
        a, out = torch.ones(64, 64, device="cuda", dtype=HALF), torch.zeros(64, 64, device="cuda", dtype=HALF)
        px.kernels.matmul(a, a, out=out)
        assert (a._version > 0, out._version > 0) == (False, True)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_launches_in_a_graph(backend: str) -> None:
    """Equal to eager code, one graph for two sizes; fake tensors meet kernels that were launched before."""

    def run(x: Any) -> Any:
        y = torch.empty_like(x)
        double[px.cdiv(x.shape[0], 8)](px.kernels.softmax(x), y)
        return y + 1

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    traced = torch.compile(run, fullgraph=True, dynamic=True, backend=backend)
    for rows in (16, 40):
        x = torch.randn(rows, 64, device="cuda")
        expected = run(x)
        torch.testing.assert_close(traced(x), expected)
        with torch._subclasses.FakeTensorMode() as mode:
            assert run(mode.from_tensor(x)).shape == x.shape
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
