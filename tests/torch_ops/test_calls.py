"""Which way a call goes, and what happens to gradients, autocast and vmap on it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")
from torch.nn import functional as F  # noqa: E402

import phalanx as px  # noqa: E402
from phalanx.torch.library import ONCE, OPERATORS, REFUSING, ops  # noqa: E402
from phalanx.torch.plain import is_plain  # noqa: E402
from support.torch_operators import CALLS, heads, indices, numbers  # noqa: E402


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """The operators of this namespace that torch's dispatcher sees."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "phalanx":
            self.names.append(func._opname)
        return func(*args, **kwargs or {})


# --- which way ----------------------------------------------------------------------------------------------------------


def test_a_plain_call_is_the_library_s() -> None:
    x = numbers(3, 40)
    assert is_plain(x, None, 3.0) and is_plain(x.float().numpy())
    assert torch.equal(px.torch.softmax(x), px.kernels.softmax(x))


@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_along_any_axis(name: str, dim: int) -> None:
    ours, theirs = getattr(px.torch, name), getattr(torch, name)
    x, d = numbers(3, 5, 7, dtype=torch.float32), numbers(3, 5, 7, dtype=torch.float32)
    mask = (torch.arange(3)[:, None, None] + torch.arange(5)[:, None] + torch.arange(7)) % 4 != 0
    torch.testing.assert_close(ours(x, dim), theirs(x, dim))
    expected = theirs((2 * x).masked_fill(~mask, -torch.inf), dim)
    torch.testing.assert_close(ours(x, dim=dim, scale=2.0, mask=mask), expected)
    gradients = []
    for function in (ours, theirs):
        own = x.clone().requires_grad_()
        gradients.append(torch.autograd.grad(function(own, dim), own, d)[0])
    torch.testing.assert_close(*gradients)


def test_softmax_along_an_axis_that_is_not_there() -> None:
    with pytest.raises(px.Error) as caught:
        px.torch.softmax(numbers(3, 40), 2)
    assert caught.value.message == "dim=2 of an array with 2 axes"
    assert caught.value.remedy == "give one of -2 to 1: the axis along which the powers sum up to 1"


def test_calls_that_are_not_plain() -> None:
    x = numbers(3, 40)
    tracked = x.clone().requires_grad_()
    assert not is_plain(tracked) and not is_plain(x, tracked)
    with torch.no_grad():
        assert is_plain(tracked)
    with Seen() as seen:
        assert not is_plain(x)
        px.torch.softmax(x)
    assert seen.names == ["softmax"]
    with torch.autocast("cpu", torch.bfloat16), Seen() as seen:
        px.torch.matmul(x, x.T)
        px.torch.rms_norm(x)
    assert seen.names == ["matmul", "rms_norm"]
    assert not torch.vmap(lambda y: torch.tensor(is_plain(y)).expand(1))(x).any()
    with torch._subclasses.FakeTensorMode() as mode:
        assert not is_plain(mode.from_tensor(x))


QUICK = sorted(name for name, op in OPERATORS.items() if getattr(ops, name) is not op)
"""Operators with a gradient, whose recorded calls go past the dispatcher where nobody else watches."""


def gradients_of(op: Any, args: list[Any]) -> list[Any]:
    """Results of a call of which torch records all that it can, and the gradients of its arguments."""
    torch.manual_seed(0)
    given = [x.clone() if torch.is_tensor(x) else x for x in args]
    tracked = [x.requires_grad_() for x in given if torch.is_tensor(x) and x.is_floating_point()]
    made = op(*given)
    made = made if isinstance(made, tuple) else (made,)
    ends = [y for y in made if y.requires_grad and y.numel()]
    return [*made, *torch.autograd.grad(ends, tracked, [torch.randn_like(y) for y in ends], allow_unused=True)]


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [name for name in QUICK if name not in ONCE])
def test_recorded_calls_past_the_dispatcher_are_the_operator_s(name: str) -> None:
    args = list(CALLS[name]())
    missing = OPERATORS[name]._schema.arguments[len(args) :]
    args += [argument.default_value for argument in missing]
    if name == "attention":
        args[9] = False  # the sums have no gradient
    if name == "matmul":
        args[4:9] = [None] * 5  # products with scales have no gradient
    ours, theirs = gradients_of(getattr(ops, name), args), gradients_of(OPERATORS[name], args)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None and other is None) or torch.equal(mine, other)


