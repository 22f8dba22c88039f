"""`kernel[grid](...)` in graphs of torch: opaque, with what it writes declared, equal to eager code, once for all sizes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from phalanx.torch.launches import operator_of  # noqa: E402

F32 = torch.float32


@px.kernel(warps=4)
def scale_rows(X, Y, factor, *, BM=8, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]) * factor)


@px.kernel(warps=4)
def add(X, Y, Z, number, *, BM=8, COLS=64):
    m = px.block_id(0) * BM
    tile = px.load(X[m : m + BM, 0:COLS])
    if Y is not None:
        tile = tile + px.load(Y[m : m + BM, 0:COLS])
    px.store(Z[m : m + BM, 0:COLS], tile + number)


@px.func
def squared(t):
    return t * t


@px.kernel(warps=4)
def apply(X, *, F, STAGES=px.auto):
    a = px.shared((STAGES, 8, 64), px.f32)
    px.store(a[0], px.load(X[0:8, 0:64]))
    px.sync()
    px.store(X[0:8, 0:64], F(px.load(a[0])))


@px.kernel(warps=4)
def draw(X, counts, Y):
    rows = px.counters(1)
    px.atomic_add(counts[0], 1)
    px.store(Y[px.atomic_add(rows[0], 1), 0], px.load(X[0, 0]))


@px.struct
class Affine:
    factor: px.f32
    offset: px.f32


@px.kernel(warps=4)
def affine(X, Y, by: Affine, *, BM=8):
    m = px.block_id(0) * BM
    px.store(Y[m : m + BM, 0:64], px.load(X[m : m + BM, 0:64]) * by.factor + by.offset)


@px.kernel(warps=4)
def typed(X, Y, *, TYPES, SCALE, BM=8):
    m = px.block_id(0) * BM
    px.store(Y[m : m + BM, 0:64], px.load(X[m : m + BM, 0:64]).to(TYPES[0]).to(TYPES[1]) * SCALE)


BOUND = scale_rows[2, 1]


def compiled(function: Any, **options: Any) -> Any:
    """A function as one graph; AOTAutograd makes it functional, Inductor's part is another test."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return torch.compile(function, fullgraph=True, **{"backend": "aot_eager", **options})


def graphs() -> int:
    """How many graphs were made since the last `compiled`."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class Model(torch.nn.Module):
    """A model with functions of the library and two kernels launched directly, one of which writes what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.norm = torch.nn.Parameter(torch.rand(64))

    def forward(self, x: Any) -> Any:
        h = px.kernels.rms_norm(self.linear(x), self.norm)
        y = torch.empty_like(h)
        scale_rows[px.cdiv(h.shape[0], 8), 1](h, y, 2.0)
        z = torch.relu(y)
        add[px.cdiv(h.shape[0], 8)](z, None, z, 1)
        return px.kernels.softmax(z) + y


@px.kernel(warps=4)
def chosen(X, Y, *, BM=px.choose(8, 16)):
    for t in px.persistent(px.cdiv(X.shape[0], BM)):
        px.store(Y[t * BM : t * BM + BM, 0:64], px.load(X[t * BM : t * BM + BM, 0:64]) * 2.0)


def test_constants_that_are_chosen_at_each_call() -> None:
    def run(x: Any) -> Any:
        y = torch.empty_like(x)
        chosen[px.auto](x, y)
        chosen[2](y, y)
        return y

    traced = compiled(run, dynamic=True)
    for rows in (16, 40):
        x = torch.randn(rows, 64)
        torch.testing.assert_close(traced(x), 4 * x)
    assert graphs() == 1


def test_a_grid_of_constants_that_are_chosen_is_refused_in_a_graph() -> None:
    def run(x: Any) -> None:
        chosen[lambda BM: px.cdiv(16, BM)](x, x)

    with pytest.raises(Exception, match=r"in a graph of torch the grid of kernel 'chosen' is a function of constants"):
        compiled(run)(torch.zeros(16, 64))
    run(torch.zeros(16, 64))  # outside of graphs the sizes are known
    compiled(lambda x: chosen[lambda BM: px.cdiv(16, BM)](x, x, BM=8))(torch.zeros(16, 64))


