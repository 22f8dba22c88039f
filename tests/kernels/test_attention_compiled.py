"""Every configuration that attention chooses, compiled for sm_90a: no spills, and wgmma alone."""

import pytest

import phalanx as px
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.config import BIASED, CHOICES, NARROW, AttentionConfig, choose
from phalanx.kernels.attention.forward_tiles import attention_tiles

CTAS = 132


def compiled(sizes, *, dtype="bf16", left=None, right=None, cap=False, bias=None, packed=False, lse=True, config=None):
    """The kernel as a call with such arguments launches it."""
    dim, wide = sizes
    narrow = dtype == "f8e4m3"
    heads = Heads(4, 16, 16, 4096, 4096, dim, wide, dtype)
    biased = cap or bias is not None
    kind = "window" if left is not None else "full" if right is None else "causal"
    config = config or choose(heads, kind="packed" if packed else kind, biased=biased)
    element, short = getattr(px, dtype), (4, 16, 4096)
    q, o = px.spec((*short, dim), element), px.spec((*short, wide), px.bf16 if narrow else element)
    v = px.spec((4, 16, wide, 4096) if narrow else (*short, wide), element)
    starts = px.spec((9,), px.i32) if packed else None
    arrays = {None: None, "slopes": px.spec((4, 16), px.f32), "tile": px.spec((*short, 4096), px.f32)}
    plan = (20, 40, 2, 2, 1) if kind == "full" and not packed else (None,) * 5
    return px.compile(
        attention_tiles[CTAS], q, q, v, o, px.spec(short, px.f32) if lse else None, arrays[bias], starts, starts, None,
        None, None, None if biased else 0.1, 0.1 if biased else None, 30.0 if cap else None, 0.5 if narrow else None,
        left, right, 1, 4, *plan, arch="sm_90a", config=config,
        form=config.form(heads, bias, sure=not packed and bias != "tile"),
    )  # fmt: skip


KINDS = {
    "full": {}, "causal": {"right": 0}, "window": {"left": 100, "right": 100},
    "packed": {"packed": True}, "packed causal": {"packed": True, "right": 0},
}  # fmt: skip
"""With logarithms; the first two, which calls have most, also without."""
FEATURES = {
    "cap": {"cap": True}, "bias, cap, causal": {"bias": "tile", "cap": True, "right": 0},
    "packed, slopes": {"bias": "slopes", "packed": True, "right": 0},
}  # fmt: skip
"""Those that take the most registers; `benchmarks/attention/compile.py` has the others."""


def judge(made):
    assert made.spills == 0
    assert "wgmma.mma_async" in made.ptx and "mma.sync" not in made.ptx


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", CHOICES, ids=str)
def test_no_choice_spills(sizes, kind):
    judge(compiled(sizes, **KINDS[kind]))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["full", "causal"])
@pytest.mark.parametrize("sizes", CHOICES, ids=str)
def test_no_choice_spills_without_logarithms(sizes, kind):
    judge(compiled(sizes, lse=False, **KINDS[kind]))


@pytest.mark.long
def test_f16():
    judge(compiled((128, 128), dtype="f16", right=0))


@pytest.mark.long
@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("sizes", BIASED, ids=str)
def test_no_choice_for_caps_and_biases_spills(sizes, kind):
    judge(compiled(sizes, **FEATURES[kind]))


@pytest.mark.long
@pytest.mark.parametrize("right", [None, 0])
@pytest.mark.parametrize("dim", NARROW)
def test_no_choice_of_8_bit_floats_spills(dim, right):
    judge(compiled((dim, dim), dtype="f8e4m3", right=right))


@pytest.mark.long
def test_the_usual_one_is_what_it_should_be():
    made = compiled((128, 128), lse=False)
    judge(made)
    assert made.ptx.count("m64n80k16") == 3 * 8 and made.ptx.count("m64n128k16") == 3 * 5
    assert made.shared_bytes < 232448 and AttentionConfig().rows == 192