def test_which_recorded_calls_go_past_the_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that nothing but autograd watches: others are the operator's, of which torch makes a node of its own name."""
    x, w = numbers(3, 40), numbers(40, 40).requires_grad_()

    def node() -> str:
        return px.torch.matmul(x, w).grad_fn.name()

    assert node() == "phalanx_matmulBackward"
    with torch.no_grad():
        assert px.torch.matmul(x, w).grad_fn is None
    with Seen() as seen:
        assert node() != "phalanx_matmulBackward"
    assert seen.names == ["matmul"]
    with torch.autocast("cpu", torch.bfloat16):
        assert node() != "phalanx_matmulBackward"
    meta = ops.matmul(x.to("meta"), w.to("meta"), *[None] * 9, False)
    assert meta.is_meta and meta.shape == (3, 40)
    with torch._subclasses.FakeTensorMode() as mode:
        assert px.torch.matmul(mode.from_tensor(x), mode.from_tensor(w)).grad_fn.name() != "phalanx_matmulBackward"


def test_torch_sees_what_a_recorded_call_keeps() -> None:
    """Its hooks for kept tensors, and changes of them before the gradient."""
    x, w = numbers(8, 40), numbers(40, 40).requires_grad_()
    kept: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda y: (kept.append(tuple(y.shape)), y)[1], lambda y: y):
        y = px.torch.matmul(x, w)
    assert kept == [(8, 40), (40, 40)] and y.requires_grad
    y = px.torch.matmul(x, w)
    x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_product_has_a_second_derivative() -> None:
    """The gradient of a product is made of products, which torch records again where it is asked to."""
    a, b, d = (numbers(8, 40, dtype=torch.bfloat16), numbers(40, 16), numbers(8, 16))
    found = []
    for product in (px.torch.matmul, torch.matmul):
        x, w = a.clone().requires_grad_(), b.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(product(x, w), x, d, create_graph=True)
        found.append(torch.autograd.grad(gradient.float().square().sum(), w)[0])
    assert torch.allclose(found[0].float(), found[1].float(), rtol=0.02, atol=0.02 * float(found[1].float().abs().max()))


def test_numpy_arrays_are_taken_as_ever() -> None:
    x = numbers(3, 40, dtype=torch.float32)
    ours = px.torch.softmax(x.numpy())
    assert type(ours).__module__ == "numpy" and torch.equal(torch.from_numpy(ours), px.torch.softmax(x))


def test_kernels_write_tensors_of_the_host_in_place() -> None:
    """Zero copy: what a launch in the simulator stores is in the tensor's own memory."""

    @px.kernel(warps=1)
    def add_one(X):
        px.store(X[0:4, 0:8], px.load(X[0:4, 0:8]) + 1)

    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        x = torch.zeros(4, 8, dtype=dtype)
        view = x.view(2, 16)
        add_one[1](x)
        assert (view == 1).all()


def test_a_configuration_is_refused_where_torch_records() -> None:
    with pytest.raises(px.Error) as caught:
        px.torch.softmax(numbers(3, 40).requires_grad_(), config=object())
    assert "config= for a call that torch records or traces" in str(caught.value)


# --- gradients that there are not ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSING)
def test_a_gradient_is_never_dropped(name: str) -> None:
    args = [x.clone() if isinstance(x, torch.Tensor) else x for x in CALLS[name]()]
    place = next(n for n, x in enumerate(args) if isinstance(x, torch.Tensor) and x.is_floating_point())
    args[place].requires_grad_()
    with pytest.raises(px.Error) as caught:
        OPERATORS[name](*args)
    what = OPERATORS[name]._schema.arguments[place].name
    assert f"{what} requires grad, and phalanx::{name} has no gradient: this one would be lost" in str(caught.value)
    assert f"= help: call it under torch.no_grad(), or pass {what}.detach()" in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(px.kernels.__all__) - {"attention_backward"}))