def test_a_model_is_one_graph_for_two_sizes() -> None:
    model = Model().requires_grad_(False)
    run = compiled(model)
    for rows in (16, 9, 40):
        x = torch.randn(rows, 64)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(run(x), model(x))
    assert graphs() == 1


@pytest.mark.long
def test_inductor_makes_the_same_of_it() -> None:
    model = Model().requires_grad_(False)
    run = compiled(model, backend="inductor")
    for rows in (16, 9):
        x = torch.randn(rows, 64)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(run(x), model(x))
    assert graphs() == 1


def test_all_ways_to_launch() -> None:
    """Views and inputs that are written, None, numbers that are symbols, grids of every kind, a launch bound elsewhere."""

    def run(x: Any, y: Any, number: int) -> Any:
        rows = x.shape[0]
        z = torch.zeros(rows + 2, 64)
        add[px.cdiv(rows, 8)](x, None, z[2:], number)
        add[px.cdiv(rows, 8),](x, y, y, rows)
        add[lambda BM: px.cdiv(rows, BM)](x, None, z[:-2], 1, BM=16)
        add[lambda **c: px.cdiv(rows, c["BM"])](x, None, z[:-2], 1, COLS=x.shape[1])
        add[lambda c: px.cdiv(rows, c["BM"])](z[:-2], x, z[:-2], 2)
        w = torch.full((8, 64), 3.0)
        apply[lambda STAGES: min(STAGES, 1)](w, F=squared)
        v = torch.zeros(16, 64)
        BOUND(x, v, 3)
        return z, w, v, z.sum()

    traced = compiled(run, dynamic=True)
    for rows, number in ((9, 2), (17, 3), (33, 4)):
        x, y = torch.randn(rows, 64), torch.randn(rows, 64)
        mine = y.clone()
        for one, other in zip(traced(x, mine, number), run(x, y, number), strict=True):
            assert torch.equal(one, other)
        assert torch.equal(mine, y)
    assert graphs() == 1


