"""Kinds and shapes of tcgen05.mma, against the table of the PTX documentation written out here."""

from __future__ import annotations

import pytest

from phalanx.ir.tensor_kinds import (
    KINDS,
    Kind,
    Objection,
    accumulator_objection,
    instruction_columns,
    kind_of,
    product_shape,
)
from phalanx.ir.types import DType, bf16, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, u8

F4E2M1, F6E2M3, F6E3M2 = (DType(name, "float", bits) for name, bits in (("f4e2m1", 4), ("f6e2m3", 6), ("f6e3m2", 6)))
F8E8M0 = DType("f8e8m0", "float", 8)

# kind -> (K, M of one CTA, M of a pair, N of one CTA, N of a pair)
EIGHTS, SIXTEENS = range(8, 257, 8), range(16, 257, 16)
TABLE: dict[str, tuple[int, tuple[int, ...], tuple[int, ...], list[int], list[int]]] = {
    "f16": (16, (64, 128), (128, 256), [*EIGHTS], [*SIXTEENS]),
    "tf32": (8, (64, 128), (128, 256), [*EIGHTS], [*SIXTEENS]),
    "f8f6f4": (32, (64, 128), (128, 256), [*EIGHTS], [*SIXTEENS]),
    "i8": (32, (64, 128), (128, 256), [8, 16, 24, 32, *range(48, 257, 16)], [*range(32, 257, 32)]),
    # a pair of CTAs also has M = 128 here, which is left out: the scales of B lie in another order there
    "mxf8f6f4": (32, (128,), (256,), [*EIGHTS], [*SIXTEENS]),
    "mxf4": (64, (128,), (256,), [*EIGHTS], [*SIXTEENS]),
    "mxf4nvf4": (64, (128,), (256,), [*EIGHTS], [*SIXTEENS]),
}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("two_cta", [False, True])
def test_every_shape_of_one_instruction(name: str, two_cta: bool) -> None:
    assert set(TABLE) == set(KINDS)
    kind, (k, alone, pair, columns, pair_columns) = KINDS[name], TABLE[name]
    rows = [m // 2 for m in pair] if two_cta else list(alone)
    for m in range(16, 129, 16):
        for n in range(4, 257, 4):
            found = product_shape(kind, m, n, k, two_cta)
            legal = m in rows and n in (pair_columns if two_cta else columns)
            assert (found == (2 * m if two_cta else m, n, k)) == legal, (m, n)
            assert isinstance(found, Objection) != legal
    for depth in (0, k // 2, k + 8 if k > 8 else k + 4):
        assert isinstance(product_shape(kind, 128, 64, depth, two_cta), Objection)


@pytest.mark.parametrize("name", ["f8f6f4", "i8", "mxf8f6f4"])
def test_8_bit_operands_across_k_take_columns_in_larger_steps(name: str) -> None:
    for two_cta, step in ((False, 16), (True, 32)):
        for n in range(8, 257, 8):
            found = product_shape(KINDS[name], 128, n, 32, two_cta, columns_major=True)
            assert isinstance(found, tuple) == (n % step == 0)
    assert product_shape(KINDS["f16"], 128, 8, 16, columns_major=True) == (128, 8, 16)


def test_larger_products_are_cut_into_equal_instructions() -> None:
    f16_kind = KINDS["f16"]
    assert product_shape(f16_kind, 256, 512, 64) == (128, 256, 16)
    assert product_shape(f16_kind, 128, 384, 64) == (128, 192, 16)
    assert product_shape(f16_kind, 256, 256, 64, two_cta=True) == (256, 256, 16)
    assert product_shape(KINDS["mxf8f6f4"], 128, 512, 128) == (128, 256, 32)
    assert product_shape(KINDS["mxf8f6f4"], 128, 384, 128) == (128, 128, 32)  # scales come in blocks of 128
    assert [instruction_columns(n) for n in (8, 256, 264, 272, 8 * 37)] == [8, 256, 88, 136, 8]
    assert instruction_columns(12) is None


@pytest.mark.parametrize(
    ("a", "b", "scale", "block", "name"),
    [
        (bf16, bf16, None, None, "f16"),
        (f16, f16, None, None, "f16"),
        (f32, f32, None, None, "tf32"),
        (f8e4m3, f8e5m2, None, None, "f8f6f4"),
        (F4E2M1, F6E2M3, None, None, "f8f6f4"),
        (F4E2M1, F4E2M1, None, None, "f8f6f4"),
        (i8, u8, None, None, "i8"),
        (f8e4m3, F6E3M2, F8E8M0, 32, "mxf8f6f4"),
        (F4E2M1, f8e4m3, F8E8M0, 32, "mxf8f6f4"),
        (F4E2M1, F4E2M1, F8E8M0, 32, "mxf4"),
        (F4E2M1, F4E2M1, F8E8M0, 16, "mxf4nvf4"),
        (F4E2M1, F4E2M1, f8e4m3, 16, "mxf4nvf4"),
    ],
    ids=str,
)
def test_the_kind_follows_from_the_types(a: DType, b: DType, scale: DType | None, block: int | None, name: str) -> None:
    assert kind_of(a, b, scale, block) == KINDS[name]


def test_two_padded_operands_of_four_bits_are_a_product_of_eight() -> None:
    """f4e2m1 times f4e2m1 with scales is mxf4 from packed memory, mxf8f6f4 from padded."""
    assert kind_of(F4E2M1, F4E2M1, F8E8M0, 32).name == "mxf4"  # type: ignore[union-attr]
    assert kind_of(F4E2M1, F4E2M1, F8E8M0, 32, padded=True).name == "mxf8f6f4"  # type: ignore[union-attr]
    assert isinstance(kind_of(F4E2M1, F4E2M1, F8E8M0, 16, padded=True), Objection)


def test_objections_to_types() -> None:
    assert kind_of(bf16, f16) == Objection(
        "there is no product of bf16 and f16",
        "use two operands of bf16, f16, f32 (as tf32), i8 or u8, or any two of f8e4m3, f8e5m2, f6e2m3, f6e3m2, f4e2m1",
    )
    assert isinstance(kind_of(f64, f64), Objection)
    assert kind_of(bf16, bf16, F8E8M0, 32) == Objection(
        "there is no product of bf16 and bf16 with scales",
        "use operands of f8e4m3, f8e5m2, f6e2m3, f6e3m2, f4e2m1, or leave the scales out",
    )
    assert kind_of(f8e4m3, f8e4m3, f8e4m3, 16) == Objection(
        "f8e4m3 times f8e4m3 takes no scales of f8e4m3 for every 16 elements of K",
        "use scales of f8e8m0 for every 32 elements of K",
    )
    assert kind_of(F4E2M1, F4E2M1, f8e4m3, 32) == Objection(
        "f4e2m1 times f4e2m1 takes no scales of f8e4m3 for every 32 elements of K",
        "use scales of f8e8m0 for every 32 elements of K or of f8e8m0 for every 16 elements of K or of f8e4m3 for every 16 "
        "elements of K",
    )


def test_accumulators() -> None:
    assert accumulator_objection(KINDS["f16"], f16, f16) is None
    assert accumulator_objection(KINDS["f8f6f4"], f8e4m3, f16) is None
    assert accumulator_objection(KINDS["i8"], i8, i32) is None
    assert accumulator_objection(KINDS["f16"], bf16, f16) == Objection(
        "products of bf16 are added up in f32, not in f16", "give the accumulator the type f32"
    )
    assert accumulator_objection(KINDS["f16"], f16, i32) == Objection(
        "products of f16 are added up in f32 or f16, not in i32", "give the accumulator the type f32"
    )
    assert accumulator_objection(KINDS["mxf8f6f4"], f8e4m3, f16) is not None
    assert accumulator_objection(KINDS["tf32"], f32, f16) is not None


@pytest.mark.parametrize(
    ("kind", "rows", "n", "k", "two_cta", "what", "remedy"),
    [
        ("f16", 96, 64, 16, False, "a product of kind f16 has 64 or a multiple of 128 rows, not 96", "use 128 rows"),
        ("f16", 192, 64, 16, False, "192 rows are neither 64 nor a multiple of 128", "use an accumulator of 256 rows"),
        ("mxf8f6f4", 64, 64, 32, False, "a product of kind mxf8f6f4 has a multiple of 128 rows, not 64", "use 128 rows"),
        (
            "f16", 32, 64, 16, True,
            "a product of kind f16 has 64 or a multiple of 128 rows in each CTA of a pair, not 32",
            "use 128 rows in each CTA of a pair",
        ),
        (
            "mxf8f6f4", 64, 64, 32, True,
            "a product of kind mxf8f6f4 has a multiple of 128 rows in each CTA of a pair, not 64",
            "use 128 rows in each CTA of a pair: with 64 each half of the lanes would want its own half of b's scales, "
            "which no copy writes there",
        ),
        ("f16", 128, 20, 16, False, "the columns of a product of kind f16 are a multiple of 8, not 20", "use N = 24"),
        (
            "i8", 128, 40, 32, False,
            "the columns of a product of kind i8 are 8, 24 or a multiple of 16, not 40", "use N = 48",
        ),
        (
            "f16", 128, 24, 16, True,
            "the columns of a product of kind f16 of a pair of CTAs are a multiple of 16, not 24", "use N = 32",
        ),
        (
            "f16", 128, 512, 16, True,
            "a product of a pair of CTAs has at most 256 columns, not 512",
            "give each part of the columns an accumulator and a product of its own",
        ),
        (
            "mxf4", 128, 320, 64, False,
            "320 columns can't be cut into equal instructions of at most 256, each of whole blocks of 128 scales",
            "use N = 512",
        ),
        ("tf32", 128, 64, 12, False, "K of a product of kind tf32 is a multiple of 8, not 12", "use K = 16"),
    ],
)  # fmt: skip
def test_objections_to_shapes(kind: str, rows: int, n: int, k: int, two_cta: bool, what: str, remedy: str) -> None:
    assert product_shape(KINDS[kind], rows, n, k, two_cta) == Objection(what, remedy)


def test_every_kind_takes_32_bytes_of_k() -> None:
    def size(kind: Kind) -> int:
        return kind.k * kind.bits // 8

    assert {name: size(kind) for name, kind in KINDS.items()} == dict.fromkeys(TABLE, 32)
