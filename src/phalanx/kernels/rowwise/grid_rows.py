"""Rows so long that all CTAs of a GPU share each: a slice of every row in each, and what they know of it through L2.

As in `stream`, the matrix is one run of memory, and a row's whole vectors come by bulk copies, its edges by threads. CTA c
has the same columns of every row, but for a vector. Chunks of its slices pass through a ring in the order of the rows.
TEAMS of some warps take the rows in turn: each looks at a slice, leaves what it
knows of it for the warp that publishes that, and has the result to compute as soon as the warp that gathers knows the row.
In the meantime other teams have other rows, so that nobody waits but the team.

What a CTA knows of a row are two numbers, published as one word of 64 bits, which is never 0: who waits for it needs no
other sign. The words are 0 before: each CTA clears its own, and none is read before all have done so.
"""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.matrices import empty
from phalanx.kernels.rowwise.row_config import LIMITS, VECTOR_BYTES, run_of, types_of
from phalanx.kernels.rowwise.stream import Before, by_thread, edge_places, whole_vectors
from phalanx.runtime.device.arrays import ArrayInfo, describe
from phalanx.runtime.symbolic.choices import chosen_by_sizes, not_chosen_in_exports

EMPTY_AS = 1 << 63
"""What a word that would be 0 is published as: the first number is -0.0 then."""
SIMULATED_CTAS = 3
"""CTAs in the simulator."""


