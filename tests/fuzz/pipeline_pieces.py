"""What a random pipelined loop does in a step: loads, products, reductions, stores, each with what surrounds the loop.

Every piece is written with the names that the kernel has: `m`, `n` (where its tile begins), `bx`, `by` (which tile it
is), and `k` (where a step begins).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fuzz.pipeline_parts import Draft, Loop, condition, indented, wide


@dataclass
class Piece:
    """Statements before the loop, in it and behind it; `loads` come before the others of the body."""

    before: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def _fill(draft: Draft, dtype: str) -> str:
    if dtype != "f8e4m3" and draft.chance(0.08):
        draft.note("fill")
        return ", fill=1"
    return ""


def left(draft: Draft, loop: Loop, piece: Piece, dtype: str) -> str:
    """A tile (BM, BK) of this step."""
    rows, name = f"m:m + {draft.bm}", draft.name("a")
    kind = draft.rng.choice(("straight",) * 8 + ("transposed", "transposed", "slab", "gathered", "paged", "carried"))
    fill = _fill(draft, dtype)
    if kind == "transposed":
        text = f"px.load({draft.array((loop.axis, 'M'), dtype)}[{loop.along}, {rows}]{fill}).T"
    elif kind == "slab":
        text = f"px.load({draft.array((loop.steps, 'M', loop.bk), dtype)}[{loop.step}, {rows}, 0:{loop.bk}]{fill})"
    elif kind == "gathered":
        index = draft.name("rows")
        piece.before.append(f"{index} = px.load({draft.array(('M',), 'i32', 'below M')}[{rows}], fill=-1)")
        text = f"px.load({draft.array(('M', loop.axis), dtype)}[{index}, {loop.along}]{fill})"
    elif kind == "paged":
        place = draft.name("p")
        piece.loads.append(f"{place} = {draft.array((loop.steps,), 'i32', f'below {loop.steps}')}[{loop.step}] * {loop.bk}")
        text = f"px.load({draft.array(('M', loop.axis), dtype)}[{rows}, {place}:{place} + {loop.bk}]{fill})"
    elif kind == "carried":
        place = draft.name("q")
        loop.before.append(f"{place} = {-loop.bk}")
        loop.first.append(f"{place} = {place} + {loop.bk}")
        text = f"px.load({draft.array(('M', loop.axis), dtype)}[{rows}, {place}:{place} + {loop.bk}]{fill})"
    else:
        shift = draft.rng.choice((0, 0, 0, 0, 8, -8, 1))
        along = loop.along if not shift else f"k + {shift}:k + {loop.bk + shift}"
        text = f"px.load({draft.array(('M', loop.axis), dtype)}[{rows}, {along}]{fill})"
    draft.note(f"left {kind}")
    piece.loads.append(f"{name} = {text}")
    return name


def right(draft: Draft, loop: Loop, piece: Piece, dtype: str) -> str:
    """A tile (BK, BN) of this step."""
    columns, name = f"n:n + {draft.bn}", draft.name("b")
    kind = draft.rng.choice(("straight",) * 6 + ("transposed",) * 3 + ("gathered", "gathered", "paged"))
    fill = _fill(draft, dtype)
    if kind == "transposed":
        text = f"px.load({draft.array((loop.axis, 'N'), dtype)}[{loop.along}, {columns}]{fill})"
    elif kind == "gathered":
        index = draft.name("rows")
        array = draft.array((loop.axis,), draft.rng.choice(("i32", "i64")), f"below {loop.axis}")
        piece.loads.append(f"{index} = px.load({array}[{loop.along}], fill=-1)")
        text = f"px.load({draft.array((loop.axis, 'N'), dtype)}[{index}, {columns}]{fill})"
    elif kind == "paged":
        place = draft.name("p")
        piece.loads.append(f"{place} = {draft.array((loop.steps,), 'i32', f'below {loop.steps}')}[{loop.step}] * {loop.bk}")
        text = f"px.load({draft.array(('N', loop.axis), dtype)}[{columns}, {place}:{place} + {loop.bk}]{fill}).T"
    else:
        text = f"px.load({draft.array(('N', loop.axis), dtype)}[{columns}, {loop.along}]{fill}).T"
    draft.note(f"right {kind}")
    piece.loads.append(f"{name} = {text}")
    return name


def changed(draft: Draft, loop: Loop, piece: Piece, tile: str, dtype: str, by_k: str = "[None, :]") -> str:
    """A factor, (BM, BK) or with `by_k` "[:, None]" (BK, BN), with arithmetic before the product."""
    if not draft.chance(0.4 if by_k == "[None, :]" else 0.2):
        return tile
    draft.note("arithmetic before a product" if by_k == "[None, :]" else "a right factor is computed")
    sums = wide(dtype)
    kind = draft.rng.randrange(3)
    if kind == 0:
        return f"px.maximum({tile}.to(px.{sums}), 0).to(px.{dtype})"
    if kind == 1:
        factors = draft.name("v")
        piece.loads.append(f"{factors} = px.load({draft.array((loop.axis,), sums)}[{loop.along}])")
        return f"({tile}.to(px.{sums}) * {factors}{by_k}).to(px.{dtype})"
    factor = draft.array((loop.steps,), sums)
    return f"({tile}.to(px.{sums}) * {factor}[{loop.step}]).to(px.{dtype})"


def promoted(draft: Draft, loop: Loop, piece: Piece, part: str, sums: str) -> str:
    """What a step gives, (BM, BN), before it is added: as it is, or with factors of its own."""
    if draft.chance(0.3):
        return part
    draft.note("promotion")
    scale, name = draft.array((loop.steps, "M"), sums), draft.name("scale")
    piece.loads.append(f"{name} = px.load({scale}[{loop.step}, m:m + {draft.bm}])")
    if draft.chance(0.5):
        return f"{part} * {name}[:, None]"
    return f"{part} * ({name} * {draft.array((loop.steps,), sums)}[{loop.step}])[:, None]"


def recurrent(draft: Draft, loop: Loop) -> Piece:
    """A carried tile (BK, BN) is the right operand of one product; once in a while another one adds to it."""
    draft.note("a carried operand")
    piece, dtype = Piece(), draft.dtype
    sums, state, seen, total = wide(dtype), draft.name("state"), draft.name("seen"), draft.name("total")
    a, b = left(draft, loop, piece, dtype), right(draft, loop, piece, dtype)
    piece.before += [
        f"{state} = px.zeros(({loop.bk}, {draft.bn}), px.{sums})",
        f"{total} = px.zeros(({draft.bm}, {draft.bn}), px.{sums})",
    ]
    piece.body += [f"{seen} = px.dot({a}, {state}.to(px.{dtype}))", f"{total} = {total} + {seen}"]
    if dtype in ("bf16", "f16") and draft.chance(0.4):
        draft.note("a product adds to what another one reads")
        piece.body += [
            f"{seen} = px.maximum(px.minimum({seen}, 2), -2).to(px.{dtype})",
            f"{state} = px.dot({a}.T, {seen}, {state} + {b}.to(px.{sums}))",
        ]
    else:
        piece.body.append(f"{state} = {state} + {b}.to(px.{sums})")
    piece.body.append(f"{state} = px.maximum(px.minimum({state}, 3), -3)")
    out = draft.array(("M", "N"), sums, "zeros")
    piece.after.append(f"px.store({out}[m:m + {draft.bm}, n:n + {draft.bn}], {total})")
    return piece


def product(draft: Draft, loop: Loop) -> Piece:
    """A sum of products."""
    draft.note("product")
    piece, dtype, acc = Piece(), draft.dtype, draft.name("acc")
    sums = wide(dtype)
    made = {of: of(draft, loop, piece, dtype) for of in draft.rng.sample((left, right), 2)}
    a, b = made[left], made[right]
    piece.before.append(f"{acc} = px.zeros(({draft.bm}, {draft.bn}), px.{sums})")
    factor, other = changed(draft, loop, piece, a, dtype), changed(draft, loop, piece, b, dtype, "[:, None]")
    if draft.chance(0.25):
        draft.note("product added later")
        piece.body.append(f"{acc} = {acc} + {promoted(draft, loop, piece, f'px.dot({factor}, {other})', sums)}")
    else:
        piece.body.append(f"{acc} = px.dot({factor}, {other}, {acc})")
    if draft.chance(0.1):
        draft.note("sum changed in the loop")
        piece.body.append(f"{acc} = px.minimum({acc}, 100)")
    out = draft.array(("M", "N"), sums, "zeros")
    piece.after.append(f"px.store({out}[m:m + {draft.bm}, n:n + {draft.bn}], {acc})")
    return piece


def attention(draft: Draft, loop: Loop) -> Piece:
    """Two products with arithmetic between them: a step has `bk` keys."""
    draft.note("attention")
    piece, dtype = Piece(), draft.dtype if draft.dtype in ("bf16", "f16") else "bf16"
    dim, columns = draft.rng.choice((16, 32)), draft.rng.choice((8, 16, 32))
    q, o, s, p = (draft.name(stem) for stem in "qosp")
    keys, values = draft.name("keys"), draft.name("values")
    rows = f"m:m + {draft.bm}"
    piece.before += [
        f"{q} = px.load({draft.array(('M', dim), dtype)}[{rows}, 0:{dim}])",
        f"{o} = px.zeros(({draft.bm}, {columns}), px.f32)",
    ]
    piece.loads += [
        f"{keys} = px.load({draft.array((loop.axis, dim), dtype)}[{loop.along}, 0:{dim}])",
        f"{values} = px.load({draft.array((loop.axis, columns), dtype)}[{loop.along}, 0:{columns}])",
    ]
    piece.body.append(f"{s} = px.dot({q}, {keys}.T)")
    out = draft.array(("GY", "M", columns), "f32", "zeros")
    if draft.chance(0.3):
        draft.exact = False
        draft.note("softmax")
        top, new, total, faded = (draft.name(stem) for stem in ("top", "new", "total", "faded"))
        limit = f"k + px.arange({loop.bk})[None, :] < {draft.scalar('cut', f'cut {loop.number}')}"
        piece.before += [
            f"{top} = px.full(({draft.bm},), -1e30, px.f32)", f"{total} = px.zeros(({draft.bm},), px.f32)",
        ]  # fmt: skip
        piece.body += [
            f"{s} = px.where({limit}, {s} * 0.25, -1e30)",
            f"{new} = px.maximum({top}, px.max({s}, 1))",
            f"{p} = px.exp({s} - {new}[:, None])",
            f"{faded} = px.exp({top} - {new})",
            f"{total} = {total} * {faded} + px.sum({p}, 1)",
            f"{o} = px.dot({p}.to(px.{dtype}), {values}, {o} * {faded}[:, None])",
            f"{top} = {new}",
        ]
        piece.after.append(f"px.store({out}[by, {rows}, 0:{columns}], {o} / ({total}[:, None] + 1.0))")
        return piece
    if draft.chance(0.4):
        draft.note("mask")
        below = f"m + px.arange({draft.bm})[:, None] >= k + px.arange({loop.bk})[None, :]"
        piece.body.append(f"{s} = px.where({below}, {s}, 0.0)")
    piece.body.append(f"{p} = px.minimum(px.maximum({s}, -2.0), 2.0).to(px.{dtype})")
    if draft.chance(0.4):
        piece.body.append(f"{o} = px.where(px.max({s}, 1)[:, None] > 3.0, -{o}, {o})")
    piece.body.append(f"{o} = px.dot({p}, {values}, {o})")
    piece.after.append(f"px.store({out}[by, {rows}, 0:{columns}], {o})")
    return piece


def rows(draft: Draft, loop: Loop) -> Piece:
    """Sums, maxima and places along the rows of what is loaded."""
    draft.note("reduction")
    piece, dtype, x = Piece(), draft.rng.choice((draft.dtype, "f32", "i32")), draft.name("x")
    tile, sums, total = left(draft, loop, piece, dtype), wide(dtype), draft.name("total")
    piece.before.append(f"{total} = px.zeros(({draft.bm},), px.{sums})")
    piece.body.append(f"{x} = {tile}.to(px.{sums})")
    kind = draft.rng.randrange(4)
    if kind == 0:
        piece.body.append(f"{total} = {total} + px.sum({x}, 1)")
    elif kind == 1:
        piece.body.append(f"{total} = px.maximum({total}, px.max({x}, 1))")
    elif kind == 2:
        piece.body.append(f"{total} = {total} + px.sum(px.where({x} > {total}[:, None], 1, 0), 1).to(px.{sums})")
    else:
        piece.body.append(f"{total} = {total} - px.argmax({x}, 1).to(px.{sums})")
    out = draft.array(("GY", "M"), sums, "zeros")
    piece.after.append(f"px.store({out}[by, m:m + {draft.bm}], {total})")
    return piece


def kept(draft: Draft, loop: Loop) -> Piece:
    """A loaded tile that is carried: used in the next step, and behind the loop."""
    draft.note("a loaded tile is carried")
    piece, dtype = Piece(), draft.rng.choice(("bf16", "f32", "i32"))
    tile, last, total = left(draft, loop, piece, dtype), draft.name("last"), draft.name("total")
    shape, sums = f"({draft.bm}, {loop.bk})", wide(dtype)
    piece.before += [f"{last} = px.zeros({shape}, px.{dtype})", f"{total} = px.zeros({shape}, px.{sums})"]
    piece.body += [f"{total} = {total} + ({tile}.to(px.{sums}) - {last}.to(px.{sums}))", f"{last} = {tile}"]
    for value, of in ((last, dtype), (total, sums)):
        out = draft.array(("GY", "M", loop.bk), of, "zeros")
        piece.after.append(f"px.store({out}[by, m:m + {draft.bm}, 0:{loop.bk}], {value})")
    return piece


def stored(draft: Draft, loop: Loop) -> Piece:
    """A store in each step, to another array (which a launch may lay over the one that is loaded), or atomically."""
    piece, dtype = Piece(), draft.rng.choice(("bf16", "f32", "i32"))
    sums, region = wide(dtype), f"[m:m + {draft.bm}, {loop.along}]"
    x, name = draft.array(("M", loop.axis), dtype), draft.name("x")
    piece.loads.append(f"{name} = px.load({x}{region})")
    kind = draft.rng.choice(("store", "store", "over", "over", "atomic"))
    draft.note(f"in the body: {kind}")
    if kind == "atomic":
        out = draft.array(("GY", "M"), sums, "zeros")
        piece.body.append(f"px.atomic_add({out}[by, m:m + {draft.bm}], px.sum({name}.to(px.{sums}), 1))")
        return piece
    value = f"(2 - {name}.to(px.{sums})).to(px.{dtype})"
    if kind == "store":
        out = draft.array(("GY", "M", loop.axis), dtype, "zeros")
        piece.body.append(f"px.store({out}[by, m:m + {draft.bm}, {loop.along}], {value})")
        return piece
    draft.arrays[x].form = "plain"
    out = draft.array(("M", loop.axis), dtype, "zeros")
    piece.body.append(f"px.store({out}{region}, {value})")
    draft.in_order.append((out, x))
    return piece


def in_place(draft: Draft, loop: Loop) -> Piece:
    """A store to the array that is loaded: where it was loaded, or where the next step or the one before loads."""
    draft.note("stores to what it loads")
    piece, dtype, name = Piece(), draft.rng.choice(("f32", "i32")), draft.name("x")
    array = draft.array(("GY", "M", loop.axis), dtype)
    shift = draft.rng.choice((0, loop.bk, -loop.bk, 8))
    rows, along = f"m:m + {draft.bm}", f"k + {shift}:k + {shift + loop.bk}"
    piece.loads.append(f"{name} = px.load({array}[by, {rows}, {loop.along}])")
    piece.body.append(f"px.store({array}[by, {rows}, {along}], 1 - {name})")
    return piece


def counted(draft: Draft, loop: Loop) -> Piece:
    """Scalars of global memory, added up."""
    draft.note("carried scalar")
    piece, total = Piece(), draft.name("total")
    piece.before.append(f"{total} = 0")
    piece.body.append(f"{total} = {total} * 2 + {draft.array((loop.steps,), 'i32')}[{loop.step}]")
    piece.after.append(f"px.store({draft.array(('GX', 'GY'), 'i32', 'zeros')}[bx, by], {total})")
    return piece


PIECES: tuple[tuple[Callable[[Draft, Loop], Piece], int], ...] = (
    (product, 9), (attention, 5), (recurrent, 2), (rows, 4), (kept, 2), (stored, 4), (in_place, 1), (counted, 1),
)  # fmt: skip


def conditional(draft: Draft, loop: Loop, piece: Piece) -> Piece:
    """The piece under a condition, of which its loads may be a part; once in a while under two."""
    asked = condition(draft, loop)
    inside = [*piece.loads, *piece.body] if draft.chance(0.7) else piece.body
    outside = [] if inside is not piece.body else piece.loads
    draft.note("a conditional load" if not outside else "a conditional use")
    if draft.chance(0.25):
        draft.note("nested conditionals")
        inside = [f"if {condition(draft, loop)}:", *indented(inside)]
    lines = [f"if {asked}:", *indented(inside)]
    changes = [line.split(" = ")[0] for line in piece.before if "px.zeros(" in line]
    if changes and draft.chance(0.3):
        draft.note("else")
        lines += ["else:", f"    {changes[0]} = -{changes[0]}"]
    return Piece(piece.before, outside, lines, piece.after)