def test_nor_by_the_library_itself(name: str) -> None:
    """`px.kernels` knows no gradients: it refuses what asks for one, whatever the function."""
    args = [x.clone() if isinstance(x, torch.Tensor) else x for x in CALLS[name]()]
    function, options = getattr(px.kernels, name), {}
    if name in ("cross_entropy", "kv_compact", "grouped_matmul", "attention_decode", "sparse_attention", "attention"):
        args = args[:4] if name in ("attention_decode", "sparse_attention") else args[: 3 if name != "cross_entropy" else 2]
    if name == "attention_decode":
        args[1], args[2] = (x[:2] for x in args[1:3])
    if name in ("kv_compact", "quantize"):
        args = args[:2]
    place = next(n for n, x in enumerate(args) if isinstance(x, torch.Tensor) and x.is_floating_point())
    args[place].requires_grad_()
    with pytest.raises(px.Error) as caught:
        function(*args, **options)
    assert "requires grad, and px.kernels computes no gradients: this one would be lost" in str(caught.value)


@pytest.mark.parametrize("name", ONCE)
def test_a_second_derivative_is_an_error(name: str) -> None:
    """Whichever argument it is asked for."""
    args = [x.clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in CALLS[name]()]
    found = OPERATORS[name](*args)
    made = [y.float().square().sum() for y in (found if isinstance(found, tuple) else (found,)) if y.numel()]
    with pytest.raises(px.Error) as caught:
        sum(made).backward()
    assert caught.value.message == (
        f"a gradient of {ONCE[name]} has no second derivative: phalanx::{name}, which computed it, can't be differentiated"
    )
    assert caught.value.remedy == "leave create_graph=True out, or compute this part with torch's own functions"


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "cross_entropy", "attention", "grouped_matmul", "activated"])
def test_it_is_one_where_a_graph_of_gradients_was_asked_for(name: str) -> None:
    args = CALLS[name]()
    x = args[0].clone().requires_grad_()
    y = OPERATORS[name](x, *args[1:])
    y = y[0] if isinstance(y, tuple) else y
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y).requires_grad_(), create_graph=True)
    with pytest.raises(px.Error, match="has no second derivative: phalanx::"):
        gradient.float().square().sum().backward()


def test_products_can_be_differentiated_again() -> None:
    """Their gradients are products."""
    a, b = (x.requires_grad_() for x in (numbers(8, 24), numbers(24, 16)))
    (da,) = torch.autograd.grad(px.torch.matmul(a, b).float().square().sum(), a, create_graph=True)
    (db,) = torch.autograd.grad(da.float().sum(), b)
    wide = [x.detach().double().requires_grad_() for x in (a, b)]
    (exact,) = torch.autograd.grad((wide[0] @ wide[1]).square().sum(), wide[0], create_graph=True)
    (exact,) = torch.autograd.grad(exact.sum(), wide[1])
    assert (db.double() - exact).abs().max() < 0.03 * exact.abs().max()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda q: px.torch.attention(q[..., :64].contiguous(), heads(20), heads(20), q_scale=2.0),
         "attention with scales has no gradient: this one would be lost"),
        (lambda q: px.torch.matmul(q[0, 0], q[0, 0].T.detach(), scale_a=2.0),
         "a requires grad, and products with scales have no gradient: this one would be lost"),
    ],
)  # fmt: skip
def test_calls_that_have_no_gradient_say_so_before_they_run(call: Any, message: str) -> None:
    with pytest.raises(px.Error) as caught:
        call(heads(20, dim=256).requires_grad_())
    assert message in str(caught.value)


def test_sums_of_attention_have_no_gradient() -> None:
    q = heads(20).requires_grad_()
    _, lse = px.torch.attention(q, heads(20), heads(20), lse=True)
    with pytest.raises(px.Error, match="the logarithms of attention's sums"):
        lse.sum().backward()


# --- autocast and vmap --------------------------------------------------------------------------------------------------