def test_no_object_is_a_constant_for_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.12 torch.compile takes none as an argument of a function that it runs without reading it."""
    functions = torch._dynamo.variables.functions
    known = functions.invoke_and_store_as_constant

    def strict(tx: Any, fn: Any, name: str, args: Any, kwargs: Any) -> Any:
        for given in (*args, *kwargs.values()):
            assert not isinstance(given.realize(), torch._dynamo.variables.UserDefinedObjectVariable), given
        return known(tx, fn, name, args, kwargs)

    def run(x: Any) -> Any:
        y = torch.zeros_like(x)
        typed[lambda TYPES: len(TYPES)](x, y, TYPES=(px.bf16, px.f32), SCALE=2)
        return y

    monkeypatch.setattr(functions, "invoke_and_store_as_constant", strict)
    x = torch.randn(16, 64)
    assert torch.equal(compiled(run)(x), run(x))


def test_structs_are_passed_field_by_field() -> None:
    by = Affine(2.0, 1.0)

    def run(x: Any) -> Any:
        y = torch.zeros_like(x)
        affine[px.cdiv(x.shape[0], 8)](x, y, by)
        return y

    x = torch.randn(9, 64)
    assert torch.equal(compiled(run)(x), run(x))


def test_an_operator_says_what_is_written() -> None:
    matrix = (F32, 2)
    found = torch.ops.phalanx_launches
    scaled = getattr(found, operator_of(scale_rows, (matrix, matrix, "float"), 2)).default
    assert str(scaled._schema).endswith("(Tensor X, Tensor(a1!) Y, float factor, SymInt ctas_x, SymInt ctas_y) -> ()")
    added = getattr(found, operator_of(add, (matrix, None, matrix, "SymInt"), 1, BM=16)).default
    assert str(added._schema).endswith("(Tensor X, Tensor(a1!) Z, SymInt number, SymInt ctas_x) -> ()")
    drawn = getattr(found, operator_of(draw, (matrix, (torch.int32, 1), matrix), 1)).default
    assert str(drawn._schema).endswith("(Tensor X, Tensor(a1!) counts, Tensor(a2!) Y, SymInt ctas_x) -> ()")


def test_names_tell_kernels_kinds_and_constants_apart_and_nothing_else() -> None:
    matrix = (F32, 2)

    def other(scale: int) -> Any:
        @px.kernel(warps=4)
        def scale_rows(X, Y, factor):
            px.store(Y[0, 0], px.load(X[0, 0]) * factor * scale)

        return scale_rows

    one, two = other(1), other(2)
    kinds = (matrix, matrix, "float")
    narrow = (torch.bfloat16, 2), matrix, "float"
    names = [operator_of(scale_rows, kinds, sizes) for sizes in (2, 1)]
    names += [operator_of(scale_rows, kinds, 2, BM=16), operator_of(scale_rows, narrow, 2)]
    names += [operator_of(one, kinds, 1), operator_of(two, kinds, 1)]
    assert len(set(names)) == len(names) and all(name.startswith("scale_rows_") for name in names)
    assert operator_of(scale_rows, kinds, 2) == names[0]


def test_a_constant_of_the_kernel_that_is_a_size_makes_a_graph_of_its_own() -> None:
    def run(x: Any) -> Any:
        y = torch.zeros_like(x)
        add[1](x, None, y, 1, COLS=x.shape[1])
        return y

    traced = compiled(run, dynamic=True)
    for columns in (32, 64):
        x = torch.randn(8, columns)
        assert torch.equal(traced(x), run(x))
    assert graphs() == 2


def test_a_captured_number_that_changes_makes_a_new_graph() -> None:
    def make(scale: float) -> Any:
        @px.kernel(warps=4)
        def inner(X):
            px.store(X[0:8, 0:64], px.load(X[0:8, 0:64]) * scale)

        return inner

    kernels = [make(2.0), make(3.0)]

    def run(x: Any) -> Any:
        y = x.clone()
        kernels[0][1](y)
        return y

    traced, x = compiled(run), torch.ones(8, 64)
    assert traced(x).eq(2).all()
    kernels.reverse()
    assert traced(x).eq(3).all()


@pytest.mark.parametrize("strict", [True, False])
def test_export(strict: bool) -> None:
    model = Model().requires_grad_(False)
    rows = torch.export.Dim("rows", min=2, max=64)
    made = torch.export.export(model, (torch.randn(9, 64),), dynamic_shapes=({0: rows},), strict=strict)
    names = [str(node.target) for node in made.graph.nodes]
    assert {"phalanx.rms_norm.default", "phalanx.softmax.default"} <= set(names)
    assert len([name for name in names if name.startswith("phalanx_launches.")]) == 2
    x = torch.randn(20, 64)
    for one in (made, made.run_decompositions()):
        torch.testing.assert_close(one.module()(x), model(x))


MISTAKES = {
    "an argument too few": (
        lambda x: scale_rows[1](x, 2.0),
        "kernel 'scale_rows' takes 3 run-time arguments, not 2",
    ),
    "no such constant": (
        lambda x: scale_rows[1](x, x, 2.0, BQ=3),
        "kernel 'scale_rows' has no constant 'BQ'",
    ),
    "a string": (
        lambda x: scale_rows[1](x, x, "2"),
        "kernel 'scale_rows' is launched with a str: a graph of torch has tensors and numbers",
    ),
    "no grid": (lambda x: scale_rows(x, x, 2.0), "kernel 'scale_rows' was called without a grid"),
    "a configuration": (lambda x: px.kernels.softmax(x, config=1), "config= for a call that torch records or traces"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_within_a_trace_are_told_as_outside(name: str) -> None:
    function, message = MISTAKES[name]
    with pytest.raises(Exception) as caught:
        compiled(function)(torch.ones(8, 64))
    assert message in str(caught.value)


def test_a_gradient_that_would_be_lost_is_refused_in_a_graph() -> None:
    def run(x: Any) -> Any:
        y = torch.zeros_like(x)
        scale_rows[1](x, y, 2.0)
        return y

    x = torch.ones(8, 64, requires_grad=True)
    with pytest.raises(Exception, match="argument 'X' of kernel 'scale_rows' requires grad, and a launch has no gradient"):
        compiled(run)(x)
    with torch.no_grad():
        assert compiled(run)(x).eq(2).all()
