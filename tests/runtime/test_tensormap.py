"""TMA descriptors: what is handed to the driver, and which rule each bad array breaks."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.cuda.abi import TensorMapSlot
from phalanx.errors import Error
from phalanx.runtime.device.driver import Driver
from phalanx.runtime.device.tensormap import (
    DATA_TYPES,
    EXPANDED_TYPES,
    Geometry,
    TensorMapCache,
    encode,
    geometry,
)


def test_axes_are_reversed_and_strides_become_bytes() -> None:
    slot = TensorMapSlot(0, (1, 64, 32), swizzle=64)
    assert geometry(slot, "bf16", (3, 100, 200), (40000, 256, 1)) == Geometry(
        dtype="bf16",
        dims=(200, 100, 3),
        byte_strides=(512, 80000),
        box=(32, 64, 1),
        swizzle=64,
        l2_promotion=256,
        fill_nan=False,
    )


def test_axes_reorder_a_column_major_array() -> None:
    slot = TensorMapSlot(0, (64, 16), axes=(1, 0))
    found = geometry(slot, "f32", (128, 200), (1, 128))
    assert (found.dims, found.byte_strides, found.box) == ((128, 200), (512,), (64, 16))


def test_axis_of_one_element_may_have_any_stride() -> None:
    slot = TensorMapSlot(0, (1, 1, 16))
    assert geometry(slot, "f32", (1, 1, 32), (7, 0, 1)).byte_strides == (16, 16)
    assert geometry(slot, "f32", (1, 1, 32), (64, 32, 1)).byte_strides == (128, 256)
    assert geometry(TensorMapSlot(0, (8, 16)), "f32", (8, 1), (4, 99)).byte_strides == (16,)


def test_broadcast_axis_has_stride_zero() -> None:
    assert geometry(TensorMapSlot(0, (8, 16)), "f32", (8, 32), (0, 1)).byte_strides == (0,)


@pytest.mark.parametrize(
    ("box", "swizzle", "shape", "strides", "message"),
    [
        ((), 0, (), (), "has rank 0, a TMA descriptor has 1 to 5 axes"),
        (
            (1,) * 5 + (16,),
            0,
            (2,) * 6,
            (512, 256, 128, 64, 32, 1),
            "has rank 6, a TMA descriptor has 1 to 5 axes",
        ),
        ((8, 16), 0, (8, 32), (64, 2), "has stride 2 along its innermost axis, TMA needs 1"),
        ((8, 16), 0, (0, 32), (32, 1), "is empty, which a TMA descriptor can't express"),
        ((8, 16), 0, (8, 33), (33, 1), "has a stride of 132 bytes, TMA needs multiples of 16"),
        ((8, 16), 0, (8, 32), (-32, 1), "has a stride of -128 bytes, TMA needs 0 to 2**40 - 1"),
        ((8, 16), 0, (8, 32), (1 << 38, 1), f"has a stride of {1 << 40} bytes, TMA needs 0 to 2**40 - 1"),
        ((512, 16), 0, (512, 32), (32, 1), "is read in boxes of (512, 16), TMA needs 1 to 256 per axis"),
        ((8, 6), 0, (8, 32), (32, 1), "is read in rows of 24 bytes, TMA needs multiples of 16"),
        ((8, 32), 64, (8, 32), (32, 1), "is read in rows of 128 bytes, a 64-byte swizzle takes at most 64"),
    ],
)
def test_broken_rules(
    box: tuple[int, ...], swizzle: int, shape: tuple[int, ...], strides: tuple[int, ...], message: str
) -> None:
    with pytest.raises(Error) as error:
        geometry(TensorMapSlot(0, box, swizzle), "f32", shape, strides, name="X")
    assert error.value.message == f"array X {message}"
    assert error.value.remedy


def test_encode_hands_all_to_the_driver(library: Any, driver: Driver) -> None:
    slot = TensorMapSlot(0, (8, 4, 16), swizzle=128, l2_promotion=256, fill_nan=True)
    data = encode(driver, 0x7000, geometry(slot, "f32", (9, 5, 40), (200, 40, 1)))
    assert data == b"\x01" * 128
    assert library.encoded == [
        {
            "dtype": 7,
            "pointer": 0x7000,
            "dims": [40, 5, 9],
            "byte_strides": [160, 800],
            "box": [16, 4, 8],
            "steps": [1, 1, 1],
            "enums": (0, 3, 3, 1),
        }
    ]


def test_patches_of_a_convolution_have_a_function_of_their_own(library: Any, driver: Driver) -> None:
    """Corners, steps and sizes are innermost first, as the driver wants them."""
    slot = TensorMapSlot(0, (64, 1, 1, 32), swizzle=64, l2_promotion=128, walk=((-1, -2), (0, -3), (2, 1)))
    encode(driver, 0x7000, geometry(slot, "bf16", (3, 20, 30, 96), (57600, 2880, 96, 1)))
    assert library.encoded == [
        {
            "dtype": 9,
            "pointer": 0x7000,
            "dims": [96, 30, 20, 3],
            "byte_strides": [192, 5760, 115200],
            "corners": [[-2, -1], [-3, 0]],
            "patches": (32, 64),
            "steps": [1, 1, 2, 1],
            "enums": (0, 2, 2, 0),
        }
    ]


def test_rank_one_has_no_strides(library: Any, driver: Driver) -> None:
    encode(driver, 0x7000, geometry(TensorMapSlot(0, (64,)), "u8", (1000,), (1,)))
    assert library.encoded[0]["dims"] == [1000]
    assert library.encoded[0]["byte_strides"] == []


@pytest.mark.parametrize("pointer", [0, 0x7008])
def test_misaligned_address(driver: Driver, pointer: int) -> None:
    with pytest.raises(Error, match=f"{pointer:#x} is not a multiple of 16 bytes"):
        encode(driver, pointer, geometry(TensorMapSlot(0, (64,)), "u8", (1000,), (1,)))


def test_cache_encodes_once_per_address_and_geometry(library: Any, driver: Driver) -> None:
    slot = TensorMapSlot(0, (64,))
    cache = TensorMapCache(driver, (slot, slot))
    first, other, same = (0, "u8", (1000,), (1,)), (0, "u8", (1001,), (1,)), (0, "u8", (1000,), (1,))
    assert cache.of(*first)[0x100] == cache.of(*same)[0x100] == b"\x01" * 128
    assert cache.of(*first)[0x200] == b"\x02" * 128
    assert cache.of(*other)[0x100] == b"\x03" * 128
    assert cache.of(1, *first[1:])[0x100] == b"\x04" * 128  # another slot may have another box
    assert len(library.encoded) == 4
    for number in range(2000):
        cache.of(*first)[0x1000 + 16 * number]
    assert len(cache.of(*first)) <= 512


def test_data_types_are_the_header_s() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver").CUtensorMapDataType
    names = {
        "u8": "UINT8", "i8": "UINT8", "bool": "UINT8", "f8e4m3": "UINT8", "f8e5m2": "UINT8", "f8e8m0": "UINT8",
        "f6e2m3": "UINT8", "f6e3m2": "UINT8", "u16": "UINT16", "i16": "UINT16", "u32": "UINT32", "i32": "INT32",
        "u64": "UINT64", "i64": "INT64", "f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64",
        "bf16": "BFLOAT16",
    }  # fmt: skip
    assert {
        k: int(getattr(bindings, "CU_TENSOR_MAP_DATA_TYPE_" + v)) for k, v in names.items()
    } == DATA_TYPES
    expanded = {"f4e2m1": "16U4_ALIGN16B", "f6e2m3": "16U6_ALIGN16B", "f6e3m2": "16U6_ALIGN16B"}
    assert {
        k: int(getattr(bindings, "CU_TENSOR_MAP_DATA_TYPE_" + v)) for k, v in expanded.items()
    } == EXPANDED_TYPES


def test_room_between_elements() -> None:
    """Box and extents count elements, strides the bytes of the array."""
    slot = TensorMapSlot(0, (16, 128), 128, expands=True)
    assert geometry(slot, "f4e2m1", (64, 256), (256, 1)) == Geometry(
        "f4e2m1", (256, 64), (128,), (128, 16), 128, 256, False, True
    )
    assert geometry(slot, "f6e2m3", (64, 256), (256, 1)) == Geometry(
        "f6e2m3", (256, 64), (192,), (128, 16), 128, 256, False, True
    )
    row = TensorMapSlot(0, (1, 128), 128, expands=True)
    assert geometry(row, "f6e3m2", (1, 128), (128, 1)).byte_strides == (96,)
    assert geometry(row, "f6e3m2", (1, 128), (8, 1)).byte_strides == (32,)  # never stepped along
    with pytest.raises(Error, match="has 192 elements along its last axis"):
        geometry(slot, "f4e2m1", (64, 192), (256, 1))
    with pytest.raises(Error, match="has a stride of 144 bytes, a copy that puts room between elements"):
        geometry(slot, "f4e2m1", (64, 256), (288, 1))
