"""The parameter contract: sizes, offsets, JSON, and that NVRTC lays the same structs out the same way."""

from __future__ import annotations

import json
import struct

import pytest

from phalanx.cuda.abi import SCALAR_FORMATS, ArraySlot, ScalarSlot, Signature, TensorMapSlot
from phalanx.cuda.nvrtc import compile_cuda

SIGNATURE = Signature(
    slots=(
        ArraySlot(2, "bf16", contiguous_inner=True, aligned16=True, name="X"),
        ScalarSlot("bool"),
        ArraySlot(3, "f32"),
        ScalarSlot("i32", name="n"),
        ScalarSlot("f64"),
        ArraySlot(0, "i64"),
    ),
    tensor_maps=(
        TensorMapSlot(array=0, box=(64, 32), swizzle=64),
        TensorMapSlot(array=2, box=(1, 8, 4), axes=(1, 0, 2), l2_promotion=256, fill_nan=True),
    ),
    debug=True,
)


def test_offsets() -> None:
    layout = SIGNATURE.layout
    # X: 8 + 2*8 + 2*4 = 32, then a bool; rank 3 from 40: 8 + 24 + 12 + 4 padding = 48, then i32, f64, pointer
    assert layout.slots == (0, 32, 40, 88, 96, 104)
    assert layout.tensor_maps == (128, 256)
    assert layout.debug == 384
    assert layout.nbytes == 392
    assert layout.all == (0, 32, 40, 88, 96, 104, 128, 256, 384)


def test_without_maps_and_debug() -> None:
    assert Signature(()).layout.all == ()
    layout = Signature((ScalarSlot("i32"),)).layout
    assert (layout.slots, layout.tensor_maps, layout.debug) == ((0,), (), None)


def test_json_round_trip() -> None:
    text = json.dumps(SIGNATURE.to_json())
    assert Signature.from_json(json.loads(text)) == SIGNATURE
    assert Signature.from_json(json.loads(text)).layout == SIGNATURE.layout


@pytest.mark.parametrize("tensor_map", [TensorMapSlot(1, (8,)), TensorMapSlot(0, (8,))])
def test_map_must_fit_its_array(tensor_map: TensorMapSlot) -> None:
    with pytest.raises(ValueError, match="tensor map 0 does not fit parameter"):
        Signature((ArraySlot(2, "f32"), ScalarSlot("i32")), (tensor_map,))


def test_compiler_lays_structs_out_the_same_way() -> None:
    lines = ["#define OFFSET(T, f) __builtin_offsetof(T, f)"]
    for rank in range(6):
        name = f"Array{rank}"
        fields = f"long long stride[{rank}]; int shape[{rank}];" if rank else ""
        lines.append(f"struct {name} {{ float* data; {fields} }};")
        lines.append(f'static_assert(sizeof({name}) == {ArraySlot(rank, "f32").nbytes}, "size");')
        lines.append(f'static_assert(alignof({name}) == 8, "alignment");')
        if rank:
            lines.append(f'static_assert(OFFSET({name}, stride) == 8, "strides");')
            lines.append(f'static_assert(OFFSET({name}, shape) == {8 + 8 * rank}, "shape");')
    for dtype, (code, text) in SCALAR_FORMATS.items():
        lines.append(f'static_assert(sizeof({text}) == {struct.calcsize("<" + code)}, "{dtype}");')
    lines.append('extern "C" __global__ void k(const __grid_constant__ Array3 a) { a.data[0] = a.shape[2]; }')
    assert compile_cuda("\n".join(lines), "sm_90a").cubin


def test_packing_format_puts_fields_where_c_has_them() -> None:
    data = struct.pack(ArraySlot(3, "f32").format, 0x1000, 30, 10, 1, 4, 3, 10)
    assert struct.unpack_from("<Q", data, 0) == (0x1000,)
    assert struct.unpack_from("<3q", data, 8) == (30, 10, 1)
    assert struct.unpack_from("<3i", data, 32) == (4, 3, 10)
    assert len(data) == 48
