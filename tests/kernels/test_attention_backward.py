"""`px.kernels.attention_backward` in the simulator, against float64."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.attention import backward
from phalanx.kernels.attention.backward import attention_backward
from phalanx.kernels.attention.backward_config import BackwardConfig, choose_backward
from phalanx.kernels.attention.backward_keys import is_crossed
from phalanx.kernels.attention.backward_order import KeyOrder
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.attention_cases import BF16, exact, heads
from support.backward_cases import assert_gradients, forward, gradients, packed_gradients
from support.library_launches import launches

ALL = tuple((backward, name) for name in ("prepare_rows", "backward_keys", "backward_queries", "finish_sums"))


def arrays(rng, batch, group, kv_heads, queries, keys, dim, dtype=BF16, amplitude=1.0):
    """(do, q, k, v)."""
    wide = heads(rng, batch, kv_heads * group, queries, dim, dtype=dtype)
    q = heads(rng, batch, kv_heads * group, queries, dim, dtype=dtype, amplitude=amplitude)
    return wide, q, *(heads(rng, batch, kv_heads, keys, dim, dtype=dtype) for _ in range(2))


def both(do, q, k, v, rounding=2**-8, deterministic=False, config=None, dbias=False, **options):
    """Ours beside float64."""
    got = attention_backward(
        do, q, k, v, *forward(q, k, v, **options), deterministic=deterministic, config=config, dbias=dbias, **options
    )
    assert len(got) == 3 + dbias and all(x.dtype == q.dtype for x in got[:3])
    assert_gradients(got, gradients(do, q, k, v, **options), rounding)
    return got


def test_the_reference_is_the_slope_of_the_forward_pass():
    """Finite differences of ``sum(do * attention)`` in float64, in some directions."""
    rng = np.random.default_rng(0)
    do, q, k, v = (x.astype(np.float64) for x in arrays(rng, 1, 2, 1, 5, 7, 4))
    for options in ({"causal": True}, {"window": (2, 1), "softcap": 1.5}, {"bias": rng.standard_normal((1, 2, 1, 7))},
                    {"bias": np.array([0.3, 0.1]), "scale": 0.7}):  # fmt: skip
        given = {"q": q, "k": k, "v": v, **({"bias": options["bias"]} if "bias" in options else {})}
        others = {name: x for name, x in options.items() if name != "bias"}
        slopes = dict(zip(("q", "k", "v", "bias"), gradients(do, **given, **others)))
        for name, x in given.items():
            step = rng.standard_normal(x.shape) * 1e-5
            ahead, behind = ((do * exact(**{**given, name: x + sign * step}, **others)[0]).sum() for sign in (1, -1))
            np.testing.assert_allclose((slopes[name] * step).sum(), (ahead - behind) / 2, rtol=1e-5, atol=1e-10)


def test_heads_that_share_keys_and_rows_that_see_none():
    rng = np.random.default_rng(1)
    both(*arrays(rng, 1, 2, 1, 150, 70, 64), causal=True)


def test_a_window_in_both_orders():
    rng = np.random.default_rng(2)
    given = arrays(rng, 1, 1, 1, 70, 135, 96, amplitude=3)
    both(*given, window=(40, 3), config=BackwardConfig(ahead=True))
    both(*given, window=(40, 3), deterministic=True)


@pytest.mark.parametrize("options", [{"causal": True}, {"window": (70, 8)}, {}], ids=lambda options: ", ".join(options))
def test_blocks_with_and_without_a_mask(options):
    """Of heads of 128: of 250 queries and 200 keys some blocks are crossed by a bound, some are not."""
    rng = np.random.default_rng(9)
    both(*arrays(rng, 1, 1, 1, 250, 200, 128), **options)


@pytest.mark.parametrize("shares, options", [(5, {"causal": True}), (2, {}), (40, {"window": (30, 20)})], ids=str)
def test_ctas_that_share_a_block_of_keys(monkeypatch, shares, options):
    """Each leaves sums of its own, also where it has no queries; gradients are equal bit for bit where they are repeated."""
    monkeypatch.setattr(backward, "choose_order", lambda *_: KeyOrder(2, shares))
    rng = np.random.default_rng(10)
    given = arrays(rng, 1, 2, 1, 150, 200, 64)
    with launches(*ALL) as found:
        first = both(*given, **options)
    assert [launch.kernel.name for launch in found] == ["prepare_rows", "backward_keys", *["finish_sums"] * 3]
    if shares == 5:
        for launch in found[1:3]:
            report = launch.check(schedules=1)
            assert report.ok, str(report)
    again = both(*given, deterministic=True, **options)
    assert np.array_equal(first[1], again[1]) and np.array_equal(first[2], again[2])


@pytest.mark.long
def test_ctas_share_keys_of_heads_of_256(monkeypatch):
    monkeypatch.setattr(backward, "choose_order", lambda *_: KeyOrder(1, 2))
    both(*arrays(np.random.default_rng(11), 1, 2, 2, 150, 140, 256), causal=True)


@pytest.mark.parametrize("dim, wide, deterministic", [
    (72, 72, False), (40, 40, True), (80, 48, False),
    pytest.param(75, 75, False, marks=pytest.mark.filterwarnings("ignore:.*its rows do not begin")),
    *(pytest.param(*sizes, False, marks=pytest.mark.long) for sizes in ((160, 160), (192, 128), (216, 216))),
])  # fmt: skip
def test_heads_of_any_size(dim, wide, deterministic):
    rng = np.random.default_rng(dim)
    _, q, k, _ = arrays(rng, 1, 2, 1, 70, 90, dim)
    do, _, _, v = arrays(rng, 1, 2, 1, 70, 90, wide)
    got = both(do, q, k, v, causal=True, deterministic=deterministic)
    assert [x.shape for x in got] == [q.shape, k.shape, v.shape]


def test_odd_heads_are_those_that_zeros_fill_up():
    """Bit for bit, and gradients of the zeros are zeros."""
    rng = np.random.default_rng(18)
    given = arrays(rng, 1, 2, 1, 70, 90, 72)
    o, logs = forward(*given[1:], causal=True)
    filled = [np.pad(x, ((0, 0),) * 3 + ((0, 24),)) for x in (*given, o)]
    got = attention_backward(*given, o, logs, causal=True)
    want = attention_backward(*filled, logs, causal=True, scale=72**-0.5)
    for ours, theirs in zip(got, want):
        assert np.array_equal(ours, theirs[..., :72]) and not theirs[..., 72:].any()


def test_packed_sequences_of_odd_heads():
    """What lies behind a sequence's last row, and behind each row, is another's."""
    rng = np.random.default_rng(16)
    starts = [np.array([0, 40, 70], np.int32)] * 2
    do, q, k, v = (heads(rng, 70, 1, 72) for _ in range(4))
    o, logs = forward(q, k, v, starts, causal=True)
    got = attention_backward(do, q, k, v, o, logs, causal=True, cu_seqlens_q=starts[0], cu_seqlens_k=starts[1])
    assert_gradients(got, packed_gradients(do, q, k, v, *starts, causal=True))


def test_kernels_with_odd_heads_are_clean():
    rng = np.random.default_rng(17)
    do, q, k, v = arrays(rng, 1, 1, 1, 70, 70, 72)
    with launches(*ALL) as found:
        attention_backward(do, q, k, v, *forward(q, k, v))
    for launch in found:
        report = launch.check(schedules=1)
        assert report.ok, str(report)


@px.kernel(warps=1)
def crossed_blocks(M, TOP, OUT, ahead, keys, left, right, *, BM, BOUND):
    """Whether blocks that begin at numbers of M and TOP are crossed."""
    i = px.block_id(0)
    px.store(OUT[i], px.where(is_crossed(px.load(M[i]), px.load(TOP[i]), ahead, keys, left, right, BM, BOUND), 1, 0))


@pytest.mark.parametrize("queries, keys, left, right, block", [
    (300, 300, None, 0, 64), (300, 190, None, 0, 128), (190, 300, 140, 60, 64), (300, 300, 130, None, 128),
    (100, 220, None, None, 64),
])  # fmt: skip
def test_a_block_is_crossed_where_some_query_does_not_see_some_key(queries, keys, left, right, block):
    """Against all pairs; of the last block of queries the numbers beyond the end count as well."""
    ahead = keys - queries
    starts = [(m, top) for m in range(0, queries, block) for top in range(0, keys, 64)]
    M, TOP = (np.array(x, np.int32) for x in zip(*starts))
    got = np.zeros(len(starts), np.int32)
    crossed_blocks[len(starts)](M, TOP, got, ahead, keys, left, right, BM=block, BOUND=keys % 128 != 0)
    want = []
    for m, top in starts:
        place, key = m + ahead + np.arange(block)[:, None], top + np.arange(64)
        seen = np.broadcast_to(key < keys, (block, 64)).copy()
        seen &= key <= place + right if right is not None else True
        seen &= key >= place - left if left is not None else True
        want.append(not seen.all())
    assert got.tolist() == want and 0 < sum(want) < len(want)


def test_packed_sequences_know_nothing_of_each_other():
    rng = np.random.default_rng(3)
    starts = [np.array(x, np.int32) for x in ([0, 70, 70, 100], [0, 50, 60, 60])]
    do, q = heads(rng, 100, 2, 64), heads(rng, 100, 2, 64)
    k, v = heads(rng, 60, 1, 64), heads(rng, 60, 1, 64)
    o, logs = forward(q, k, v, starts, causal=True)
    want = packed_gradients(do, q, k, v, *starts, causal=True)
    for deterministic in (False, True):
        got = attention_backward(
            do, q, k, v, o, logs, causal=True, cu_seqlens_q=starts[0], cu_seqlens_k=starts[1], deterministic=deterministic
        )
        assert [x.shape for x in got] == [(100, 2, 64), (60, 1, 64), (60, 1, 64)]
        assert_gradients(got, want)
        assert (got[0][70:] == 0).all() and (got[1][50:] == 0).all(), "no keys, or no queries"


def test_nothing_to_do():
    q, none = np.ones((1, 2, 5, 64), BF16), np.ones((1, 2, 0, 64), BF16)
    logs = np.full((1, 2, 5), -np.inf, np.float32)
    dq, dk, dv = attention_backward(q, q, none, none, q, logs)
    assert (dq == 0).all() and dk.shape == dv.shape == none.shape
    dq, dk, dv = attention_backward(none, none, q, q, none, np.zeros((1, 2, 0), np.float32))
    assert dq.shape == none.shape and (dk == 0).all() and (dv == 0).all()


def test_all_kernels_are_clean():
    """Two blocks of keys, three of queries, heads that share keys: the rings wrap and both warpgroups hand over."""
    rng = np.random.default_rng(4)
    do, q, k, v = arrays(rng, 1, 2, 1, 100, 130, 64)
    given = forward(q, k, v, causal=True)
    config = BackwardConfig(queries=64)
    with launches(*ALL) as found:
        attention_backward(do, q, k, v, *given, causal=True, config=config)
        attention_backward(do, q, k, v, *given, causal=True, config=config, deterministic=True)
    assert [launch.kernel.name for launch in found] == [
        "prepare_rows", "backward_keys", "finish_sums", "prepare_rows", "backward_keys", "backward_queries",
    ]  # fmt: skip
    for launch in found[:3] + found[5:]:
        report = launch.check(schedules=2)
        assert report.ok, str(report)


@pytest.mark.long
@pytest.mark.parametrize("dim", [192, pytest.param(256, marks=pytest.mark.long)])
def test_heads_beyond_128_have_a_pass_for_each_gradient(dim):
    rng = np.random.default_rng(8)
    do, q, k, v = arrays(rng, 1, 2, 1, 70, 90, dim)
    given = forward(q, k, v, causal=True)
    with launches(*ALL) as found:
        got = attention_backward(do, q, k, v, *given, causal=True)
    assert_gradients(got, gradients(do, q, k, v, causal=True))
    names = [launch.kernel.name for launch in found]
    assert names == ["prepare_rows", "backward_keys", "backward_keys", "backward_queries"]
    for launch in found[1:3]:
        report = launch.check(schedules=1)
        assert report.ok, str(report)


def test_deterministic_results_do_not_depend_on_who_comes_first():
    """Under random orders of events: equal bit for bit. The sums that CTAs add to in any order are not, as it happens."""
    rng = np.random.default_rng(5)
    do, q, k, v = arrays(rng, 1, 1, 1, 64, 390, 64)
    given = forward(q, k, v)
    with launches(*ALL, run=False) as found:
        attention_backward(do, q, k, v, *given, deterministic=True, config=BackwardConfig(queries=64))
    first = run_again(found, 0)
    for seed in (1, 2):
        assert all(np.array_equal(a, b) for a, b in zip(run_again(found, seed), first))
    assert_gradients([x.astype(np.float32) for x in first], gradients(do, q, k, v))


def run_again(found, seed):
    """The launches under a random schedule: (dq, dk, dv)."""
    for launch in found:
        simulate_launch(launch, Schedule("random", seed=seed))
    keys, queries = found[1].arguments, found[2].arguments
    return [x.copy() for x in (queries[8], keys[9], keys[10])]


def simulate_launch(launch, schedule):
    from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, specialise

    kernel = launch.kernel
    constants = kernel.bind_constants(launch.constants)
    function = specialise(kernel, read_arguments(kernel, tuple(launch.arguments)), constants).prepared
    values = [x for x in launch.arguments if x is not None]
    simulate(function, normalise_grid(kernel, launch.grid, constants), values, schedule=schedule)


X = np.zeros((1, 2, 40, 64), BF16)
LOGS = np.zeros((1, 2, 40), np.float32)
ODD, WIDE = np.zeros((1, 2, 40, 80), BF16), np.zeros((1, 2, 40, 256), BF16)
WRONG = [
    ({"do": X[:, :1]}, "do is bf16 of shape (1, 1, 40, 64), the result of these is bf16 of (1, 2, 40, 64)",
     "pass the result of attention, and its gradient, in q's type and shape, as wide as v"),
    ({"lse": LOGS[0]}, "lse has shape (2, 40)", "pass what attention(..., lse=True) gave, of shape (1, 2, 40)"),
    ({"v": ODD}, "do is bf16 of shape (1, 2, 40, 64), the result of these is bf16 of (1, 2, 40, 80)",
     "pass the result of attention, and its gradient, in q's type and shape, as wide as v"),
    ({**dict.fromkeys(("do", "q", "k", "v", "o"), WIDE), "config": BackwardConfig(stages=1)},
     "heads of 256 elements without apart", "give apart=True: each gradient has a pass of its own"),
    ({**dict.fromkeys(("do", "q", "k", "v", "o"), WIDE), "config": BackwardConfig(apart=True)},
     "2 stages with heads of 256 elements", "give 1: shared memory has no room for more"),
    ({"dbias": True}, "dbias without a bias", "pass the bias that attention was given"),
    ({"dbias": True, "deterministic": True, "bias": np.zeros((1, 2, 1, 40), np.float32)},
     "the gradient of a bias of shape (1, 2, 1, 40) is a sum in any order, and not deterministic",
     "expand the bias to (batch, heads, queries, keys) and sum its gradient, or leave deterministic out"),
    ({"config": BackwardConfig(queries=80)}, "blocks of 80 queries with heads of 64 elements",
     "give 64, with heads of 64 elements also 128"),
    ({"config": BackwardConfig(stages=7)}, "7 stages of 64 queries", "give 2, or 3 of 64 queries"),
]  # fmt: skip


@pytest.mark.parametrize("options, message, remedy", WRONG, ids=[message for _, message, _ in WRONG])
def test_what_does_not_go_together(options, message, remedy):
    given = {"do": X, "q": X, "k": X, "v": X, "o": X, "lse": LOGS, **options}
    with pytest.raises(px.Error) as caught:
        attention_backward(**given)
    assert (caught.value.message, caught.value.remedy) == (message, remedy)
    assert caught.value.location.file.endswith("test_attention_backward.py")


MASKS = [{}, {"causal": True}, {"window": (33, 20)}, {"causal": True, "window": (70, -1)}, {"window": (0, 0)}]


@pytest.mark.long
@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("dim", [64, 80, 96, 128, 160, 192, 224, 256])
def test_every_size_and_mask(dim, mask):
    rng = np.random.default_rng(dim)
    for queries, keys, dtype, amplitude in ((300, 211, BF16, 1), (137, 300, np.float16, 4)):
        given = arrays(rng, 1, 2, 1, queries, keys, dim, dtype, amplitude)
        for deterministic in (False, True):
            both(*given, rounding=2**-8 if dtype == BF16 else 2**-10, deterministic=deterministic, **mask)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_random_shapes(seed):
    rng = np.random.default_rng(seed)
    dim = int(rng.choice([64, 80, 96, 128]))
    batch, group, kv_heads, queries, keys = (int(rng.integers(1, most)) for most in (3, 4, 3, 301, 301))
    options = {"causal": bool(rng.random() < 0.5), "deterministic": bool(rng.random() < 0.3)}
    if rng.random() < 0.5:
        options["window"] = tuple(int(x) for x in rng.integers(-1, 200, 2))
    config = BackwardConfig(
        queries=int(rng.choice([64, 128])) if dim == 64 else 64, early=bool(rng.random() < 0.5),
        ahead=bool(rng.random() < 0.5),
    )  # fmt: skip
    amplitude = float(rng.choice([1, 3, 8]))
    both(*arrays(rng, batch, group, kv_heads, queries, keys, dim, amplitude=amplitude), config=config, **options)


@pytest.mark.long
@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
def test_caps_slopes_and_biases(dim):
    rng = np.random.default_rng(6)
    given = arrays(rng, 2, 2, 1, 100, 150, dim)
    slopes = np.array([0.5, 0.01], np.float32)
    bias = rng.standard_normal((1, 2, 100, 150)).astype(np.float32)
    bias[0, 0, 3], bias[0, 1, :, 10:30] = -np.inf, -np.inf
    both(*given, softcap=3.0, causal=True)
    both(*given, bias=slopes, dbias=True, causal=True)
    both(*given, bias=np.stack([slopes, 2 * slopes]), softcap=5.0, scale=0.3, dbias=True)
    both(*given, bias=bias, causal=True)
    for shape in ((2, 2, 100, 150), (1, 2, 1, 150), (2, 1, 100, 1), (1, 1, 1, 1)):
        both(*given, bias=rng.standard_normal(shape).astype(np.float32), dbias=True, softcap=4.0)
    full = rng.standard_normal((2, 2, 100, 150)).astype(np.float32)
    both(*given, bias=full, dbias=True, deterministic=True)


@pytest.mark.long
@pytest.mark.parametrize("deterministic", [False, True])
def test_text_on_the_cpu(deterministic):
    rng = np.random.default_rng(7)
    do, q, k, v = arrays(rng, 1, 2, 1, 100, 130, 64)
    given = forward(q, k, v, causal=True)
    with launches(*ALL, run=False) as found:
        got = attention_backward(do, q, k, v, *given, causal=True, deterministic=deterministic)
    for launch in found:
        launch.on_host("sm_90a")
    assert_gradients(got, gradients(do, q, k, v, causal=True))


def compiled(dim, deterministic=False, packed=False, **options):
    """The kernels that a call launches, for sm_90a."""
    shape = (300, 4, dim) if packed else (1, 4, 300, dim)
    q, logs = np.zeros(shape, BF16), np.zeros((4, 300) if packed else (1, 4, 300), np.float32)
    starts = {"cu_seqlens_q": np.array([0, 300], np.int32), "cu_seqlens_k": np.array([0, 300], np.int32)} if packed else {}
    with launches(*ALL, run=False) as found:
        attention_backward(q, q, q, q, q, logs, deterministic=deterministic, **starts, **options)
    return [launch.compile("sm_90a") for launch in found]


@pytest.mark.long
def test_heads_of_128_compile_without_spills():
    made = compiled(128)[1]
    assert made.spills == 0 and "red.relaxed.gpu.global.add.v4.f32" in made.ptx


SLOPES, BIAS = np.zeros(4, np.float32), np.zeros((1, 4, 300, 300), np.float32)
SHIPPED = [
    {}, {"causal": True}, {"window": (9, 9)}, {"window": (9, 9), "softcap": 2.0}, {"window": (9, 9), "bias": SLOPES},
    {"window": (9, 9), "bias": SLOPES, "softcap": 2.0, "packed": True}, {"causal": True, "packed": True},
    {"window": (9, 9), "packed": True}, {"window": (9, 9), "bias": BIAS, "dbias": True},
    {"window": (9, 9), "bias": BIAS, "dbias": True, "softcap": 2.0}, {"window": (9, 9), "deterministic": True},
    {"causal": True, "bias": SLOPES, "dbias": True, "packed": True, "softcap": 2.0},
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("options", SHIPPED, ids=lambda options: ", ".join(options))
@pytest.mark.parametrize("dim", [64, 96, 128, 192, 256])
def test_nothing_spills(dim, options):
    made = compiled(dim, **options)
    assert [x.spills for x in made] == [0] * len(made)


@pytest.mark.long
@pytest.mark.parametrize("config", [BackwardConfig(64), BackwardConfig(64, 3), BackwardConfig(64, early=False)], ids=str)
def test_configurations_that_are_not_chosen_compile(config):
    for dim in (64, 128):
        assert [x.spills for x in compiled(dim, causal=True, config=config)] == [0, 0, 0]


def test_choice():
    assert choose_backward(64) == BackwardConfig(queries=128, early=False)
    assert choose_backward(64, bounded=True) == choose_backward(64, ragged=True) == BackwardConfig(queries=128, ahead=True)
    assert choose_backward(64, varlen=True) == BackwardConfig(queries=64)
    assert choose_backward(128) == BackwardConfig(early=False, ahead=True)
    assert choose_backward(128, bounded=True) == choose_backward(128, varlen=True) == BackwardConfig(ahead=True)
    assert choose_backward(96, ragged=True) == BackwardConfig(ahead=True)
    assert choose_backward(128, bounded=True, sloped=True) == BackwardConfig(early=False)
    assert choose_backward(128, biased=True) == BackwardConfig(early=False, apart=True)
