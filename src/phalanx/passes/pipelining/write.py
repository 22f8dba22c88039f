"""Loops over `px.pipelined`, written out: two roles, rings between them, and what each load and product became.

The kernel's warps compute; a warp of its own fetches. Both run the kernel's control flow, each the part that it needs. All
that is written users could write: roles, buffers, barriers, copies. So it is counted, checked and printed like theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

from phalanx.analysis.across_ranks import AcrossRanks
from phalanx.analysis.divisibility import find_divisibility
from phalanx.analysis.signs import find_signs
from phalanx.errors import Error
from phalanx.ir.archs import WARPGROUP, Arch, Feature, entry_registers
from phalanx.ir.core import Block, Faster, Function, Note, Op
from phalanx.ir.dots import decided
from phalanx.ir.effects import Span
from phalanx.ir.ops.control import Assign, For, ReadVar, Role, Roles, Scope
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.passes.pipelining.ahead import Fetch
from phalanx.passes.pipelining.consumer import Consumer
from phalanx.passes.pipelining.drawn import counted_before
from phalanx.passes.pipelining.epilogue import MOST_BYTES, WHOLE_BYTES, Leaving, find_leaving
from phalanx.passes.pipelining.issued import Issued, find_issued
from phalanx.passes.pipelining.kept import Kept
from phalanx.passes.pipelining.meetings import barrier_of_warps, unequal_meeting
from phalanx.passes.pipelining.multicast import Shared, sharing
from phalanx.passes.pipelining.operands import Operands
from phalanx.passes.pipelining.order import group_tiles
from phalanx.passes.pipelining.overlap import Overlaps, find_overlaps
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.plain import without_pipelining
from phalanx.passes.pipelining.producer import Producer
from phalanx.passes.pipelining.products import Products
from phalanx.passes.pipelining.rings import Ring, begin
from phalanx.passes.pipelining.slices import NotSliced, Slice, check_breaks, loads_wait_for_launches
from phalanx.passes.pipelining.staging import STAGE_GRAIN, Choices, Refusals, Staged, Stager, Transport
from phalanx.passes.rank_code import LoopCode, fresh_name
from phalanx.passes.sharing import budget

MOST_STAGES = 8
LEAST_STAGES = 2
BARRIER_BYTES = 16
"""Bytes of the two barriers of a stage."""


def has_pipelined(function: Function) -> bool:
    """Whether a kernel has loops that pipeline themselves."""
    return any(isinstance(op, For) and op.pipelined is not None for op in function.walk())


class NotIssued(Exception):
    """A product that only a warp of its own could issue, for which there is none: it stays what it is."""


@dataclass
class Written:
    """A kernel with its loops written out, and the stages that its rings have where the compiler chose them."""

    function: Function
    stages: int
    """0 where users gave all of them."""
    each: int
    """Bytes that all rings together take for each of these stages."""
    choices: Choices
    staged: bool = True
    """Whether anything runs ahead."""
    grown: bool = False
    """Whether results leave in larger parts than they must, since there was room."""
    multiplied: bool = False
    """Whether a warp of its own issues products to the tensor cores."""


def write_loops(function: Function, arch: Arch, most: int = MOST_STAGES, refusals: Refusals | None = None) -> Written:
    """The kernel with its loops over `px.pipelined` written out for a target; rings have `most` stages at most.

    For `cuda.prepare`, before all other passes. Whoever measures shared memory asks again with fewer stages
    where they do not fit. A loop whose loads all stay where they are is a plain one, and the notes say why.
    """
    refusals = refusals or Refusals()
    try:
        return _Writer(group_tiles(function), arch, most, refusals).written()
    except NotIssued:
        refusals = dataclasses.replace(refusals, multiplier=False)
        return _Writer(group_tiles(function), arch, most, refusals).written()


def leave_plain(function: Function, why: str, remedy: str) -> Function:
    """The kernel with its loops as they are written, and a note at each that says why, and what lets them run ahead."""
    loops = [op for op in function.walk() if isinstance(op, For) and op.pipelined is not None]
    said = f"px.pipelined: this loop stays as it is written: {why}"
    notes = [Note(said, loop.loc, faster=Faster(remedy)) for loop in loops]
    plain = without_pipelining(function)
    return dataclasses.replace(plain, notes=(*plain.notes, *notes))


class _Writer:
    def __init__(self, function: Function, arch: Arch, most: int, refusals: Refusals) -> None:
        self.whole = function
        self.arch = arch
        self.most = most
        self.refusals = refusals
        self.grown = False
        self.places = Places(function)
        self.notes: list[Note] = []
        self.issued = Issued()
        self.met: list[BarrierArray] = []
        """The barrier at which the CTAs of the cluster meet without those who fetch, where they do."""
        self.stager = Stager(self.places, find_divisibility(function), refusals, arch)
        self.taken = {buffer.name for buffer in function.buffers} | {barrier.name for barrier in function.barriers}
        self.loops = [op for op in function.walk() if isinstance(op, For) and op.pipelined is not None]

    def written(self) -> Written:
        """The whole kernel."""
        against = self._objection()
        if against is not None:
            return self._plain(*against)
        before, rest, rebuild = self._split(self.whole.body)
        try:
            before, rest = counted_before(self.places, before, rest)
            slice_ = Slice(self.places, set(before))
            for op in (*loads_wait_for_launches(self.places), *(op for op in self.whole.walk() if op.draw is not None)):
                slice_.op(op)
        except NotSliced as problem:
            remedy = "let where the kernel goes follow from arguments, block indices and indices of loops"
            return self._plain(f"a producer can't follow the kernel: {problem}", remedy)
        for loop in self.loops:
            check_breaks(loop, self.places, slice_)
        staged = [item for loop in self.loops for item in self.stager.loads_of(loop, slice_)]
        staged = self._without_indices(staged, slice_)
        self.notes += self.stager.notes
        if not staged:
            return self._plain()
        operands = Operands(self.places, staged, self.arch.has((Feature.TCGEN05,)) and self.refusals.multiplier)
        kept = Kept(self.places, self.loops, self.taken)
        alone = {loop for loop in self.loops if loop.pipelined is not None and not loop.pipelined.producer}
        self._fetch_kept(kept, alone, slice_)
        products = Products(self.places, operands, kept, self.arch, self.refusals.products)
        overlapping = self.loops if self.refusals.overlap else []
        overlaps = find_overlaps(operands, products, overlapping, alone, self.taken)
        issued = self.issued = self._issued(products, operands, before)
        if any(op.scaled_product is not None for op in products.found):
            raise NotIssued
        groups = self._groups(staged)
        stay = [*kept.rings.values()]
        others = sum(buffer.nbytes for buffer in kept.buffers.values())
        others += sum(BARRIER_BYTES + _rounded(ring.loads[0].nbytes) for ring in stay)
        overlaps, leaving, stages = self._all_room(groups, others, overlaps)
        for item in leaving:
            name = fresh_name(f"{item.view.array.name}_out", self.taken)
            item.buffer = SharedBuffer(name, item.shape, item.view.dtype, item.op.loc)
        rings = [self._ring(group, stages[loop]) for loop, group in groups]
        for form in issued.forms.values():
            form.place_scales(rings, self.taken)
        shared = self._shared(staged)
        own = [ring for ring in rings if ring.loads[0].loop in alone]
        fetched = [ring for ring in rings if ring not in own]
        start, end = LoopCode(self.loops[0].loc), LoopCode(self.loops[0].loc)
        begin(own, start, fills=True)
        taken = [ring for ring in rings if ring.loads[0].loop not in issued.forms]
        begin([*taken, *stay], start, fills=False)
        for form in issued.forms.values():
            form.begin_taking(start)
        fetchers = self._fetchers(alone, own, slice_, shared, start, end)
        consumer = Consumer(self.places, taken, operands, products, overlaps, leaving, fetchers, issued)
        computing = Block((*start.ops, *consumer.block(rest).ops, *end.ops))
        if fetched or stay:
            fetching = self._fetching([*fetched, *stay], slice_, shared, rest)
            roles, warps = self._roles(fetching, computing, issued.role(self.places, rings, rest), fetched)
        else:
            roles, warps = list(computing.ops), self.whole.warps
        self._say(rings, shared)
        notes = decided((*self.whole.notes, *self.notes), [*overlaps.decisions(products), *issued.decisions])
        made = dataclasses.replace(
            self.whole,
            warps=warps,
            body=rebuild(Block((*before, *roles))),
            buffers=(
                *self.whole.buffers, *(buffer for ring in (*rings, *stay) for buffer in ring.buffers.values()),
                *kept.buffers.values(), *overlaps.buffers, *(item.buffer for item in leaving if item.buffer is not None),
                *issued.buffers,
            ),
            barriers=(
                *self.whole.barriers, *(array for ring in (*rings, *stay) for array in (ring.full, ring.empty)),
                *issued.barriers, *self.met,
            ),
            notes=(*notes, *map(_leaving_note, leaving)),
        )
        return self._with_choices(made, [*staged, *(ring.loads[0] for ring in stay)], leaving, overlaps, rings, stages)

    def _with_choices(
        self, made: Function, staged: list[Staged], leaving: list[Leaving], overlaps: Overlaps, rings: list[Ring],
        stages: dict[For, int],
    ) -> Written:
        """The kernel, with what was chosen for it that a target may refuse."""
        chosen = [stages[loop] for loop in stages if loop.pipelined is not None and loop.pipelined.stages is None]
        choices = Choices(
            frozenset(item.load.loc for item in staged if item.path is Transport.COPY),
            frozenset(item.op.loc for item in leaving),
            overlaps.products,
        )
        each = sum(
            ring.nbytes for ring in rings
            if ring.loads[0].loop.pipelined is not None and ring.loads[0].loop.pipelined.stages is None
        )
        return Written(
            made, max(chosen, default=0), each, choices, grown=self.grown, multiplied=bool(self.issued.forms)
        )

    def _issued(self, products: Products, operands: Operands, before: list[Op]) -> Issued:
        """What a warp of its own has to do that gives the tensor cores their work."""
        slice_ = Slice(self.places, set(before))
        for op in (*loads_wait_for_launches(self.places), *(op for op in self.whole.walk() if op.draw is not None)):
            slice_.op(op)
        loops = self.loops if self.refusals.multiplier else []
        return find_issued(products, operands, loops, slice_, self.arch, self.taken)

    def _fetch_kept(self, kept: Kept, apart: set[For], slice_: Slice) -> None:
        """Tiles that stay over loops come by the copy engine, where it takes them and the producer can know their place."""
        for item in kept.candidates(apart):
            load = item.load
            if self.stager.copy_objection(load) is None and self.stager.placed(load, item.loop, slice_) is None:
                kept.fetch(item, self._ring([item], 1))
                said = "staged by the copy engine, once for all steps; products read it there"
                self.notes.append(Note(f"px.load of {item.view.array.name}: {said}", load.loc))

    def _all_room(
        self, groups: list[tuple[For, list[Staged]]], others: int, overlaps: Overlaps
    ) -> tuple[Overlaps, list[Leaving], dict[For, int]]:
        """Room for the operands that steps compute, if there is any, and for all else."""
        most = WHOLE_BYTES if overlaps.rotations else MOST_BYTES
        try:
            return overlaps, *self._room(groups, others + sum(buffer.nbytes for buffer in overlaps.buffers), most)
        except Error:
            if not overlaps.buffers:
                raise
            return overlaps.without_buffers(), *self._room(groups, others, most)

    def _room(
        self, groups: list[tuple[For, list[Staged]]], others: int, most: int
    ) -> tuple[list[Leaving], dict[For, int]]:
        """The stores that leave through shared memory, and the stages of each loop: the rings come first.

        Results leave as a whole, not in parts that wait for each other, where steps are long and two stages suffice them.
        What the rings leave over makes the parts of a result larger, and so fewer.
        """
        problem: Error | None = None
        for leaving in (*(self._leaving(size) for size in dict.fromkeys((most, MOST_BYTES))), []):
            try:
                stages, left = self._stages(groups, others + sum(item.nbytes for item in leaving))
            except Error as found:
                problem = found
                continue
            if not self.refusals.larger:
                return leaving, stages
            grown = [item.with_room(item.nbytes + left // len(leaving) // STAGE_GRAIN * STAGE_GRAIN) for item in leaving]
            self.grown = grown != leaving
            return grown, stages
        assert problem is not None
        raise problem

    def _leaving(self, most: int) -> list[Leaving]:
        """The stores that leave through shared memory."""
        whole = self.arch.has((Feature.TCGEN05,))
        found = find_leaving(
            self.places, self.stager.divisibility, find_signs(self.whole), self.loops, WHOLE_BYTES if whole else most
        )
        widths = self.issued.widths
        made = [item.made_in_parts(widths[item.op]) if item.op in widths else item for item in found]
        found = [item for item in made if item is not None and (not whole or item.fixed or item.parts == 1)]
        return [item for item in found if item.op.loc not in self.refusals.stores]

    def _fetching(self, rings: list[Ring], slice_: Slice, shared: dict[Staged, Shared], rest: Block) -> Block:
        """What the producer runs."""
        producer = Producer(rings, slice_.ops, shared, _warps_of(rings), self.issued.paired)
        start, end = LoopCode(self.loops[0].loc), LoopCode(self.loops[0].loc)
        producer.name_masks(start)
        begin(rings, start, fills=True)
        if not self.whole.exit_sync:
            producer.drain(end, rings)
        return Block((*start.ops, *producer.block(rest).ops, *end.ops))

    def _fetchers(
        self, loops: set[For], rings: list[Ring], slice_: Slice, shared: dict[Staged, Shared], start: LoopCode, end: LoopCode
    ) -> dict[For, Fetch]:
        """How each of the loops without a producer fetches a step; `start` and `end` are those of the role."""
        warps = self.whole.warps
        together = {item: shared[item] for ring in rings for item in ring.loads if item in shared}
        named = Producer(rings, slice_.ops, together, warps)
        named.name_masks(start)
        if not self.whole.exit_sync:
            named.drain(end, rings)

        def fetch(loop: For, index: Value) -> list[Op]:
            mine = Producer([ring for ring in rings if ring.loads[0].loop is loop], slice_.ops, shared, warps)
            mine.masks = named.masks
            mine.clones.known[loop.index] = index
            return mine.one_step(loop)

        return {loop: partial(fetch, loop) for loop in loops if any(ring.loads[0].loop is loop for ring in rings)}

    def _without_indices(self, staged: list[Staged], slice_: Slice) -> list[Staged]:
        """The loads that go through rings: not those that say where others read, which the producer loads itself."""
        for item in staged:
            if item.load in slice_.ops:
                said = f"px.load of {item.view.array.name}: read by the producer, which needs it for a place"
                self.notes.append(Note(said, item.load.loc))
        return [item for item in staged if item.load not in slice_.ops]

    def _plain(self, why: str = "", remedy: str = "") -> Written:
        """The kernel as it is written, with a word on why."""
        plain = leave_plain(self.whole, why, remedy) if why else without_pipelining(self.whole)
        plain = dataclasses.replace(plain, notes=(*plain.notes, *self.notes))
        return Written(plain, 0, 0, Choices(), staged=False)

    def _objection(self) -> tuple[str, str] | None:
        """What of a kernel keeps a producer out, if anything does, and the remedy."""
        for op in self.whole.walk():
            if isinstance(op, Role | Roles):
                return f"the kernel has roles of its own ({op.loc.short})", "write the ring in them too, as a px.pipe"
            if any(meeting.span not in (Span.AGENT, Span.CLUSTER) for meeting in op.effects().rendezvous):
                why = f"{op.call} at {op.loc.short} brings all warps together"
                return why, "write the roles and the ring by hand, with px.warps and px.pipe"
        return unequal_meeting(self.places)

    # What stands before the roles.

    def _split(self, body: Block):  # type: ignore[no-untyped-def]
        """Code that all roles can use, the rest, and how the kernel's body is put together again."""
        if len(body.ops) == 1 and isinstance(scope := body.ops[0], Scope):
            before, rest, rebuild = self._split(scope.body)
            return before, rest, lambda made: Block((dataclasses.replace(scope, body=rebuild(made)),))
        count = 0
        while count < len(body.ops) and _is_for_all(body.ops[count]):
            count += 1
        return list(body.ops[:count]), Block(body.ops[count:]), lambda made: made

    # Rings.

    def _groups(self, staged: list[Staged]) -> list[tuple[For, list[Staged]]]:
        """Loads that go through a ring together: of one block, reached alike, by one path, and wanted at the same time."""
        groups: dict[Hashable, list[Staged]] = {}
        for item in staged:
            wanted = item.products[0] if item.products else ("registers", self._segment(item))
            before = item.home.ops[: self.places.index[item.load]]
            ways_out = sum(1 for op in before for _ in self.places.exits_from(op))
            groups.setdefault((item.home, ways_out, item.path, wanted), []).append(item)
        return [(group[0].loop, group) for group in groups.values()]

    def _segment(self, item: Staged) -> int:
        """The part of its block that a tile is wanted in: products and inner loops are the borders."""
        return sum(
            1 for op in item.home.ops[: item.waits_at]
            if op.product is not None or any(True for _ in op.blocks()) or op.tile_store is not None
        )

    def _stages(self, groups: list[tuple[For, list[Staged]]], others: int) -> tuple[dict[For, int], int]:
        """How many stages the rings of each loop have, and the bytes that they leave over."""
        each: dict[For, int] = {}
        for loop, group in groups:
            each[loop] = each.get(loop, 0) + BARRIER_BYTES + sum(_rounded(item.nbytes) for item in group)
        room = budget(self.whole, self.arch) - others
        room -= sum(_rounded(buffer.nbytes) for buffer in self.whole.shared_buffers if buffer.reuse is None)
        given = {loop: loop.pipelined.stages for loop in each if loop.pipelined is not None}
        room -= sum(each[loop] * count for loop, count in given.items() if count is not None)
        unknown = [loop for loop in each if given[loop] is None]
        share = sum(each[loop] for loop in unknown)
        fits = min(self.most, room // share) if share else LEAST_STAGES
        for form in self.issued.forms.values():
            fits = min(fits, form.most_stages(self.whole.ctas_per_sm) or fits)
        if fits < LEAST_STAGES or (not share and room < 0):
            raise self._too_large(each, given)
        return {loop: count or fits for loop, count in given.items()}, room - fits * share

    def _too_large(self, each: dict[For, int], given: dict[For, int | None]) -> Error:
        rows = [
            f"{loop.loc.short}: {given[loop] or LEAST_STAGES} stages of {nbytes:,} bytes" for loop, nbytes in each.items()
        ]
        return Error(
            f"the rings of px.pipelined do not fit: a CTA has {budget(self.whole, self.arch):,} bytes of shared memory",
            location=self.loops[0].loc,
            details="\n".join(rows),
            remedy="load smaller tiles, give fewer stages=, or take px.pipelined off the loops that need it least",
        )

    def _ring(self, group: list[Staged], stages: int) -> Ring:
        names = "_".join(dict.fromkeys(item.view.array.name for item in group))
        loc = group[0].load.loc
        buffers = {
            item: SharedBuffer(
                fresh_name(f"{item.view.array.name}_ring", self.taken), (stages, *item.shape), item.view.dtype, item.load.loc
            )
            for item in group
        }
        full, empty = (
            BarrierArray(fresh_name(f"{names}_{end}", self.taken), stages, loc=loc) for end in ("full", "empty")
        )
        return Ring(tuple(group), stages, full, empty, buffers)

    def _shared(self, staged: list[Staged]) -> dict[Staged, Shared]:
        """The loads that CTAs of the cluster fetch together."""
        found: dict[Staged, Shared] = {}
        if self.whole.cluster_size == 1:
            return found
        values = AcrossRanks(self.whole, self.places.around)
        for item in staged:
            if item in self.issued.paired or item.loop.pipelined is None or not item.loop.pipelined.multicast:
                continue
            answer = sharing(self.places, values, item)
            if isinstance(answer, Shared):
                found[item] = answer
            elif answer:
                self.notes.append(
                    Note(f"px.load of {item.view.array.name}: each CTA fetches its own: {answer}", item.load.loc)
                )
        return found

    # Roles.

    def _roles(
        self, fetching: Block, computing: Block, multiplying: Block | None, rings: list[Ring]
    ) -> tuple[list[Op], int]:
        warps, loc = self.whole.warps, self.loops[0].loc
        computing = self._meeting(computing)
        count = _warps_of(rings)
        by_threads = count > 1
        first = -(-warps // WARPGROUP) * WARPGROUP
        divides = any(self.arch.has((feature,)) for feature in (Feature.WGMMA, Feature.TCGEN05)) and multiplying is None
        regs = _registers(first, warps, self.whole.ctas_per_sm, by_threads) if divides else None
        if regs is None:
            first = first if by_threads else warps
            total = first + count
            few, many = None, None
        else:
            total = first + WARPGROUP
            few, many = regs
        roles: list[Op] = [
            Role("producer", first, count, few, fetching, loc=loc), Role("consumer", 0, warps, many, computing, loc=loc),
        ]
        also = ""
        if multiplying is not None:
            roles.insert(1, Role("multiplier", total, 1, None, multiplying, loc=loc))
            total += 1
            also = ", 1 gives the tensor cores their work"
        divided = "" if regs is None else f", with {few} registers a thread and {many} for the others"
        self.notes.append(
            Note(
                f"px.pipelined: {count} warp{'s' * (count > 1)} more fetch{'es' * (count == 1)}{also} "
                f"({total} warps in all{divided})", loc,
            )
        )
        return roles, total

    def _meeting(self, computing: Block) -> Block:
        """Replaces the cluster's barrier, for the computing role, by an mbarrier that fetching warps do not join."""
        name = fresh_name("cluster_barrier", self.taken)
        computing, array, said = barrier_of_warps(computing, self.whole.cluster_size, name)
        self.notes += said
        if array is not None:
            self.met.append(array)
        return computing

    # Notes.

    def _say(self, rings: list[Ring], shared: dict[Staged, Shared]) -> None:
        for ring in rings:
            for item in ring.loads:
                why = f" ({item.objection[0]})" if item.objection else ""
                if item.held is not None:
                    why += ", each CTA of a pair a half"
                if item in shared:
                    why += f", each of {shared[item].count} CTAs a share, sent to all of them"
                stay = "products read it there" if item.products else "registers load it from there"
                staged = f"staged {item.path.value}{why}, in a ring of {ring.stages} stages; {stay}"
                faster = Faster(item.objection[1]) if item.objection else None
                self.notes.append(Note(f"px.load of {item.view.array.name}: {staged}", item.load.loc, faster=faster))


def _leaving_note(item: Leaving) -> Note:
    """How a result leaves."""
    how = f"in {item.parts} parts " if item.parts > 1 else ""
    way = f"leaves {how}through {item.nbytes} bytes of shared memory, while the next tile is computed"
    return Note(f"px.store of {item.view.array.name}: {way}", item.op.loc)


def _is_for_all(op: Op) -> bool:
    """Whether an instruction may stand before the roles: arithmetic on scalars, and what launches wait for."""
    if isinstance(op, Assign | ReadVar) or any(True for _ in op.blocks()):
        return False
    effects = op.effects()
    if effects.launches:
        return True
    result = op.defines
    return effects.is_pure and result is not None and isinstance(result.type, ScalarType)


def _registers(first: int, warps: int, ctas_per_sm: int, by_threads: bool) -> tuple[int, int] | None:
    """Registers a thread for the producer and for the others, where dividing them gives the others more."""
    if warps % WARPGROUP:
        return None
    total = first + WARPGROUP
    entry = entry_registers(total, ctas_per_sm)
    if entry >= 232:
        return None
    few = 88 if by_threads else 40 if entry > 128 else 24
    many = min(240, (entry * total - few * WARPGROUP) // warps // 8 * 8)
    return (few, many) if many > entry else None


def _warps_of(rings: list[Ring]) -> int:
    """How many warps the producer of these rings has: one begins copies of the engine, more load and store."""
    return WARPGROUP if any(ring.path is Transport.THREADS for ring in rings) else 1


def _rounded(nbytes: int) -> int:
    return -(-nbytes // 128) * 128
