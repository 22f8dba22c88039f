"""Parts of register tiles: which registers of a thread hold a slice."""

from __future__ import annotations

from functools import lru_cache

from phalanx.layouts.bits import is_power_of_two
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.registers import RegisterLayout, padded


@lru_cache(maxsize=256)
def part_layout(layout: RegisterLayout, starts: tuple[int, ...], shape: tuple[int, ...]) -> RegisterLayout:
    """The layout of `tile[start : start + size, ...]`, every element staying in its thread; ValueError if one must
    move.

    Along an axis that is cut, the size is a power of two and the start a multiple of it.

    Example: `part_layout(wgmma_accumulator(128, 256, 8), (0, 128), (128, 128))` has the upper 64 of 128 registers.
    """
    cut = [size != whole for size, whole in zip(shape, layout.shape, strict=True)]
    for dim, (start, size) in enumerate(zip(starts, shape, strict=True)):
        if cut[dim] and (not is_power_of_two(size) or start % size):
            raise ValueError(f"a part of {size} from {start} along axis {dim} is no aligned power of two")

    def leaves(image: tuple[int, ...]) -> bool:
        """Whether a bit leads out of the part."""
        return any(cut[dim] and image[dim] >= shape[dim] for dim in range(len(shape)))

    bases = {name: list(images) for name, images in layout.linear.bases}
    for name in ("lane", "warp"):
        if any(leaves(image) for image in bases[name]):
            raise ValueError(f"the parts of the tile lie in different {'lanes' if name == 'lane' else 'warps'}")
    for image in bases["register"]:
        if leaves(image) and sum(1 for coordinate in image if coordinate) != 1:
            raise ValueError("a register bit moves along several axes")
    bases["register"] = [image for image in bases["register"] if not leaves(image)]
    return RegisterLayout(LinearLayout.make(bases, padded(shape)), shape, layout.warps)


def part_slots(layout: RegisterLayout, starts: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """For each slot of the part the slot of the whole tile that holds the same element."""
    part = part_layout(layout, starts, shape)
    places = {layout.register_offset(register): slot for slot, register in enumerate(layout.live_registers())}
    return tuple(
        places[tuple(start + offset for start, offset in zip(starts, part.register_offset(register), strict=True))]
        for register in part.live_registers()
    )
