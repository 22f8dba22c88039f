"""Plans to move a tile from one register layout to another, and the choice among them.

The cheapest form that is right wins: nothing, other register names, shuffles within a warp, shared memory.
Each plan carries the reason for the choice, and the IR shows it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from phalanx.frozen import frozen
from phalanx.layouts.bits import Span, parity, set_bits, xor_combination
from phalanx.layouts.expressions import linear_expression
from phalanx.layouts.registers import LANES, RegisterLayout
from phalanx.layouts.scratch import ThroughShared, plan_through_shared

LANE_BITS = 5
MAX_CHOICES = 4  # registers a shuffle may select from; beyond that shared memory is simpler and faster
# Two barriers and the latency of a store and a load, in the time of about so many shuffles.
_SHARED_OVERHEAD = 24


@frozen
class Identity:
    """Both layouts have every element in the same slot of the same thread."""

    reason: str = "the layouts agree"

    def __str__(self) -> str:
        return f"no conversion: {self.reason}"


@frozen
class RegisterPermute:
    """Each thread has what it needs: destination slot k is source slot `map[k]`."""

    map: tuple[int, ...]
    reason: str = "only the order of registers differs"

    def __str__(self) -> str:
        return f"register permutation: {self.reason}"


@frozen
class ShuffleStep:
    """One destination slot: it takes slot `choices[c]` of the lane that the plan's maps give."""

    destination: int
    choices: tuple[int, ...]
    lane_constant: int


@frozen
class Shuffle:
    """Elements stay in their warp. For every step,

    source lane = XOR of `lane_map` over the set bits of the lane, of `warp_map` over those of the warp, and
    the step's constant; the choice is the number whose bit j is the parity of (lane & mask) and (warp & mask)
    of `selectors[j]`. With `select_at == "source"` each lane first selects by *its own* lane number the
    register it gives away, and one shuffle delivers; with `"destination"` one shuffle per choice is made and
    the receiving lane selects. Where no lane moves (`needs_shuffle`), the selection alone is left.
    """

    steps: tuple[ShuffleStep, ...]
    lane_map: tuple[int, ...]
    warp_map: tuple[int, ...]
    selectors: tuple[tuple[int, int], ...]
    select_at: Literal["source", "destination"]
    reason: str

    def needs_shuffle(self, step: ShuffleStep) -> bool:
        """Whether this step's source lane differs from the lane itself."""
        identity = self.lane_map == tuple(1 << b for b in range(LANE_BITS)) and not any(self.warp_map)
        return not identity or step.lane_constant != 0

    def source_lane(self, step: ShuffleStep, lane: int, warp: int) -> int:
        """The lane that a lane of a warp reads from in this step."""
        return (
            xor_combination(self.lane_map, lane) ^ xor_combination(self.warp_map, warp) ^ step.lane_constant
        )

    def source_lane_expression(self, step: ShuffleStep, lane: str = "lane", warp: str = "warp") -> str:
        """The source lane as text for C++ or Python."""
        return linear_expression([(lane, self.lane_map), (warp, self.warp_map)], step.lane_constant)

    def choice(self, lane: int, warp: int) -> int:
        """The number of the register that a lane of a warp selects."""
        return sum(
            (parity(lane & lane_mask) ^ parity(warp & warp_mask)) << bit
            for bit, (lane_mask, warp_mask) in enumerate(self.selectors)
        )

    @property
    def shuffles(self) -> int:
        """Shuffle instructions per thread (of 4 bytes)."""
        each = (1 if self.select_at == "source" else len(set(step.choices)) for step in self.steps)
        return sum(n for n, step in zip(each, self.steps, strict=True) if self.needs_shuffle(step))

    def __str__(self) -> str:
        return f"{self.shuffles} warp shuffles: {self.reason}"


Conversion = Identity | RegisterPermute | Shuffle | ThroughShared


def plan_conversion(
    source: RegisterLayout, destination: RegisterLayout, itemsize: int, max_shared_bytes: int | None = None
) -> Conversion:
    """How a tile gets from one layout to another, over the same warps.

    The shapes are equal, or have the same number of elements: then it is a row-major reshape. With
    `max_shared_bytes` a move through shared memory is done in as many rounds as that takes.

    Example: `str(plan_conversion(wgmma_accumulator(64, 64, 4), blocked((64, 64), 4, vector=4), itemsize=4))`.
    """
    return _plan(source, destination, itemsize, max_shared_bytes)


