"""What Blackwell's tensor cores multiply (`tcgen05.mma`, sm_100a and its relatives): kinds, element types, shapes.

One table, which the language asks for its messages, the simulator for its steps and the emitter for its words. Element types
are known by name. M is always that of the instruction: of a pair of CTAs it is both CTAs' rows together.
"""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.ir.types import DType

MAX_COLUMNS = 256
"""N of one instruction, at most."""
F8F6F4 = ("f8e4m3", "f8e5m2", "f6e2m3", "f6e3m2", "f4e2m1")
STEP_BYTES = 32
"""Bytes of K that one instruction takes of each row, whatever the kind; 4- and 6-bit types in containers count as 8-bit."""


@frozen
class Objection:
    """Why the tensor cores can't do it, and what to write instead: the text and the remedy of an error."""

    what: str
    remedy: str


@frozen
class Kind:
    """One `.kind::` of `tcgen05.mma`.

    `operands` are the element types of A and B with their codes in the instruction descriptor, `accumulators` those of D;
    `mixed`: A and B may differ. `bits` are those of an element's container along K, `k` the depth of one instruction.
    `rows` and `pair_rows` are the M of one instruction of one CTA and of a pair. `scales` are the pairs (type of the
    scales, elements of K for each) that it takes; none for kinds without.
    """

    name: str
    operands: tuple[tuple[str, int], ...]
    accumulators: tuple[str, ...]
    bits: int
    mixed: bool = True
    rows: tuple[int, ...] = (64, 128)
    pair_rows: tuple[int, ...] = (128, 256)
    scales: tuple[tuple[str, int], ...] = ()

    @property
    def k(self) -> int:
        """Elements of K of one dense instruction: 32 bytes."""
        return STEP_BYTES * 8 // self.bits

    @property
    def scaled(self) -> bool:
        """Whether it multiplies by scales of blocks along K."""
        return bool(self.scales)

    @property
    def names(self) -> tuple[str, ...]:
        """The element types of its operands."""
        return tuple(name for name, _ in self.operands)

    def code(self, dtype: str) -> int:
        """The code of an operand's element type in the instruction descriptor."""
        return dict(self.operands)[dtype]

    def instruction_rows(self, two_cta: bool) -> tuple[int, ...]:
        """The M of one instruction, smallest first."""
        return self.pair_rows if two_cta else self.rows

    def column_step(self, two_cta: bool, columns_major: bool = False) -> int:
        """N is a multiple of this; `columns_major`: B is MN-major. (i8 of one CTA also has 8 and 24.)"""
        wide = self.name == "i8" or (columns_major and self.bits == 8)
        return (16 if two_cta else 8) * (2 if wide else 1)

    def __str__(self) -> str:
        return self.name


# Of a pair, block-scaled products also have M = 128. There each half of the lanes works on half of the columns and wants the
# scales of B split likewise, in an order that no copy from blocks of 128 rows writes: it is left out.
_SCALED_ROWS, _SCALED_PAIR_ROWS = (128,), (256,)
_EIGHT = tuple(zip(F8F6F4, (0, 1, 3, 4, 5), strict=True))
_FOUR = (("f4e2m1", 1),)

KINDS = {
    kind.name: kind
    for kind in (
        Kind("f16", (("f16", 0), ("bf16", 1)), ("f32", "f16"), 16, mixed=False),
        Kind("tf32", (("f32", 2),), ("f32",), 32),
        Kind("f8f6f4", _EIGHT, ("f32", "f16"), 8),
        Kind("i8", (("u8", 0), ("i8", 1)), ("i32",), 8),
        *(
            Kind(name, operands, ("f32",), bits, True, _SCALED_ROWS, _SCALED_PAIR_ROWS, scales)
            for name, operands, bits, scales in (
                ("mxf8f6f4", _EIGHT, 8, (("f8e8m0", 32),)),
                ("mxf4", _FOUR, 4, (("f8e8m0", 32),)),
                ("mxf4nvf4", _FOUR, 4, (("f8e8m0", 16), ("f8e8m0", 32), ("f8e4m3", 16))),
            )
        ),
    )
}
"""By name; of several that would do, the first one is taken (block-scaled: `mxf4` before `mxf4nvf4`)."""


def kind_of(
    a: DType, b: DType, scale: DType | None = None, block: int | None = None, padded: bool = False
) -> Kind | Objection:
    """The kind that multiplies elements of types `a` and `b`, with scales of type `scale` for every `block` of K, if any.

    Two operands of f4e2m1 with scales are mxf4 or mxf4nvf4, which read them packed, two to a byte, unless both are `padded`;
    without scales, or beside a wider type, each has a byte (f8f6f4, mxf8f6f4).
    Example: `kind_of(px.bf16, px.bf16).name == "f16"`.
    """
    names = (a.name, b.name)
    if scale is None:
        found = [kind for kind in KINDS.values() if not kind.scaled and _takes(kind, names)]
        if found:
            return found[0]
        return Objection(
            f"there is no product of {a.name} and {b.name}",
            "use two operands of bf16, f16, f32 (as tf32), i8 or u8, or any two of " + ", ".join(F8F6F4),
        )
    able = [kind for kind in KINDS.values() if kind.scaled and _takes(kind, names)]
    if not able:
        return Objection(
            f"there is no product of {a.name} and {b.name} with scales",
            "use operands of " + ", ".join(F8F6F4) + ", or leave the scales out",
        )
    if names == ("f4e2m1", "f4e2m1"):
        able = [kind for kind in able if kind.bits == (8 if padded else 4)]
    for kind in able:
        if (scale.name, block) in kind.scales:
            return kind
    options = dict.fromkeys(option for kind in able for option in kind.scales)
    wanted = " or ".join(f"of {name} for every {size} elements of K" for name, size in options)
    return Objection(
        f"{a.name} times {b.name} takes no scales of {scale.name} for every {block} elements of K", f"use scales {wanted}"
    )