def test_autocast() -> None:
    a, b = numbers(8, 24, dtype=torch.float32).requires_grad_(), numbers(24, 16, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = px.torch.matmul(a, b)
        kept = px.torch.rms_norm(a)
    assert y.dtype == torch.bfloat16 and kept.dtype == torch.float32
    y.float().sum().backward()
    assert a.grad is not None and a.grad.dtype == torch.float32
    assert torch.equal(y, px.kernels.matmul(a.detach().bfloat16(), b.bfloat16()))
    q = heads(20).float()
    with torch.autocast("cpu", torch.float16):
        assert px.torch.attention(q, q, q).dtype == torch.float16


PRODUCTS = (
    "matmul", "matmul_out", "split_k_matmul", "split_k_matmul_out", "grouped_matmul", "grouped_matmul_out",
    "moe_gather_matmul", "moe_matmul", "moe_matmul_scatter",
)  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_other_kinds_under_autocast(name: str) -> None:
    """What they compute is what they compute of arguments that were cast before."""
    args = CALLS[name]()
    names = [argument.name for argument in OPERATORS[name]._schema.arguments]
    wide = [x.clone() if isinstance(x, torch.Tensor) else x for x in args]
    wide = [x.float() if which in ("a", "b", "x", "h", "w") else x for which, x in zip(names, wide)]
    with torch.autocast("cpu", torch.bfloat16):
        found = OPERATORS[name](*wide)
    expected = OPERATORS[name](*args)
    if "out" in names:
        found, expected = (each[names.index("out")] for each in (wide, args))
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


def test_f32_products_are_refused_with_a_remedy() -> None:
    a, b = numbers(8, 24, dtype=torch.float32).requires_grad_(), numbers(24, 16, dtype=torch.float32)
    with pytest.raises(px.Error) as caught:
        px.torch.matmul(a, b)
    shown = str(caught.value)
    assert "a has the element type f32, of which tensor cores read 10 bits of the fraction (tf32)" in shown
    assert "= help: pass tf32=True to have it so, or convert it to bf16 or f16" in shown
    assert "px.torch.matmul(a, b)" in shown, "the user's line"


@pytest.mark.parametrize("recorded", (False, True))
def test_f32_products_as_torch_allows_them(recorded: bool) -> None:
    """`torch.set_float32_matmul_precision` is a request for tf32; so is the argument."""
    a, b = numbers(8, 24, dtype=torch.float32).requires_grad_(recorded), numbers(16, 24, dtype=torch.float32).T
    asked = px.torch.matmul(a, b, tf32=True)
    former = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        allowed = px.torch.matmul(a, b)
    finally:
        torch.set_float32_matmul_precision(former)
    assert asked.dtype == torch.float32 and torch.equal(asked, allowed)
    exact = a.detach().double() @ b.double()
    assert 1e-5 < (asked - exact).abs().max() < 2e-2, "fewer bits than f32's, more than bf16's"


@pytest.mark.parametrize(
    "call, reference, tensors, axes",
    [
        (px.torch.softmax, lambda x: x.softmax(-1), lambda: (numbers(3, 5, 40, dtype=torch.float32),), (1,)),
        (px.torch.rms_norm, lambda x, w: F.rms_norm(x, (40,), w, 1e-6),
         lambda: (numbers(3, 5, 40, dtype=torch.float32), numbers(40, dtype=torch.float32)), (0, None)),
        (px.torch.cross_entropy, F.cross_entropy,
         lambda: (numbers(3, 5, 40, dtype=torch.float32), (torch.arange(15) % 40).reshape(3, 5)), (0, 0)),
        (px.torch.embedding, lambda w, i: w[i], lambda: (numbers(6, 40), indices(0, 1, 2, 5).reshape(2, 2)), (None, 0)),
        (px.torch.embedding, lambda w, i: w[i], lambda: (numbers(2, 6, 40), indices(0, 1, 2, 5).reshape(2, 2)), (0, 0)),
        (px.torch.layer_norm, lambda x: F.layer_norm(x, (40,)), lambda: (numbers(3, 5, 40, dtype=torch.float32),), (1,)),
        (px.torch.log_softmax, lambda x: x.log_softmax(-1), lambda: (numbers(3, 5, 40, dtype=torch.float32),), (0,)),
        (px.torch.gather_rows, lambda x, i: x[i], lambda: (numbers(2, 6, 40), indices(0, 1, 2, 5).reshape(2, 2)), (0, 1)),
        (px.torch.split_k_matmul, torch.matmul, lambda: (numbers(3, 9, 24), numbers(16, 24).T), (0, None)),
        (px.torch.matmul, torch.matmul, lambda: (numbers(3, 8, 24), numbers(24, 16)), (0, None)),
        (px.torch.matmul, torch.matmul, lambda: (numbers(8, 3, 24), numbers(3, 24, 16)), (1, 0)),
        (px.torch.attention, F.scaled_dot_product_attention,
         lambda: tuple(numbers(2, 1, 2, 20, 64, seed=n) for n in range(3)), (0, 0, 0)),
    ],
)  # fmt: skip
def test_vmap(call: Any, reference: Any, tensors: Any, axes: Any) -> None:
    args = tensors()
    ours, wanted = (torch.vmap(f, in_dims=axes)(*args) for f in (call, reference))
    torch.testing.assert_close(ours, wanted, rtol=2e-2, atol=2e-2)


LISTS = indices(3, 5, 39, -1).expand(3, 2, 4, 1, 4).contiguous()
PAGES = indices(0, 2, 3, 1, 4, 5, 6, 7, 9, 8, 11, 10, dtype=torch.int32).reshape(3, 2, 2)
LENGTHS = indices(17, 9, 3, 8, 16, 12, dtype=torch.int32).reshape(3, 2)


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize(
    "call, args, axes",
    [
        (px.torch.sparse_attention, (numbers(3, 2, 4, 2, 64), *[numbers(3, 2, 40, 1, 64)] * 2, LISTS), (0, 0, 0, 0)),
        (px.torch.attention_decode, (numbers(3, 2, 1, 2, 64), *[numbers(2, 20, 1, 64)] * 2, LENGTHS), (0, None, None, 0)),
        (lambda q, n, p: px.torch.attention_decode(q, POOL, POOL, n, pages=p, lse=True),
         (numbers(3, 2, 1, 2, 64), LENGTHS, PAGES), (0, 0, 0)),
        (px.torch.kv_compact, (numbers(2, 3, 6, 16), indices(0, 3, 5).expand(2, 3, 3).contiguous()), (1, 1)),
        (px.torch.kv_compact, (numbers(3, 6, 16), indices(0, 3, 5)), (0, None)),
        (lambda keep, p: px.torch.kv_compact(POOL, keep, pages=p), (indices(0, 17, 30).expand(3, 2, 3).contiguous(), PAGES),
         (0, 0)),
    ],
)  # fmt: skip
def test_vmap_is_one_call(call: Any, args: Any, axes: Any) -> None:
    """Of what many calls give, one after the other."""
    found = torch.vmap(call, in_dims=axes)(*args)
    each = [call(*(x if axis is None else x.select(axis, n) for x, axis in zip(args, axes))) for n in range(3)]
    for ours, wanted in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, joined(each)))):
        torch.testing.assert_close(ours, wanted, rtol=2e-2, atol=2e-2)


