"""Ways to make the left operand of a product in registers: each draws its arrays and writes lines that compute the tile.

Numbers are small and whole, and stay so on every way: all types hold them, and sums of products are exact. What a way
needs before the loop, such as a tile that the first turn begins with, it says too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fuzz.flight_draft import Draft, Kind

Lines = Callable[[str, str], list[str]]
"""The lines that compute a tile for a step, by the texts of the step's number and of the variable."""


@dataclass
class Operand:
    """How the tile of each step is made."""

    way: str
    lines: Lines
    before: list[str] = field(default_factory=list)
    """Once, before the loop."""
    carried: bool = False
    """Each step's tile is made from what the step before has left: no step is left out, and none made twice."""


@dataclass(frozen=True)
class Tile:
    """What is asked for: rows, columns for each step, how many steps there are, and the type.

    `first` is the text of the first row in the arrays; `along` is the axis that warpgroups share.
    """

    m: int
    k: int
    steps: int
    kind: Kind
    rows: int
    first: str = "0"
    along: str = "m"
    fused: bool = False
    """Whether the loop takes no product but `px.dot` of what is loaded in it."""

    @property
    def row(self) -> str:
        """The rows, as a subscript."""
        return f"{self.first}:{self.first} + {self.m}" if self.first != "0" else f"0:{self.m}"

    def columns(self, step: str, width: int = 0) -> str:
        """The columns of a step, as a subscript."""
        width = width or self.k
        return f"{step} * {width}:{step} * {width} + {width}"


def _place(tile: Tile, name: str, step: str) -> str:
    return f"px.load({name}[{tile.row}, {tile.columns(step)}])"


def _source(draft: Draft, tile: Tile, dtype: str, low: int, high: int) -> str:
    """A new array of (rows, columns of all steps)."""
    return draft.array("A", dtype, (tile.rows, tile.k * tile.steps), low, high)


def loaded(draft: Draft, tile: Tile) -> Operand:
    name = _source(draft, tile, tile.kind.left, tile.kind.low, 3)
    return Operand("loaded", lambda step, to: [f"{to} = {_place(tile, name, step)}"])


def cast(draft: Draft, tile: Tile) -> Operand:
    others = ("i8", "u8", "i32", "f32") if tile.kind.whole else ("f32", "f16", "bf16", "f8e4m3", "i8", "u8", "i32")
    source = draft.rng.choice([name for name in others if name != tile.kind.left])
    name = _source(draft, tile, source, 0 if "u8" in (source, tile.kind.left) else -3, 3)
    return Operand("cast", lambda step, to: [f"{to} = {_place(tile, name, step)}.to({tile.kind.px})"])


def arithmetic(draft: Draft, tile: Tile) -> Operand:
    kind = tile.kind
    name = _source(draft, tile, draft.rng.choice([kind.left, kind.work]), 0, 2)
    times, plus = kind.number(draft.rng.choice((1, 2))), kind.number(draft.rng.choice((0, 1, 2)))
    sign = "-" if kind.low < 0 and draft.chance(0.5) else "+"
    text = f"({{}}.to(px.{kind.work}) * {times} {sign} {plus}).to({kind.px})"
    return Operand("arithmetic", lambda step, to: [f"{to} = {text.format(_place(tile, name, step))}"])


def own_type(draft: Draft, tile: Tile) -> Operand:
    """Arithmetic in the type of the operand itself."""
    kind = tile.kind
    name = _source(draft, tile, kind.left, 0, 2)
    return Operand(
        "arithmetic in its type", lambda step, to: [f"{to} = {_place(tile, name, step)}", f"{to} = {to} + {to}"]
    )


def exponential(draft: Draft, tile: Tile) -> Operand:
    """Powers of two; the logarithms of some are sums of two loaded tiles."""
    name = _source(draft, tile, "f32", -2, 2)
    return Operand(
        "exponential", lambda step, to: [f"{to} = px.exp2({_place(tile, name, step)}).to({tile.kind.px})"]
    )