@lru_cache(maxsize=1024)
def _plan(
    source: RegisterLayout, destination: RegisterLayout, itemsize: int, max_shared_bytes: int | None
) -> Conversion:
    if source.warps != destination.warps:
        raise ValueError(f"a conversion between {source.warps} and {destination.warps} warps is not possible")
    if source.size != destination.size:
        raise ValueError(f"tiles of shape {source.shape} and {destination.shape} have different sizes")
    if source == destination:
        return Identity()
    if source.shape != destination.shape:
        try:
            source = source.reshape(destination.shape)
        except ValueError:
            reason = f"the reshape from {source.shape} to {destination.shape} is not linear in the index bits"
            return plan_through_shared(source, destination, itemsize, reason, max_shared_bytes)
        return _plan(source, destination, itemsize, max_shared_bytes)
    moves = _solve(source, destination)
    if moves is None:
        return plan_through_shared(
            source, destination, itemsize, "elements move between warps", max_shared_bytes
        )
    if moves.stays_in_thread:
        slots = source.slots
        order = tuple(
            slots[xor_combination(moves.register_to_register, r)] for r in destination.live_registers()
        )
        if order == tuple(range(source.num_registers)):
            return Identity("every thread holds the same elements in the same slots")
        return RegisterPermute(order)
    shuffle = _shuffle(source, destination, moves)
    if shuffle is None:
        reason = f"a shuffle would select among more than {MAX_CHOICES} registers"
        return plan_through_shared(source, destination, itemsize, reason, max_shared_bytes)
    shared = plan_through_shared(source, destination, itemsize, "", max_shared_bytes)
    selects = sum(len(set(step.choices)) - 1 for step in shuffle.steps)
    shuffle_cost = shuffle.shuffles * max(1, itemsize // 4) + selects // 2
    shared_cost = shared.wavefronts + _SHARED_OVERHEAD * len(shared.rounds)
    if shuffle_cost <= shared_cost:
        return shuffle
    reason = (
        f"{shuffle.shuffles} shuffles would take longer than {shared.wavefronts} wavefronts of shared memory"
    )
    return plan_through_shared(source, destination, itemsize, reason, max_shared_bytes)


@frozen
class _Moves:
    """Source register and source lane as linear functions of destination register, lane and warp bits."""

    register_to_register: tuple[int, ...]
    lane_to_register: tuple[int, ...]
    warp_to_register: tuple[int, ...]
    register_to_lane: tuple[int, ...]
    lane_to_lane: tuple[int, ...]
    warp_to_lane: tuple[int, ...]

    @property
    def stays_in_lane(self) -> bool:
        identity = tuple(1 << b for b in range(LANE_BITS))
        return self.lane_to_lane == identity and not any(self.register_to_lane) and not any(self.warp_to_lane)

    @property
    def stays_in_thread(self) -> bool:
        return self.stays_in_lane and not any(self.lane_to_register) and not any(self.warp_to_register)


def _solve(source: RegisterLayout, destination: RegisterLayout) -> _Moves | None:
    """Find, for every destination position, a source position in the same warp; None if there is none.

    The source's own replication leaves a choice: stay in the lane where possible.
    """
    have, want = source.linear.flat_bases, destination.linear.flat_bases
    registers = Span(have["register"])
    everything = Span((*have["register"], *have["lane"]))
    register_bits = len(have["register"])

    def split(mask: int) -> tuple[int, int]:
        return mask & ((1 << register_bits) - 1), mask >> register_bits

    found: dict[str, list[tuple[int, int]]] = {"register": [], "lane": [], "warp": []}
    for name in found:
        for bit, target in enumerate(want[name]):
            # Where the same thread bit leads in the source.
            own = have[name][bit] if name != "register" else 0
            mask = registers.express(target ^ own)
            if mask is not None:
                found[name].append((mask, 1 << bit if name == "lane" else 0))
                continue
            # The warp must stay the same, so its own contribution always counts; a lane may be left behind.
            mask = everything.express(target ^ (own if name == "warp" else 0))
            if mask is None:
                return None
            found[name].append(split(mask))
    to_register = {name: tuple(r for r, _ in pairs) for name, pairs in found.items()}
    to_lane = {name: tuple(lane for _, lane in pairs) for name, pairs in found.items()}
    return _Moves(
        to_register["register"],
        to_register["lane"],
        to_register["warp"],
        to_lane["register"],
        to_lane["lane"],
        to_lane["warp"],
    )


def _shuffle(source: RegisterLayout, destination: RegisterLayout, moves: _Moves) -> Shuffle | None:
    """The shuffle plan of moves within warps; None if it selects among too many registers."""
    lanes = Span(moves.lane_to_lane)
    at_source = lanes.rank == LANE_BITS
    lane_columns, warp_columns = moves.lane_to_register, moves.warp_to_register
    if at_source:
        # Every lane gives to exactly one lane, so it can select itself, by the inverse of the lane map: the
        # lane served by s is inverse(s ^ constant ^ warp part).
        served = tuple(_expressed(lanes, 1 << bit) for bit in range(LANE_BITS))
        lane_columns = tuple(xor_combination(moves.lane_to_register, lane) for lane in served)
        warp_columns = tuple(
            register ^ xor_combination(lane_columns, lane)
            for register, lane in zip(moves.warp_to_register, moves.warp_to_lane, strict=True)
        )
    columns = (*lane_columns, *warp_columns)
    span = Span(columns)
    if 1 << span.rank > MAX_CHOICES:
        return None
    # Column c is an XOR of independent columns; selector j collects the thread bits whose column has part j.
    masks = [0] * span.rank
    for position, column in enumerate(columns):
        for number in set_bits(_expressed(span, column)):
            masks[span.independent.index(number)] |= 1 << position
    selectors = tuple((mask & (LANES - 1), mask >> LANE_BITS) for mask in masks)
    directions = tuple(columns[number] for number in span.independent)

    steps = []
    for slot, register in enumerate(destination.live_registers()):
        lane_constant = xor_combination(moves.register_to_lane, register)
        base = xor_combination(moves.register_to_register, register)
        if at_source:
            base ^= xor_combination(lane_columns, lane_constant)
        options = [source.slots.get(base ^ xor_combination(directions, c)) for c in range(1 << span.rank)]
        alive = next(option for option in options if option is not None)  # dead options are never used
        steps.append(ShuffleStep(slot, tuple(alive if o is None else o for o in options), lane_constant))
    if moves.stays_in_lane:
        reason = "each thread selects among its own registers"
    else:
        reason = "elements stay in their warp"
    return Shuffle(
        tuple(steps),
        moves.lane_to_lane,
        moves.warp_to_lane,
        selectors,
        "source" if at_source else "destination",
        reason,
    )


def _expressed(span: Span, vector: int) -> int:
    mask = span.express(vector)
    assert mask is not None
    return mask