@frozen
class GridConfig:
    """How rows pass through all SMs.

    `teams` of `warps` have a ring of `stages` chunks each; of a chunk a thread has `step` vectors. `once`: no cache of the
    SM keeps what is stored.
    """

    teams: int
    warps: int
    step: int
    stages: int
    once: bool = True

    def span(self, itemsize: int) -> int:
        """Elements of a chunk."""
        return 32 * self.warps * self.step * VECTOR_BYTES // itemsize

    def constants(self) -> dict[str, GridConfig]:
        """The kernels' constant `config`."""
        return {"config": self}

    def chunks(self, columns: int, itemsize: int, ctas: int) -> int:
        """Chunks of a CTA's slice, where so many share a row."""
        return px.cdiv(grid_slice(columns, VECTOR_BYTES // itemsize, ctas), self.span(itemsize))


@chosen_by_sizes
@cache
def choose_grid(columns: int, itemsize: int, kind: str, ctas: int) -> GridConfig | None:
    """How so many CTAs share rows of `columns` elements, or None where a cluster for each row is faster, or none has room.

    As many teams as rings of a slice each find room for, so that while one waits for what others know, the rest have
    rows to work on. Of 16 bits seven teams of four warps come first: softmax of 1,659,145 bf16 is at 0.87 so, and at 0.80
    with six teams of two. Measured on an H200, of the device copy, against `choose_stream`'s: softmax of 1,030,000 f32
    0.92 and 0.81, of 1,755,136 0.91 and 0.72, of 1,980,000 bf16 0.90 and 0.78. Shorter rows lose: softmax of 900,000 bf16
    0.82 and 0.92. Anyone may call it; no hardware is involved.
    Example: ``choose_grid(2000000, 4, "softmax", 132).teams == 3``.
    """
    if columns * itemsize < LIMITS.grid_bytes[kind][itemsize > 2]:
        return None
    part = grid_slice(columns, VECTOR_BYTES // itemsize, ctas) * itemsize
    tried = LIMITS.grid_teams if itemsize > 2 else LIMITS.grid_narrow_teams + LIMITS.grid_teams
    for teams, warps, step in tried:
        chunk = GridConfig(1, warps, step, 1).span(1)
        own = px.cdiv(part, chunk)
        room = LIMITS.grid_room // chunk
        if teams * own <= room:
            return GridConfig(teams, warps, step, min(room // teams, 2 * own))
    return None


def for_all_sms(rows: Any, vectors: tuple[Any, ...]) -> ArrayInfo | None:
    """What is known of a matrix of the GPU whose rows several SMs may share, which know of each other by words in memory:
    a run of memory, with weights and biases of the same type, if it has any (None for each). None: not this one."""
    info = describe(rows)
    if info is None or info.kind != "cuda" or run_of(rows) is None:
        return None
    return info if all(name == info.dtype_name for name in types_of(vectors)) else None


@not_chosen_in_exports
def grid_for(rows: Any, kind: str) -> GridConfig | None:
    """How all SMs share the rows of a matrix of the GPU that is a run of memory, where that pays; None: not at all.

    Exports have no such launches: they would ask for as many SMs wherever they run.
    """
    info = for_all_sms(rows, ())
    return choose_grid(info.shape[1], rows.dtype.itemsize, kind, px.device(info.device).sms) if info else None


@px.func
def gatherers(TEAMS):
    """Warps that gather what is known of rows: each waits for its words longer than a short row takes. Those of a team have
    the same one."""
    return 4 if TEAMS % 4 == 0 else 3 if TEAMS % 3 == 0 else 2 if TEAMS % 2 == 0 else 1


def launch_grid(
    kernel: Any, config: GridConfig, args: tuple[Any, ...], constants: dict[str, Any], rows: int, columns: int
) -> None:
    """Runs a kernel with a CTA on every SM: `args` are the run of memory with the rows, and what follows up to their
    columns."""
    run = args[0]
    info = describe(args[0])
    assert info is not None
    ctas = px.device(info.device).sms if info.kind == "cuda" else SIMULATED_CTAS
    itemsize = run.dtype.itemsize
    vector = VECTOR_BYTES // itemsize
    own = config.chunks(columns, itemsize, ctas)
    if own > config.stages:
        raise Error(
            f"rings of {config.stages} chunks for rows of {columns} elements, of which each of {ctas} CTAs has {own}",
            location=caller_location(),
            remedy=f"let stages be {own} at least, or chunks be longer: a ring keeps a CTA's part of a row",
        )
    slots = px.cdiv(ctas, 32) * 32
    words = empty(run, (rows * slots,), "i64")
    constants = {**config.constants(), **constants, "SLOTS": slots, "PERIOD": vector // gcd(columns, vector)}
    kernel[ctas](*args, rows, words, **constants)


@px.struct
class Slices:
    """This CTA's slices of the rows of X, as a role sees them; `columns` elements are a row, `part` of them a slice.

    A slice is `own` chunks, of which the last one may be short. Every team has a ring of its own: copies end in any order,
    so that of two teams that share one, the second can't know by a parity that the first one's round is over. `taken` and
    `again` are a team's places in its ring: of the next chunk to wait for, and of the next one to read for the result and
    to give back. EDGES: rows need not begin at a multiple of a vector; a thread of CTA 0 has at most one of the elements
    that lie in vectors which are not all the row's.
    """

    X: Any
    ring: Any
    full: Any
    empty: Any
    columns: Any
    rows: Any
    part: Any
    own: Any
    taken: Any
    again: Any
    VEC: int
    SPAN: int
    STEP: int
    LANES: int
    EDGES: bool

    def whole(self, row):
        """The places where this row's whole vectors begin and end."""
        return whole_vectors(row, self.columns, self.VEC, self.EDGES)

    def mine(self, row):
        """The places where this CTA's slice of a row begins and ends."""
        first, last = self.whole(row)
        begin = px.minimum(first + px.block_id(0) * self.part, last)
        return begin, px.minimum(begin + self.part, last)

    def fetch_all(self):
        """The role that fills the rings: the slices of all rows, each into the ring of its team."""
        TEAMS = self.ring.shape[0]
        STAGES = self.ring.shape[1]
        for row in range(self.rows):
            begin, last = self.mine(row)
            team = row % TEAMS
            place = row // TEAMS * self.own
            for chunk in range(self.own):
                stage = (place + chunk) % STAGES
                parity = (place + chunk) // STAGES & 1
                self.empty[team * STAGES + stage].wait(parity ^ 1)
                at = begin + chunk * self.SPAN
                at = px.where(at < last, at, 0)  # behind the slice's end: nobody looks at what it brings
                full = self.full[team * STAGES + stage]
                with full.transaction():
                    px.tma.load(self.X[at : at + self.SPAN], self.ring[team, stage], full, cache="evict_first")

    def walk(self, team, row, known, kind):
        """What is known of a row after this CTA's last chunk of it, by the `kind` of `known`."""
        begin, last = self.mine(row)
        for chunk in range(self.own):
            self.full[team * self.taken.n + self.taken.stage].wait(self.taken.parity)
            x = by_thread(px.load(self.ring[team, self.taken.stage]), self.STEP, self.LANES)
            self.taken.advance()
            limit = last - begin - chunk * self.SPAN
            if limit < self.SPAN:
                known = kind.more(x, Before(limit), *known)
            else:
                known = kind.more(x, None, *known)
        return known

    def store_all(self, team, row, Y, result, known, ONCE):
        """Stores what `result(x, *known)` makes of each chunk, and gives the chunks back."""
        begin, last = self.mine(row)
        px.assume(begin >= 0)
        px.assume(begin <= last)
        px.assume(last <= Y.shape[0])
        for chunk in range(self.own):
            y = result(px.load(self.ring[team, self.again.stage]), *known)
            at = begin + chunk * self.SPAN
            px.store(Y[at : at + self.SPAN].within(begin, last), y.to(Y.dtype), once=ONCE)
            self.empty[team * self.again.n + self.again.stage].arrive()
            self.again.advance()

    def edges(self, row, LANES):
        """The place of the element that each thread has of a row's edges; -1: it has none."""
        return edge_places(row, self.columns, self.whole(row), px.block_id(0) == 0, self.VEC, LANES)

    def load_edges(self, row, fill):
        """The element that each thread has of the edges of a row, or `fill`; None where rows have none."""
        return px.load(self.X[self.edges(row, self.LANES)], fill=fill) if self.EDGES else None


@px.func
def grid_slice(columns, VEC, ctas):
    """Elements of a CTA's slice of a row: whole sectors of L2."""
    return px.cdiv(px.cdiv(columns, VEC), 2 * ctas) * (2 * VEC)


@px.func
def slices_of(X, columns, rows, ring, full, empty, STEP, PERIOD):
    """The `Slices` of a role."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = ring.shape[2]
    part = grid_slice(columns, VEC, px.num_blocks(0))
    taken = px.ring(ring.shape[1])
    again = px.ring(ring.shape[1])
    own = px.cdiv(part, SPAN)
    LANES = SPAN // (STEP * VEC)
    return Slices(X, ring, full, empty, columns, rows, part, own, taken, again, VEC, SPAN, STEP, LANES, PERIOD > 1)


@px.func
def as_word(first, second):
    """Two numbers as one word, which is not 0."""
    low = px.bitcast(second, px.i32).to(px.i64) & 0xFFFFFFFF
    word = (px.bitcast(first, px.i32).to(px.i64) << 32) | low
    return px.where(word == 0, -EMPTY_AS, word)


@px.func
def as_numbers(word):
    """The two numbers of each word."""
    return px.bitcast((word >> 32).to(px.i32), px.f32), px.bitcast(word.to(px.i32), px.f32)


@px.struct
class GridExchange:
    """What the CTAs tell each other: WORDS of every row and CTA, SLOTS of them for a row; and within the CTA the numbers of
    each warp of a team, `parts`, and what is known of the whole row, `known`, with a barrier for each team.

    `cleared` counts the CTAs whose words are 0, and those that have seen that all are.
    """

    WORDS: Any
    cleared: Any
    parts: Any
    known: Any
    left: Any
    told: Any
    found: Any
    rows: Any
    SLOTS: int
    TEAMS: int

    def leave(self, team, numbers):
        """Leaves what each warp of a team knows, (WARPS, 1) each."""
        WARPS = self.parts.shape[2]
        for which in px.static_range(len(numbers)):
            px.store(self.parts[team, which], numbers[which].reshape(WARPS))
        self.left[team].arrive()

    def get(self, team, parity):
        """What is known of the team's row."""
        self.found[team].wait(parity)
        return px.load(self.known[team, 0]), px.load(self.known[team, 1])

    def publish_all(self, kind):
        """The role that publishes what this CTA knows of each row, from what its warps know."""
        block = px.block_id(0)
        for some in range(0, self.rows, 32):
            row = some + px.arange(32)
            px.store(self.WORDS[px.where(row < self.rows, row * self.SLOTS + block, -1)], px.zeros((32,), px.i64))
        px.atomic_add(self.cleared[0], 1, order="acq_rel")
        for row in range(self.rows):
            team = row % self.TEAMS
            turn = row // self.TEAMS
            self.left[team].wait(turn & 1)
            numbers: tuple[Any, ...] = ()
            for which in px.static_range(self.parts.shape[1]):
                numbers = (*numbers, px.load(self.parts[team, which]))
            first, second = kind.publish(*numbers)
            px.atomic_exch(self.WORDS[row * self.SLOTS + block], as_word(first, second))
            self.told[team].arrive()

    def gather_all(self, number, GATHERERS, kind):
        """A role that gathers what all CTAs know of a row, one of GATHERERS that take the rows in turn."""
        blocks = px.num_blocks(0)
        while px.atomic_add(self.cleared[0], 0, order="acq_rel") < blocks:
            pass
        last = blocks * GATHERERS - 1
        if px.atomic_add(self.cleared[1], 1, order="acq_rel") == last:  # nobody looks at the first one any more
            px.atomic_exch(self.cleared[0], 0)
            px.atomic_exch(self.cleared[1], 0)
        lane = px.arange(self.SLOTS)
        there = lane < blocks
        for row in range(number, self.rows, GATHERERS):
            team = row % self.TEAMS
            turn = row // self.TEAMS
            self.told[team].wait(turn & 1)
            at = row * self.SLOTS
            words = px.atomic_load(self.WORDS[at : at + self.SLOTS])
            while px.min(px.where(there & (words == 0), 0, 1)) == 0:
                words = px.atomic_load(self.WORDS[at : at + self.SLOTS])
            first, second = as_numbers(words)
            one, other = kind.gathered(there, None, None, first, second)
            px.store(self.known[team, 0], one)
            px.store(self.known[team, 1], other)
            self.found[team].arrive()
