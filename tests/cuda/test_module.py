"""The whole text: parameters, names, device functions, comments; and the writer that grows it."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.cuda.abi import ArraySlot, ScalarSlot, TensorMapSlot
from phalanx.cuda.module import entry_name
from phalanx.cuda.plan import Plan
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.text.written_agent import WrittenAgent
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Block, Function
from phalanx.ir.ops.control import Assign, For, ReadVar
from phalanx.ir.ops.tile import Binary
from phalanx.ir.types import F32, I32, bf16, bool_, f32, i64
from phalanx.ir.types import ScalarType as Scalar
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.location import Location
from support.cuda_text import body, compiles, module_of
from support.front import array


@px.kernel(warps=2)
def parameters(X, Y, alpha, n, flag, *, BM=32):
    s = px.shared((BM, 32), px.bf16)
    bar = px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[n : n + BM, 0:32], s, bar)
    bar.wait(0)
    if flag:
        px.store(Y[0], alpha)


TYPES = (array(2, bf16), array(1, f32, aligned=False), F32, Scalar(i64), Scalar(bool_))


def test_parameters_follow_the_launchers_contract() -> None:
    module = module_of(parameters, TYPES)
    text = body(module)
    head = text[: text.index("{")]
    assert [line.strip() for line in head.splitlines()] == [
        'extern "C" __global__ void __launch_bounds__(64, 1) parameters_kernel(',
        "const __grid_constant__ px_array<px_bf16, 2> X,",
        "const __grid_constant__ px_array<float, 1> Y,",
        "const float alpha,",
        "const long long n,",
        "const bool flag,",
        "const __grid_constant__ px_tensor_map X_map)",
    ]
    assert (module.entry, module.threads, module.cluster) == ("parameters_kernel", 64, (1, 1, 1))
    assert module.signature.slots == (
        ArraySlot(2, "bf16", True, True, "X"), ArraySlot(1, "f32", True, False, "Y"),
        ScalarSlot("f32", "alpha"), ScalarSlot("i64", "n"), ScalarSlot("bool", "flag"),
    )
    (slot,) = module.signature.tensor_maps
    assert isinstance(slot, TensorMapSlot) and (slot.array, slot.box) == (0, (32, 32))
    assert not module.signature.debug
    compiles(parameters, TYPES)


def test_the_text_names_its_source_lines_and_stands_alone() -> None:
    module = module_of(parameters, TYPES)
    assert module.source.startswith("// parameters(BM=32) for sm_90a, from test_module.py:")
    assert ": bar.wait(0)\n" in module.source
    assert "#include" not in module.source
    assert "typedef unsigned short px_bf16;" in module.source
    assert "px_f16" not in module.source


def test_device_functions_appear_once_and_only_if_used() -> None:
    source = module_of(parameters, TYPES).source
    assert source.count("void mbarrier_init_shared_cta(") == 1
    assert "mapa" not in source


def test_kernel_names_are_c_identifiers_of_their_own() -> None:
    assert entry_name("exp") == "exp_kernel"
    assert entry_name("_gemm") == "gemm_kernel"
    assert entry_name("größe") == "gr__e_kernel"


# ---------------------------------------------------------------------- the writer


def writer(body: Block | None = None, warps: int = 8) -> Writer:
    function = Function("k", (), (), warps, (1, 1, 1), True, (), (), body or Block())
    return Writer(Plan(function, arch_of("sm_90a")))


def test_names_of_the_user_are_kept_where_possible() -> None:
    w = writer()
    assert [w.name(Value(I32, name)) for name in ("m", "m", "float", "px_lane", "2x", "", "ä")] == [
        "m", "m_1", "v_float", "v_px_lane", "v_2x", "t", "t_1",
    ]
    value = Value(I32, "x")
    assert w.name(value) == w.name(value) == "x"


def test_names_are_free_again_after_their_scope() -> None:
    w = writer()
    with w.block():
        assert w.unique("i") == "i"
        assert w.unique("everywhere", everywhere=True) == "everywhere"
    assert w.unique("i") == "i"
    assert w.unique("everywhere") == "everywhere_1"


def test_identities_are_declared_only_where_used() -> None:
    w = writer()
    with w.as_agent(WrittenAgent("", 0, 8, 0)), w.as_agent(WrittenAgent("role", 4, 2, 1)):
        w.line(f"f({w.lane}, {w.warp}, {w.thread});")
        with w.elected():
            w.line("g();")
        w.sync_agent("why")
    assert w.body() == [
        "  const int px_thread = (int)threadIdx.x - 128;",
        "  const int px_warp = px_warp_id - 4;",
        "  const bool px_one = px_warp_id == 4 && ptx::elect_sync();",
        "  f(px_lane, px_warp, px_thread);",
        "  if (px_one) {",
        "    g();",
        "  }",
        "  ptx::bar_sync<1, 64>();  // why",
    ]
    assert [line.strip().split(" = ")[0] for line in w.prologue()] == ["const int px_lane", "const int px_warp_id"]


def test_neighbouring_elected_blocks_share_their_if() -> None:
    w = writer()
    with w.as_agent(WrittenAgent("", 0, 1, 0)):
        for line in (1, 2):
            w.comment_source(Location("k.py", line, text=f"line {line}"))
            with w.elected():
                w.line(f"g({line});")
        w.line("h();")
        with w.elected():
            w.line("g(3);")
    assert w.body()[1:] == [
        "  // k.py:1: line 1",
        "  if (px_one) {",
        "    g(1);",
        "    // k.py:2: line 2",
        "    g(2);",
        "  }",
        "  h();",
        "  if (px_one) {",
        "    g(3);",
        "  }",
    ]


def test_a_source_line_is_named_once() -> None:
    w = writer()
    inlined = Location("k.py", 7, text="  a = b", caller=Location("main.py", 3))
    for loc in (inlined, inlined, Location("k.py", 8, text="c = d \\")):
        w.comment_source(loc)
    assert w.body() == ["  // k.py:7: a = b  (called at main.py:3)", "  // k.py:8: c = d "]


def test_two_device_functions_may_not_share_a_name() -> None:
    w = writer()
    assert w.use(Helper("f", "void f();")) == "ptx::f"
    with pytest.raises(AssertionError, match="two device functions are named f"):
        w.use(Helper("f", "int f();"))


def test_cells_are_declared_where_all_their_uses_see_them() -> None:
    n = Param(I32, "n", 0)
    carried, inner = Var(I32, "s"), Var(I32, "local")
    a, b, c = Value(I32), Value(I32), Value(I32)
    loop = Block((
        ReadVar(carried, a),
        Binary("add", a, Const(1), b),
        Assign(carried, b),
        Assign(inner, a),
        ReadVar(inner, c),
        Assign(carried, c),
    ))
    body = Block((Assign(carried, Const(0)), For(Value(I32, "i"), Const(0), n, Const(1), loop, Label("l"))))
    w = writer(body)
    assert w.cells.declaring == {body.ops[0], loop.ops[3]}
    assert w.cells.declared == {}
    assert a not in w.cells.aliases  # it is read again after the cell was written
    assert w.cells.aliases[c] is inner
    assert b in w.cells.movable


def test_an_expression_moves_to_its_only_use_unless_a_cell_changes_in_between() -> None:
    cell, n = Var(I32, "s"), Param(I32, "n", 0)
    read, moved, fixed, named = Value(I32), Value(I32), Value(I32), Value(I32, "m")
    x, y, z = Value(I32, "x"), Value(I32, "y"), Value(I32, "z")
    body = Block((
        Assign(cell, n),
        ReadVar(cell, read),
        Binary("add", read, Const(1), moved),
        Binary("mul", moved, n, x),
        Binary("add", read, Const(2), fixed),
        Binary("add", n, Const(3), named),
        Assign(cell, Const(7)),
        Binary("mul", fixed, n, y),
        Binary("mul", named, n, z),
    ))
    assert writer(body).cells.movable == {moved}
