"""The words that tcgen05 instructions are given: descriptors of shared memory (64 bits) and of the product (32 bits).

Both are made from named fields and read back: `decode(x.encode()) == x`.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.frozen import frozen
from phalanx.ir.tensor_kinds import KINDS, Kind

Fields = dict[str, tuple[int, int]]
"""Field name -> (lowest bit, number of bits)."""


def pack(fields: Fields, values: Mapping[str, int]) -> int:
    """The word with these values in these fields; ValueError if one does not fit."""
    word = 0
    for name, value in values.items():
        low, count = fields[name]
        if not 0 <= value < 1 << count:
            raise ValueError(f"{name} = {value} does not fit {count} bits")
        word |= value << low
    return word


def unpack(fields: Fields, word: int) -> dict[str, int]:
    """The values of all fields of a word."""
    return {name: word >> low & ((1 << count) - 1) for name, (low, count) in fields.items()}


# -- shared memory ---------------------------------------------------------------------------------------------------------

SHARED_FIELDS: Fields = {
    "address": (0, 14),
    "leading": (16, 14),
    "stride": (32, 14),
    "version": (46, 3),
    "base_offset": (49, 3),
    "leading_is_address": (52, 1),
    "swizzle": (61, 3),
}
VERSION = 1
SWIZZLE_CODES = {0: 0, 128: 2, 64: 4, 32: 6}
"""Bytes of the swizzle -> its code."""
WIDE_ATOM_CODE = 1
"""128 bytes, in atoms of 32 bytes instead of 16: how tf32 is read MN-major."""
UNIT = 16
"""Addresses and offsets are in units of 16 bytes."""
ADDRESS_MASK = 0x3FFFF
"""Bits of a shared-memory address that a descriptor keeps."""


@frozen
class SharedDescriptor:
    """What a tile in shared memory is to `tcgen05.mma` and `tcgen05.cp` (not Hopper's word: see `layouts/mma.py`).

    `address`, `leading` and `stride` are bytes; `swizzle` is 0, 32, 64 or 128 bytes, `wide_atom` its form with 32-byte atoms
    (128 only). `base_offset` is `(start of the pattern >> 7) & 7`, 0 where tiles begin on the swizzle's period.

    Example: `SharedDescriptor(0, 16, 1024, 128).encode() == 0x4000404000010000`.
    """

    address: int
    leading: int
    stride: int
    swizzle: int = 0
    wide_atom: bool = False
    base_offset: int = 0
    leading_is_address: bool = False

    def encode(self) -> int:
        """The 64-bit word."""
        if self.wide_atom and self.swizzle != 128:
            raise ValueError(f"only the swizzle of 128 bytes has 32-byte atoms, not that of {self.swizzle}")
        for name in ("address", "leading", "stride"):
            if getattr(self, name) % UNIT:
                raise ValueError(f"{name} of a descriptor is a multiple of {UNIT} bytes, not {getattr(self, name)}")
        return pack(
            SHARED_FIELDS,
            {
                "address": (self.address & ADDRESS_MASK) // UNIT,
                "leading": self.leading // UNIT,
                "stride": self.stride // UNIT,
                "version": VERSION,
                "base_offset": self.base_offset,
                "leading_is_address": int(self.leading_is_address),
                "swizzle": WIDE_ATOM_CODE if self.wide_atom else SWIZZLE_CODES[self.swizzle],
            },
        )

    @property
    def fields(self) -> int:
        """The word without its address: what is known when the text is written."""
        return self.encode() & ~0x3FFF

    @staticmethod
    def decode(word: int) -> SharedDescriptor:
        """The fields of a word; ValueError if it is none of sm_100's."""
        values = unpack(SHARED_FIELDS, word)
        if values["version"] != VERSION or word != pack(SHARED_FIELDS, values):
            raise ValueError(f"{word:#x} is no descriptor of shared memory of sm_100")
        code = values["swizzle"]
        swizzles = {number: size for size, number in SWIZZLE_CODES.items()} | {WIDE_ATOM_CODE: 128}
        if code not in swizzles:
            raise ValueError(f"there is no swizzle with the code {code}")
        return SharedDescriptor(
            values["address"] * UNIT,
            values["leading"] * UNIT,
            values["stride"] * UNIT,
            swizzles[code],
            code == WIDE_ATOM_CODE,
            values["base_offset"],
            bool(values["leading_is_address"]),
        )


def base_offset(pattern_start: int) -> int:
    """The field for a swizzle pattern that begins at this address; 0 on a multiple of 1024 bytes."""
    return pattern_start >> 7 & 7


# -- the product -----------------------------------------------------------------------------------------------------------

_EVERY_KIND: Fields = {
    "sparse": (2, 1),
    "a": (7, 3),
    "b": (10, 3),
    "negate_a": (13, 1),
    "negate_b": (14, 1),
    "a_transposed": (15, 1),
    "b_transposed": (16, 1),
    "n": (17, 6),
}
PLAIN_FIELDS: Fields = _EVERY_KIND | {"sparsity": (0, 2), "saturate": (3, 1), "d": (4, 2), "m": (24, 5), "shift": (30, 2)}
SCALED_FIELDS: Fields = _EVERY_KIND | {"scale_b": (4, 2), "scale_type": (23, 1), "m": (27, 2), "scale_a": (29, 2)}
FOUR_BIT_FIELDS: Fields = {
    name: place for name, place in SCALED_FIELDS.items() if name not in ("a_transposed", "b_transposed")
} | {"b": (10, 2), "k96": (31, 1)}
ACCUMULATOR_CODES = {"f16": 0, "f32": 1, "i32": 2}
SCALE_CODES = {"f8e4m3": 0, "f8e8m0": 1}
SHIFTS = (0, 8, 16, 32)


def fields_of(kind: Kind) -> Fields:
    """The fields of the instruction descriptor of a kind."""
    if not kind.scaled:
        return PLAIN_FIELDS
    return FOUR_BIT_FIELDS if kind.bits == 4 else SCALED_FIELDS


@frozen
class InstructionDescriptor:
    """What a `tcgen05.mma` multiplies: the kind and the element types by name, the shape (`m` of both CTAs of a pair), which
    operands are MN-major (`..._transposed`) or negated.

    Kinds with scales have `scale` (their type), `scale_a` and `scale_b` (the byte of the cell, 0 to 3, in which those of
    this step begin) and accumulate in f32. `sparsity`, `sparse`, `saturate`, `shift` and `k96` are for instructions that
    are not made yet: they are read and written, and 0.

    Example: `InstructionDescriptor("f16", "bf16", "bf16", "f32", 128, 256).encode() == 0x8400490`.
    """

    kind: str
    a: str
    b: str
    d: str
    m: int
    n: int
    a_transposed: bool = False
    b_transposed: bool = False
    negate_a: bool = False
    negate_b: bool = False
    scale: str | None = None
    scale_a: int = 0
    scale_b: int = 0
    saturate: bool = False
    sparse: bool = False
    sparsity: int = 0
    shift: int = 0
    k96: bool = False

    def encode(self) -> int:
        """The 32-bit word; ValueError if a field is given that this kind does not have."""
        kind = KINDS[self.kind]
        fields = fields_of(kind)
        if self.d not in kind.accumulators:
            raise ValueError(f"products of kind {kind} are not added up in {self.d}")
        values = {
            "a": kind.code(self.a),
            "b": kind.code(self.b),
            "n": _exactly(self.n, 8, "n"),
            "m": _exactly(self.m, 128 if kind.scaled else 16, "m"),
            "sparse": int(self.sparse),
            "negate_a": int(self.negate_a),
            "negate_b": int(self.negate_b),
        }
        optional = {
            "a_transposed": int(self.a_transposed),
            "b_transposed": int(self.b_transposed),
            "scale_a": self.scale_a,
            "scale_b": self.scale_b,
            "saturate": int(self.saturate),
            "sparsity": self.sparsity,
            "shift": SHIFTS.index(self.shift),
            "k96": int(self.k96),
        }
        for name, value in optional.items():
            if name in fields:
                values[name] = value
            elif value:
                raise ValueError(f"the descriptor of kind {kind} has no field for {name} = {getattr(self, name)}")
        if kind.scaled:
            if self.scale not in dict(kind.scales):
                raise ValueError(f"products of kind {kind} take no scales of {self.scale}")
            values["scale_type"] = SCALE_CODES[self.scale]  # type: ignore[index]
        else:
            if self.scale is not None:
                raise ValueError(f"products of kind {kind} take no scales")
            values["d"] = ACCUMULATOR_CODES[self.d]
        return pack(fields, values)

    @staticmethod
    def decode(word: int, kind_name: str) -> InstructionDescriptor:
        """The fields of a word of that kind; ValueError if it is none."""
        kind = KINDS[kind_name]
        values = unpack(fields_of(kind), word)
        if word != pack(fields_of(kind), values):
            raise ValueError(f"{word:#x} has bits that the descriptor of kind {kind} does not")
        types = {code: name for name, code in kind.operands}
        if values["a"] not in types or values["b"] not in types:
            raise ValueError(f"{word:#x} has element types that kind {kind} does not")
        d, scale = "f32", None
        if kind.scaled:
            scale = {code: name for name, code in SCALE_CODES.items()}[values["scale_type"]]
        else:
            d = {code: name for name, code in ACCUMULATOR_CODES.items()}[values["d"]]
        flags = ("a_transposed", "b_transposed", "negate_a", "negate_b", "saturate", "sparse", "k96")
        return InstructionDescriptor(
            kind_name,
            types[values["a"]],
            types[values["b"]],
            d,
            values["m"] * (128 if kind.scaled else 16),
            values["n"] * 8,
            scale=scale,
            scale_a=values.get("scale_a", 0),
            scale_b=values.get("scale_b", 0),
            sparsity=values.get("sparsity", 0),
            shift=SHIFTS[values.get("shift", 0)],
            **{name: bool(values.get(name, 0)) for name in flags},
        )


def _exactly(value: int, unit: int, name: str) -> int:
    if value % unit:
        raise ValueError(f"{name} = {value} is no multiple of {unit}")
    return value // unit