def _takes(kind: Kind, names: tuple[str, str]) -> bool:
    return all(name in kind.names for name in names) and (kind.mixed or names[0] == names[1])


def accumulator_objection(kind: Kind, a: DType, d: DType) -> Objection | None:
    """Why an accumulator of type `d` does not take the products of `a`; None if it does."""
    allowed = ("f32",) if a.name == "bf16" else kind.accumulators
    if d.name in allowed:
        return None
    return Objection(
        f"products of {a.name} are added up in {' or '.join(allowed)}, not in {d.name}",
        f"give the accumulator the type {allowed[0]}",
    )


def instruction_columns(n: int, step: int = 8) -> int | None:
    """The N of each instruction of a product with `n` columns: the fewest equal parts of at most 256, each a multiple of
    `step`; None if there are none. Example: `instruction_columns(384) == 192`."""
    for parts in range(-(-n // MAX_COLUMNS), n // step + 1):
        if n % parts == 0 and n // parts % step == 0:
            return n // parts
    return None


def product_shape(
    kind: Kind, rows: int, n: int, k: int, two_cta: bool = False, columns_major: bool = False
) -> tuple[int, int, int] | Objection:
    """The (M, N, K) of each instruction of a product, or why there is no such product.

    `rows` are the rows of this CTA's accumulator (a pair multiplies twice as many), `n` its columns, `k` the depth;
    `columns_major`: B is MN-major. The largest M is taken that divides the rows.

    Example: `product_shape(KINDS["f16"], 128, 256, 64) == (128, 256, 16)`.
    """
    ctas = 2 if two_cta else 1
    able = [m for m in kind.instruction_rows(two_cta) if rows * ctas % m == 0]
    if not able or rows <= 0:
        choices = [m // ctas for m in kind.instruction_rows(two_cta)]
        each = " in each CTA of a pair" if two_cta else ""
        most = f"{choices[0]} or a multiple of {choices[-1]}" if len(choices) > 1 else f"a multiple of {choices[0]}"
        why = ": with 64 each half of the lanes would want its own half of b's scales, which no copy writes there"
        remedy = f"use {choices[-1]} rows{each}" + why * (kind.scaled and two_cta and rows == 64)
        return Objection(f"a product of kind {kind} has {most} rows{each}, not {rows}", remedy)
    m = able[-1]
    if m // ctas == 64 and rows != 64:
        return Objection(
            f"{rows} rows are neither 64 nor a multiple of 128", f"use an accumulator of {rows // 128 * 128 + 128} rows"
        )
    columns = _columns(kind, n, two_cta, columns_major)
    if isinstance(columns, Objection):
        return columns
    if k <= 0 or k % kind.k:
        near = max(kind.k, round(k / kind.k) * kind.k)
        return Objection(f"K of a product of kind {kind} is a multiple of {kind.k}, not {k}", f"use K = {near}")
    return m, columns, kind.k


def _columns(kind: Kind, n: int, two_cta: bool, columns_major: bool) -> int | Objection:
    step = kind.column_step(two_cta, columns_major)
    if kind.name == "i8" and not two_cta and not columns_major and n in (8, 24):
        return n
    major = ", where B is MN-major," if columns_major and kind.bits == 8 else ""
    where = " of a pair of CTAs" if two_cta else ""
    if two_cta and n > MAX_COLUMNS:
        return Objection(
            f"a product{where} has at most {MAX_COLUMNS} columns, not {n}",
            "give each part of the columns an accumulator and a product of its own",
        )
    if n <= 0 or n % step:
        near = max(step, -(-n // step) * step)
        also = "8, 24 or " if kind.name == "i8" and not two_cta and not columns_major else ""
        return Objection(
            f"the columns of a product of kind {kind}{where}{major} are {also}a multiple of {step}, not {n}",
            f"use N = {near}",
        )
    columns = instruction_columns(n, 128 if kind.scaled and n > MAX_COLUMNS else step)
    if columns is None:
        return Objection(
            f"{n} columns can't be cut into equal instructions of at most {MAX_COLUMNS}"
            + (", each of whole blocks of 128 scales" if kind.scaled else ""),
            f"use N = {-(-n // MAX_COLUMNS) * MAX_COLUMNS}",
        )
    return columns