POOL = numbers(12, 16, 1, 64)


def joined(parts: list[Any]) -> Any:
    """Results of calls, one behind the other."""
    return tuple(map(torch.stack, zip(*parts))) if isinstance(parts[0], tuple) else torch.stack(parts)


def test_vmap_over_a_paged_cache_is_refused() -> None:
    with pytest.raises(px.Error, match="vmap over a paged cache"):
        torch.vmap(lambda pool: px.torch.kv_compact(pool, indices(0, 17).reshape(1, 2), pages=PAGES[0, :1]))(POOL[None])


@pytest.mark.parametrize("name", ["softmax", "matmul", "attention", "quantize", "scatter_rows"])
def test_a_forward_derivative_is_never_dropped(name: str) -> None:
    """Torch would go on without it: neither backward rules nor plain calls know of them."""
    args = list(CALLS[name]())
    function = getattr(px.torch, name)
    args = args[: {"matmul": 2, "attention": 3, "quantize": 2}.get(name, len(args))]
    with torch.autograd.forward_ad.dual_level():
        args[0] = torch.autograd.forward_ad.make_dual(args[0], torch.ones_like(args[0]))
        for call in (function, OPERATORS[name]):
            with pytest.raises(px.Error) as caught:
                call(*args)
            message = "has no forward derivative, and an argument has one: it would be lost"
            assert caught.value.message == f"phalanx::{name} {message}"
            assert caught.value.remedy == "differentiate backward, or compute this part with torch's own functions"
    assert is_plain(numbers(3, 40))


def test_nor_that_of_a_transform() -> None:
    x = numbers(3, 40, dtype=torch.float32)
    for call in (px.torch.softmax, torch.vmap(px.torch.softmax)):
        with pytest.raises(px.Error, match="phalanx::softmax has no forward derivative"):
            torch.func.jvp(call, (x,), (x,))


def test_vmap_over_what_rows_share_is_refused() -> None:
    with pytest.raises(px.Error, match="vmap over an argument that all rows share"):
        torch.vmap(px.torch.rms_norm)(numbers(3, 5, 40), numbers(3, 40))
