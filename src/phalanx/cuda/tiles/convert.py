"""Tiles that change their register layout (or shape): by other names, by shuffles, through scratch memory."""

from __future__ import annotations

from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.claim import claim_scratch
from phalanx.cuda.tiles.coordinates import owner_conditions
from phalanx.cuda.tiles.index import SlotTexts, element, local, plus, slot_line, slot_loop
from phalanx.cuda.tiles.shared_access import Offsets
from phalanx.ir.core import Op
from phalanx.ir.values import Value
from phalanx.layouts.convert import Conversion, Identity, RegisterPermute, Shuffle, ShuffleStep, plan_conversion
from phalanx.layouts.registers import RegisterLayout
from phalanx.layouts.scratch import Round, ThroughShared

MAX_SCRATCH = 32768
"""Bytes of scratch memory that a conversion may use; larger tiles move in rounds."""


def conversion(source: RegisterLayout, destination: RegisterLayout, itemsize: int) -> Conversion:
    """The plan by which a tile gets from one layout (and shape) to another."""
    same_shape = source.shape == destination.shape
    return plan_conversion(source, destination, itemsize, MAX_SCRATCH if same_shape else None)


def conversion_scratch_bytes(source: RegisterLayout, destination: RegisterLayout, itemsize: int) -> int:
    """Scratch bytes of a conversion."""
    plan = conversion(source, destination, itemsize)
    return plan.nbytes if isinstance(plan, ThroughShared) else 0


def how(source: RegisterLayout, destination: RegisterLayout, itemsize: int) -> str:
    """One line for the IR: by which means, and why."""
    plan = conversion(source, destination, itemsize)
    if isinstance(plan, Identity | RegisterPermute):
        return f"registers ({plan.reason})"
    if isinstance(plan, Shuffle):
        return f"shuffle ({plan.shuffles} shuffles; {plan.reason})"
    return f"shared: {plan.nbytes} bytes, {2 * len(plan.rounds)} barriers ({plan.reason})"


def emit_conversion(w: Writer, op: Op, x: Value, result: Value) -> None:
    """Writes the tile `x` in the layout and shape of `result`."""
    source, destination = w.plan.layouts[x], w.plan.layouts[result]
    itemsize = scalar_dtype(x).itemsize
    plan = conversion(source, destination, itemsize)
    all_set = not isinstance(plan, ThroughShared) or bool(destination.alive.all())
    target, name = w.declare_tile(result, all_set=all_set), w.name(x)
    var = local(w, "i")
    if isinstance(plan, Identity):
        slot_line(w, destination.num_registers, f"{target}[{var}] = {name}[{var}];", var)
    elif isinstance(plan, RegisterPermute):
        with slot_loop(w, destination.num_registers) as i:
            w.line(f"{element(target, i)} = {element(name, SlotTexts(w).at(plan.map, i, hint='slot'))};")
    elif isinstance(plan, Shuffle):
        _shuffle(w, plan, name, target)
    else:
        _through_shared(w, op, plan, x, result)


# ---------------------------------------------------------------------- shuffles


def _shuffle(w: Writer, plan: Shuffle, name: str, target: str) -> None:
    with w.block():
        choices = []
        for bit, (lane_mask, warp_mask) in enumerate(plan.selectors):
            parts = [_parity(name, mask) for name, mask in ((w.lane, lane_mask), (w.warp, warp_mask)) if mask]
            choice = local(w, f"pick{bit}")
            w.line(f"const bool {choice} = ({' ^ '.join(parts) or '0'}) & 1;")
            choices.append(choice)
        constants = [step.lane_constant for step in plan.steps]
        lane = local(w, "from")
        w.line(f"const int {lane} = {plan.source_lane_expression(ShuffleStep(0, (), 0), w.lane, w.warp)};")
        with slot_loop(w, len(plan.steps), scope=True) as i:
            texts = SlotTexts(w)
            options = [
                element(name, texts.at([step.choices[c] for step in plan.steps], i, hint=f"option{c}"))
                for c in range(1 << len(choices))
            ]
            constant = texts.at(constants, i, hint="flip")
            origin = lane if constant == "0" else f"{lane} ^ {constant}"
            target_slot = texts.at([step.destination for step in plan.steps], i, hint="slot")
            if not any(plan.needs_shuffle(step) for step in plan.steps):
                text = _select(options, choices)
            elif plan.select_at == "source":
                text = f"{w.use('shuffle')}({_select(options, choices)}, {origin})"
            else:
                # All lanes take part in every shuffle; each keeps the one it wants.
                received = []
                for c, option in enumerate(options):
                    received.append(local(w, f"got{c}"))
                    w.line(f"const auto {received[c]} = {w.use('shuffle')}({option}, {origin});")
                text = _select(received, choices)
            w.line(f"{element(target, target_slot)} = {text};")