def _nibbles(tile: Tile, name: str, step: str) -> list[str]:
    return [
        f"w = px.load({name}[{tile.row}, {tile.columns(step, tile.k // 2)}])",
        "q = (w[:, :, None] >> (4 * px.arange(2)).to(px.u8)[None, None, :]) & 15",
        f"q = q.reshape({tile.m}, {tile.k})",
    ]


def nibbles(draft: Draft, tile: Tile) -> Operand:
    """Two elements to a byte, the first one lower, by way of arithmetic."""
    kind = tile.kind
    name = draft.array("W", "u8", (tile.rows, tile.k * tile.steps // 2), 0, 255, nibbles=True)
    less = f" - {kind.number(4)}" if kind.low < 0 else ""
    return Operand(
        "nibbles", lambda step, to: [*_nibbles(tile, name, step), f"{to} = (q.to(px.{kind.work}){less}).to({kind.px})"]
    )


def bits(draft: Draft, tile: Tile) -> Operand:
    """Elements of four bits put into the fraction of a number: 0x4300 | q is 128 + q as bf16, 0x6400 | q 1024 + q as f16."""
    code, less = {"bf16": ("0x4300", 132.0), "f16": ("0x6400", 1028.0)}[tile.kind.left]
    name = draft.array("W", "u8", (tile.rows, tile.k * tile.steps // 2), 0, 255, nibbles=True)
    return Operand(
        "bits",
        lambda step, to: [
            *_nibbles(tile, name, step), f"{to} = px.bitcast(q.to(px.u16) | {code}, {tile.kind.px}) - {less}"
        ],
    )  # fmt: skip


def interleaved(draft: Draft, tile: Tile) -> Operand:
    """Two tiles of half the columns, one for the even and one for the odd ones."""
    kind = tile.kind
    name = draft.array("W", "u8", (tile.rows, tile.k * tile.steps // 2), 0, 255, nibbles=True)

    def lines(step: str, to: str) -> list[str]:
        return [
            f"w = px.load({name}[{tile.row}, {tile.columns(step, tile.k // 2)}])",
            f"low, high = (w & 15).to({kind.px}), (w >> 4).to({kind.px})",
            f"{to} = px.where(px.arange(2)[None, None, :] == 0, low[:, :, None], high[:, :, None])",
            f"{to} = {to}.reshape({tile.m}, {tile.k})",
        ]

    return Operand("interleaved", lines)


def masked(draft: Draft, tile: Tile) -> Operand:
    kind = tile.kind
    name = _source(draft, tile, kind.left, kind.low, 3)
    where = f"(px.arange({tile.m})[:, None] + {{}}) % 3 > px.arange({tile.k})[None, :] % 2"
    other = draft.rng.choice((0, 1))
    work = kind.work if kind.narrow or draft.chance(0.3) else kind.left

    def lines(step: str, to: str) -> list[str]:
        rest = f"px.full(({tile.m}, {tile.k}), {other}, px.{work})"
        value = f"px.where({where.format(step)}, x.to(px.{work}), {rest})"
        return [f"x = {_place(tile, name, step)}", f"{to} = {value}.to({kind.px})"]

    return Operand("masked", lines)


def scaled(draft: Draft, tile: Tile) -> Operand:
    """By a vector: of rows or of columns, in global or in shared memory."""
    kind = tile.kind
    name = _source(draft, tile, draft.rng.choice([kind.left, kind.work]), max(kind.low, -2), 2)
    by_row = draft.chance(0.5)
    count = tile.m if by_row else tile.k
    if draft.chance(0.5):
        vectors = draft.in_shared("sv", "S", kind.work, (tile.steps, count), 1, 2)
        vector, way = f"px.load({vectors}[{{}}])", "shared"
    else:
        scales = draft.array("S", kind.work, (tile.steps, count), 1, 2)
        vector, way = f"px.load({scales}[{{}}, 0:{count}])", "global"
    spread = "[:, None]" if by_row else "[None, :]"

    def lines(step: str, to: str) -> list[str]:
        value = f"{_place(tile, name, step)}.to(px.{kind.work}) * {vector.format(step)}{spread}"
        return [f"{to} = ({value}).to({kind.px})"]

    return Operand(f"scaled by {'rows' if by_row else 'columns'} in {way} memory", lines)


def from_shared(draft: Draft, tile: Tile) -> Operand:
    kind = tile.kind
    if tile.first != "0":
        return arithmetic(draft, tile)
    name = draft.in_shared("sa", "A", kind.left, (tile.steps, tile.m, tile.k), 0, 2)
    value = f"px.load({name}[{{}}])"
    if draft.chance(0.7):
        value = f"({value}.to(px.{kind.work}) + {kind.number(1)}).to({kind.px})"
    return Operand("from shared memory", lambda step, to: [f"{to} = {value.format(step)}"])


def assembly(draft: Draft, tile: Tile) -> Operand:
    """Through assembly that the kernel brings along."""
    kind = tile.kind
    dtype, text = ("i32", "add.s32 $0, $1, $2;") if kind.whole else ("f32", "fma.rn.f32 $0, $1, $2, $2;")
    name = _source(draft, tile, dtype, max(kind.low, -3), 2)
    draft.function("plus_one", "def plus_one(x, ones):", "    return (x + ones).astype(x.dtype)")
    ones = f"px.full(({tile.m}, {tile.k}), {kind.number(1)}, px.{dtype})"
    return Operand(
        "assembly",
        lambda step, to: [
            f'x = px.ptx("{text}", ({_place(tile, name, step)}, {ones}), px.{dtype}, sim=plus_one)',
            f"{to} = x.to({kind.px})",
        ],
    )


def transposed(draft: Draft, tile: Tile) -> Operand:
    kind = tile.kind
    name = draft.array("A", kind.left, (tile.k * tile.steps, tile.rows), 0, 2)
    more = f".to(px.{kind.work}) + {kind.number(1)}" if draft.chance(0.5) else ""

    def lines(step: str, to: str) -> list[str]:
        value = f"px.load({name}[{tile.columns(step)}, {tile.row}]).T"
        return [f"{to} = ({value}{more}).to({kind.px})" if more else f"{to} = {value}"]

    return Operand("transposed", lines)


def permuted(draft: Draft, tile: Tile) -> Operand:
    kind, half = tile.kind, tile.k // 2
    name = _source(draft, tile, kind.left, kind.low, 3)
    return Operand(
        "permuted",
        lambda step, to: [
            f"x = {_place(tile, name, step)}.reshape({tile.m}, {half}, 2)",
            f"{to} = x.permute(0, 2, 1).reshape({tile.m}, {tile.k})",
        ],
    )


def narrowed(draft: Draft, tile: Tile) -> Operand:
    """Through a narrower type and back."""
    name = _source(draft, tile, "f32", -3, 3)
    through = draft.rng.choice([t for t in ("f8e4m3", "f8e5m2", "i8") if t != tile.kind.left])
    return Operand(
        "narrowed", lambda step, to: [f"{to} = {_place(tile, name, step)}.to(px.{through}).to({tile.kind.px})"]
    )


def chosen(draft: Draft, tile: Tile) -> Operand:
    """From one of two arrays, by an `if` of each turn."""
    kind = tile.kind
    one, two = (_source(draft, tile, kind.left, kind.low // 2, 2) for _ in range(2))

    def lines(step: str, to: str) -> list[str]:
        return [
            f"{to} = {_place(tile, one, step)}", f"if {step} % 2 == 1:",
            f"    {to} = ({_place(tile, two, step)}.to(px.{kind.work}) + {kind.number(1)}).to({kind.px})",
        ]  # fmt: skip

    return Operand("chosen by an if", lines)


def running(draft: Draft, tile: Tile) -> Operand:
    """The sum of what was loaded so far."""
    kind = tile.kind
    name = _source(draft, tile, kind.left, 0, 1)
    total = draft.unique("total")

    def lines(step: str, to: str) -> list[str]:
        return [
            f"{total} = {total} + {_place(tile, name, step)}.to(px.{kind.work})",
            f"{to} = {total}.to({kind.px})",
        ]

    return Operand("running sum", lines, [f"{total} = px.zeros(({tile.m}, {tile.k}), px.{kind.work})"], carried=True)


def doubled(draft: Draft, tile: Tile) -> Operand:
    """The operand of the turn before, changed: the same variable."""
    kind = tile.kind
    name = _source(draft, tile, kind.left, 0, 1)
    tile_of = draft.unique("kept")

    def lines(step: str, to: str) -> list[str]:
        value = f"({tile_of}.to(px.{kind.work}) + {_place(tile, name, step)}.to(px.{kind.work})).to({kind.px})"
        return [f"{tile_of} = {value}", f"{to} = {tile_of}"]

    return Operand("carried", lines, [f"{tile_of} = px.zeros(({tile.m}, {tile.k}), {kind.px})"], carried=True)


def ahead(draft: Draft, tile: Tile) -> Operand:
    """Loaded a turn ahead, and computed in its own."""
    kind = tile.kind
    name = _source(draft, tile, kind.left, 0, 2)
    coming = draft.unique("coming")

    def lines(step: str, to: str) -> list[str]:
        return [
            f"{to} = ({coming}.to(px.{kind.work}) + {kind.number(1)}).to({kind.px})",
            f"{coming} = {_place(tile, name, f'({step} + 1)')}",
        ]

    return Operand("loaded ahead", lines, [f"{coming} = {_place(tile, name, '0')}"], carried=True)


def made_ahead(draft: Draft, tile: Tile) -> Operand:
    """Computed a turn ahead."""
    kind = tile.kind
    name = _source(draft, tile, draft.rng.choice([kind.left, kind.work]), 0, 2)
    coming = draft.unique("coming")

    def made(step: str) -> str:
        return f"({_place(tile, name, step)}.to(px.{kind.work}) + {kind.number(1)}).to({kind.px})"

    return Operand(
        "made ahead", lambda step, to: [f"{to} = {coming}", f"{coming} = {made(f'({step} + 1)')}"],
        [f"{coming} = {made('0')}"], carried=True,
    )  # fmt: skip


def of_product(draft: Draft, tile: Tile) -> Operand:
    """From the accumulator of another product, as in attention."""
    depth = 16
    left = draft.in_shared("sq", "Q", "bf16", (tile.m, depth), -1, 1)
    right = draft.in_shared("sk", "T", "bf16", (tile.steps, tile.k, depth), -1, 1)

    along = ', along="n"' if tile.along == "n" else ""
    fused = draft.chance(0.2)

    def lines(step: str, to: str) -> list[str]:
        factors = f"{left}, {right}[{step}].T, scores{along}"
        product = [f"px.wgmma({factors})", "px.wgmma_commit()", "px.wgmma_wait(0)"]
        return [
            f"scores = px.zeros(({tile.m}, {tile.k}), px.f32)",
            *([f"scores = px.dot({factors})"] if fused else product),
            f"{to} = px.maximum(scores * 0.5, 0.0).to({tile.kind.px})",
        ]

    return Operand("of a product", lines)


ALWAYS = (
    loaded, cast, arithmetic, arithmetic, nibbles, masked, scaled, scaled, from_shared, assembly, transposed,
    permuted, chosen, running, doubled, ahead, made_ahead,
)
FLOATS = (exponential, narrowed)
BEYOND_8_BITS = (own_type, interleaved)


def operand(draft: Draft, tile: Tile) -> Operand:
    """A way that is drawn."""
    ways = [*ALWAYS]
    if not tile.kind.whole:
        ways += FLOATS
    if not tile.kind.narrow:
        ways += BEYOND_8_BITS
    if tile.kind.left in ("bf16", "f16"):
        ways += (bits,)
        if tile.first == "0" and not tile.fused and (tile.along == "m" or tile.k & (tile.k - 1) == 0):
            ways += (of_product,)
    made = draft.rng.choice(ways)(draft, tile)
    draft.note(made.way)
    return made
