"""Modules of ours beside torch's with the same parameters, and models in which they take torch's place."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")
from torch.nn import functional as F  # noqa: E402

import phalanx as px  # noqa: E402
from support.torch_operators import HALF, numbers  # noqa: E402


def trained(module: Any, *args: Any) -> list[Any]:
    """The result of a module and the gradients of its parameters, in f32."""
    module.zero_grad()
    y = module(*args)
    y.float().square().mean().backward()
    return [y.detach().float(), *(p.grad.float() for p in module.parameters())]


def near(ours: list[Any], wanted: list[Any], allowed: float = 0.02) -> None:
    assert len(ours) == len(wanted)
    for one, other in zip(ours, wanted):
        assert (one - other).abs().max() <= allowed * other.abs().max() + 1e-6


@pytest.mark.parametrize("kind, sizes", [("Linear", (24, 16)), ("RMSNorm", (24,)), ("LayerNorm", (24,))])
def test_in_torch_s_place(kind: str, sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(*sizes).to(HALF)
    ours = getattr(px.torch.nn, kind)(*sizes).to(HALF)
    ours.load_state_dict(theirs.state_dict())
    x = numbers(5, 24)
    near(trained(ours, x), trained(theirs, x))


def test_a_linear_layer_with_an_activation() -> None:
    layer = px.torch.nn.Linear(24, 16, activation="gelu").to(HALF)
    x = numbers(5, 24)
    with torch.no_grad():
        near([layer(x).float()], [F.gelu(F.linear(x.float(), layer.weight.float(), layer.bias.float()))])


class PlainAttention(torch.nn.Module):
    """Attention of torch's own functions with another module's parameters."""

    def __init__(self, ours: Any) -> None:
        super().__init__()
        self.qkv, self.out, self.ours = torch.nn.Linear(1, 1, False), torch.nn.Linear(1, 1, False), (ours,)
        self.qkv.weight, self.out.weight = ours.qkv.weight, ours.out.weight

    def forward(self, x: Any, rope: Any) -> Any:
        ours = self.ours[0]
        heads = self.qkv(x).unflatten(-1, (-1, ours.head_dim)).transpose(1, 2)
        q, k, v = heads.split((ours.heads, ours.kv_heads, ours.kv_heads), 1)
        q, k = (px.torch.nn.rotated(part, *rope) for part in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(-2))


def test_attention() -> None:
    torch.manual_seed(0)
    ours = px.torch.nn.Attention(32, 2, 1, head_dim=64).to(HALF)
    x, rope = numbers(2, 20, 32), px.torch.nn.rotations(20, 64)
    near(trained(ours, x, rope), trained(PlainAttention(ours), x, rope), 0.03)


def test_a_mixture_of_experts() -> None:
    torch.manual_seed(0)
    ours = px.torch.nn.MoE(24, 16, experts=4, top=2).to(HALF)
    x = numbers(2, 5, 24)
    result, *_ = trained(ours, x)
    rows = x.reshape(-1, 24).float()
    scores, chosen = ours.router(x.reshape(-1, 24)).float().topk(2, -1)
    gates = scores.softmax(-1)
    wanted = torch.zeros(10, 24)
    for token in range(10):
        for gate, expert in zip(gates[token], chosen[token]):
            a, b = (ours.up[expert].float() @ rows[token]).chunk(2)
            wanted[token] += gate * (ours.down[expert].float() @ (F.silu(a) * b))
    near([result.reshape(10, 24)], [wanted.detach()], 0.03)


def test_a_mixture_of_experts_in_a_graph() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    ours = px.torch.nn.MoE(24, 16, experts=4, top=2).to(HALF)
    x = numbers(2, 5, 24)
    eager = trained(ours, x)
    near(trained(torch.compile(ours, fullgraph=True, backend="aot_eager"), x), eager)


class Model(torch.nn.Module):
    """What `replace` finds, and what it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Linear(24, 32), torch.nn.LayerNorm(32)
        self.odd, self.both = torch.nn.Linear(32, 5), torch.nn.LayerNorm((4, 32))
        self.last = torch.nn.Linear(32, 24).float()

    def forward(self, x: Any) -> Any:
        return self.last(self.norm(self.first(x)).float())


def test_replace() -> None:
    torch.manual_seed(0)
    model = Model().to(HALF)
    model.last.float()
    x = numbers(5, 24)
    before = trained_first(model, x)
    report = px.torch.replace(model)
    assert str(report) == (
        "first: Linear is px.torch.nn.Linear now\n"
        "norm: LayerNorm is px.torch.nn.LayerNorm now\n"
        "odd: Linear stays: its sizes 32 and 5 are no multiples of 8: every call would copy\n"
        "both: LayerNorm stays: it normalises the last 2 axes\n"
        "last: Linear stays: its weights are torch.float32; convert them to bf16, pass autocast=True, or allow tf32"
    )
    assert type(model.first) is px.torch.nn.Linear and model.first.activation is None
    near(trained_first(model, x), before)


def trained_first(model: Any, x: Any) -> list[Any]:
    model.zero_grad()
    y = model(x)
    y.float().square().mean().backward()
    return [y.detach().float(), model.first.weight.grad.float(), model.norm.weight.grad.float()]