def _parity(name: str, mask: int) -> str:
    """A number whose lowest bit is the parity of some bits of a variable."""
    single = mask & (mask - 1) == 0
    return f"({name} >> {mask.bit_length() - 1})" if single else f"__popc({name} & {mask})"


def _select(options: list[str], choices: list[str]) -> str:
    """The option whose number has the choices as its bits."""
    if not choices:
        return options[0]
    half = len(options) // 2
    low, high = _select(options[:half], choices[:-1]), _select(options[half:], choices[:-1])
    return low if low == high else f"({choices[-1]} ? {high} : {low})"


# ---------------------------------------------------------------------- shared memory


def _through_shared(w: Writer, op: Op, plan: ThroughShared, x: Value, result: Value) -> None:
    source, destination = w.plan.layouts[x], w.plan.layouts[result]
    ctype = w.ctype(scalar_dtype(x))
    with w.block():
        scratch = local(w, "scratch")
        w.line(f"{ctype}* const {scratch} = reinterpret_cast<{ctype}*>({w.scratch(op)});")
        for number, part in enumerate(plan.rounds):
            if number:
                w.sync_agent("the next part")
            else:
                claim_scratch(w, op)
            owner = owner_conditions(w, source)
            with w.block(f"if ({' && '.join(owner)})" if owner else ""):
                _move(w, plan, part, source, scratch, w.name(x), store=True)
            w.sync_agent()
            with w.block():
                _move(w, plan, part, destination, scratch, w.name(result), store=False)


def _move(
    w: Writer, plan: ThroughShared, part: Round, layout: RegisterLayout, scratch: str, name: str, *, store: bool
) -> None:
    """Writes one round's part of a tile to scratch memory, or reads it."""
    shared = plan.write if store else plan.read
    slots = part.write_slots if store else part.read_slots
    width = plan.write_vector if store else plan.read_vector
    reshapes = plan.write.shape != plan.read.shape
    axes = tuple(range(shared.rank - layout.rank, shared.rank)) if reshapes else plan.axes
    start = part.origin[plan.round_axis] if len(plan.rounds) > 1 else 0
    fold = (plan.round_axis, plan.round_extent) if len(plan.rounds) > 1 else None
    offsets = Offsets(w, layout, shared, axes, (0,) * shared.rank, slots=slots, fold=fold)
    base = plus(scratch, offsets.declare())
    if not base.isidentifier():
        pointer = local(w, "p")
        w.line(f"auto* const {pointer} = {base};")
        base = pointer
    with slot_loop(w, len(slots), width) as i:
        slot = SlotTexts(w).at(list(slots)[::width], i, width, "slot")
        conditions = offsets.coordinates.alive(i, width)
        if part.masked:
            at = offsets.coordinates.at(plan.round_axis, i, width)
            conditions += [f"{at} >= {start}"] if start else []
            conditions.append(f"{at} < {start + plan.round_extent}")
        place = plus(base, offsets.at(i, width))
        registers = plus(name, slot)
        if width == 1:
            text = f"*({place}) = {element(name, slot)};" if store else f"{element(name, slot)} = *({place});"
        elif store:
            text = f"{w.use('store_vector')}<{width}>({place}, {registers});"
        else:
            text = f"{w.use('load_vector')}<{width}>({registers}, {place});"
        w.line(f"if ({' && '.join(conditions)}) {text}" if conditions else text)
