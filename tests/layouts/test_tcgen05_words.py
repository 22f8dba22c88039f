"""The words of tcgen05, bit by bit against tables written out here, and those of two hand-written kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.ir.tensor_kinds import KINDS
from phalanx.layouts.tcgen05_words import InstructionDescriptor, SharedDescriptor, base_offset


def bits(word: int, high: int, low: int) -> int:
    """Bits [high:low] of a word."""
    return word >> low & ((1 << (high - low + 1)) - 1)


SWIZZLES = {(0, False): 0, (128, True): 1, (128, False): 2, (64, False): 4, (32, False): 6}

SHARED = st.builds(
    lambda address, leading, stride, form, base, absolute: SharedDescriptor(
        16 * address, 16 * leading, 16 * stride, *form, base, absolute
    ),
    st.integers(0, (1 << 14) - 1),
    st.integers(0, (1 << 14) - 1),
    st.integers(0, (1 << 14) - 1),
    st.sampled_from(list(SWIZZLES)),
    st.integers(0, 7),
    st.booleans(),
)


@given(SHARED)
def test_descriptors_of_shared_memory(d: SharedDescriptor) -> None:
    word = d.encode()
    assert bits(word, 13, 0) == d.address >> 4
    assert bits(word, 15, 14) == 0
    assert bits(word, 29, 16) == d.leading >> 4
    assert bits(word, 31, 30) == 0
    assert bits(word, 45, 32) == d.stride >> 4
    assert bits(word, 48, 46) == 0b001
    assert bits(word, 51, 49) == d.base_offset
    assert bits(word, 52, 52) == d.leading_is_address
    assert bits(word, 60, 53) == 0
    assert bits(word, 63, 61) == SWIZZLES[d.swizzle, d.wide_atom]
    assert word < 1 << 64
    assert SharedDescriptor.decode(word) == d
    assert d.fields == word - (d.address >> 4)


def test_what_is_no_descriptor_of_shared_memory() -> None:
    good = SharedDescriptor(0, 16, 1024, 128).encode()
    for wrong in (0, good | 1 << 14, good | 1 << 47, good | 1 << 55):
        with pytest.raises(ValueError, match="no descriptor"):
            SharedDescriptor.decode(wrong)
    with pytest.raises(ValueError, match="no swizzle with the code 3"):
        SharedDescriptor.decode(good | 1 << 61)
    with pytest.raises(ValueError, match="multiple of 16 bytes, not 8"):
        SharedDescriptor(8, 16, 1024).encode()
    with pytest.raises(ValueError, match="leading = 16384 does not fit 14 bits"):
        SharedDescriptor(0, 1 << 18, 0).encode()
    with pytest.raises(ValueError, match="has 32-byte atoms"):
        SharedDescriptor(0, 0, 0, 64, wide_atom=True).encode()
    # an address in the shared window of a cluster keeps its low 18 bits
    assert SharedDescriptor.decode(SharedDescriptor(0x1000400, 16, 1024, 128).encode()).address == 0x400


def test_base_offsets() -> None:
    assert [base_offset(x) for x in (0, 1024, 128, 512, 896 + 1024)] == [0, 0, 1, 4, 7]


# element types by kind, their codes in [9:7] and [12:10]
CODES = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"f32": 2},
    "f8f6f4": {"f8e4m3": 0, "f8e5m2": 1, "f6e2m3": 3, "f6e3m2": 4, "f4e2m1": 5},
    "i8": {"u8": 0, "i8": 1},
    "mxf8f6f4": {"f8e4m3": 0, "f8e5m2": 1, "f6e2m3": 3, "f6e3m2": 4, "f4e2m1": 5},
    "mxf4": {"f4e2m1": 1},
    "mxf4nvf4": {"f4e2m1": 1},
}
D_CODES = {"f16": 0, "f32": 1, "i32": 2}
PLAIN = ["f16", "tf32", "f8f6f4", "i8"]


@st.composite
def instructions(draw: st.DrawFn) -> InstructionDescriptor:
    kind = draw(st.sampled_from(list(CODES)))
    types = st.sampled_from(list(CODES[kind]))
    flag = st.booleans()
    word = InstructionDescriptor(
        kind, draw(types), draw(types), draw(st.sampled_from(KINDS[kind].accumulators)),
        draw(st.sampled_from([64, 128, 256] if kind in PLAIN else [128, 256])), 8 * draw(st.integers(1, 32)),
        negate_a=draw(flag), negate_b=draw(flag), sparse=draw(flag),
    )  # fmt: skip
    if kind not in ("mxf4", "mxf4nvf4"):
        word = replace(word, a_transposed=draw(flag), b_transposed=draw(flag))
    else:
        word = replace(word, k96=draw(flag))
    if kind in PLAIN:
        return replace(
            word, saturate=draw(flag), sparsity=draw(st.integers(0, 3)), shift=draw(st.sampled_from([0, 8, 16, 32]))
        )
    scale = draw(st.sampled_from([name for name, _ in KINDS[kind].scales]))
    return replace(word, scale=scale, scale_a=draw(st.integers(0, 3)), scale_b=draw(st.integers(0, 3)))


@given(instructions())
def test_instruction_descriptors(d: InstructionDescriptor) -> None:
    word = d.encode()
    assert 0 <= word < 1 << 32
    assert InstructionDescriptor.decode(word, d.kind) == d
    assert bits(word, 2, 2) == d.sparse
    assert bits(word, 9, 7) == CODES[d.kind][d.a]
    assert bits(word, 13, 13) == d.negate_a and bits(word, 14, 14) == d.negate_b
    assert bits(word, 15, 15) == d.a_transposed and bits(word, 16, 16) == d.b_transposed
    assert bits(word, 22, 17) == d.n >> 3
    assert bits(word, 6, 6) == 0
    if d.kind in PLAIN:
        assert bits(word, 1, 0) == d.sparsity and bits(word, 3, 3) == d.saturate
        assert bits(word, 5, 4) == D_CODES[d.d]
        assert bits(word, 12, 10) == CODES[d.kind][d.b]
        assert bits(word, 23, 23) == bits(word, 29, 29) == 0
        assert bits(word, 28, 24) == d.m >> 4
        assert bits(word, 31, 30) == {0: 0, 8: 1, 16: 2, 32: 3}[d.shift]
        return
    assert bits(word, 1, 0) == bits(word, 3, 3) == 0
    assert bits(word, 5, 4) == d.scale_b
    if d.kind == "mxf8f6f4":
        assert bits(word, 12, 10) == CODES[d.kind][d.b]
    else:
        assert bits(word, 11, 10) == 1 and bits(word, 12, 12) == 0
    assert bits(word, 23, 23) == (d.scale == "f8e8m0")
    assert bits(word, 26, 24) == 0
    assert bits(word, 28, 27) == d.m >> 7
    assert bits(word, 30, 29) == d.scale_a
    assert bits(word, 31, 31) == d.k96


def test_what_a_kind_does_not_have() -> None:
    f4 = InstructionDescriptor("mxf4", "f4e2m1", "f4e2m1", "f32", 128, 64, scale="f8e8m0")
    with pytest.raises(ValueError, match="kind mxf4 has no field for b_transposed"):
        replace(f4, b_transposed=True).encode()
    with pytest.raises(ValueError, match="kind mxf4 take no scales of f8e4m3"):
        replace(f4, scale="f8e4m3").encode()
    plain = InstructionDescriptor("f16", "f16", "f16", "f32", 128, 64)
    with pytest.raises(ValueError, match="take no scales"):
        replace(plain, scale="f8e8m0").encode()
    with pytest.raises(ValueError, match="not added up in i32"):
        replace(plain, d="i32").encode()
    with pytest.raises(ValueError, match="n = 20 is no multiple of 8"):
        replace(plain, n=20).encode()
    with pytest.raises(ValueError, match="bits that the descriptor of kind f16 does not"):
        InstructionDescriptor.decode(plain.encode() | 1 << 6, "f16")
    with pytest.raises(ValueError, match="element types that kind f16 does not"):
        InstructionDescriptor.decode(plain.encode() | 7 << 7, "f16")


def test_the_words_of_a_bf16_kernel_of_one_cta() -> None:
    """A tile of 128 x 256, K step 64, bf16 into f32, 128-byte swizzle, four stages.

    Its code: idesc(d=1, a=1, b=1, 0, 0, 128, 256) = 1 << 4 | 1 << 7 | 1 << 10 | (256 >> 3) << 17 | (128 >> 4) << 24, and
    sdesc(address, 16, 1024, 2) = address >> 4 | 1 << 16 | 64 << 32 | 1 << 46 | 2 << 61.
    """
    assert InstructionDescriptor("f16", "bf16", "bf16", "f32", 128, 256).encode() == 0x08400490
    # stage 2 of A (16384 bytes each), shared memory from 1024 on: 1024 + 2 * 16384 = 0x8400
    assert SharedDescriptor(0x8400, 16, 1024, 128).encode() == 0x4000_4040_0001_0840
    # stage 3 of B, behind four stages of A, 32768 bytes each: 1024 + 65536 + 98304 = 0x28400, >> 4 = 0x2840
    assert SharedDescriptor(0x28400, 16, 1024, 128).encode() == 0x4000_4040_0001_2840


def test_the_words_of_an_mxf8_kernel_of_a_pair() -> None:
    """A tile of 256 x 128 for two CTAs, K step 128, e4m3 with ue8m0 scales for every 32, 128-byte swizzle, five stages.

    Its code: idesc_mx(0, 0, 256, 128, ue8m0=1, 0, 0) | j << 29 | j << 4 = (128 >> 3) << 17 | 1 << 23 | (256 >> 7) << 27, and
    for j = 0..3 the byte of the scales; sdesc(scales, 0, 128, 0) = address >> 4 | 8 << 32 | 1 << 46.
    """
    word = InstructionDescriptor("mxf8f6f4", "f8e4m3", "f8e4m3", "f32", 256, 128, scale="f8e8m0")
    expected = [0x10A00000, 0x30A00010, 0x50A00020, 0x70A00030]
    assert [replace(word, scale_a=j, scale_b=j).encode() for j in range(4)] == expected
    # a stage has A 16384, B 8192, two blocks of 512 bytes of scales: 25600 = 0x6400 bytes. Stage 1 from 1024 on: 0x6800
    assert SharedDescriptor(0x6800, 16, 1024, 128).encode() == 0x4000_4040_0001_0680
    assert SharedDescriptor(0x6800 + 0x4000, 16, 1024, 128).encode() == 0x4000_4040_0001_0A80
    assert SharedDescriptor(0x6800 + 0x6000, 0, 128).encode() == 0x0000_4008_0000_0C80
    assert SharedDescriptor(0x6800 + 0x6200, 0, 128).encode() == 0x0000_4008_0000_0CA0
