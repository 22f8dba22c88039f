"""TMA copies in PTX: tensor copies through a descriptor, plain bulk copies with their edges, bulk groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise

from phalanx.cuda.plan import Box, CopyPath, CopyPlan
from phalanx.cuda.text.bulk import bulk_add
from phalanx.cuda.text.by_rank import mask_text, rank_of_cta
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.literals import bare, plus
from phalanx.cuda.text.prelude import Parameter, function_name, instruction
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.atomics import atomic
from phalanx.cuda.tiles.bounds import is_plain, start_text
from phalanx.cuda.tiles.elements import store_elements
from phalanx.cuda.tiles.index import atom
from phalanx.ir.effects import Span
from phalanx.ir.ops.tma import TmaCommit, TmaLoad, TmaPrefetch, TmaReduce, TmaStore, TmaWait, parted_hint
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import GlobalView, SharedView

# The L2 policies that `createpolicy.fractional` makes: for what comes first, and how many sixteenths less one have it.
POLICIES = {"evict_normal": 0x1000, "evict_first": 0x1200, "evict_last": 0x1400}
_MAP = ("const void*", "map")
_POLICY = ("unsigned long long", "policy")
LOOP_FROM = 9  # as many boxes in a row become a loop


def _coordinates(rank: int) -> tuple[tuple[Parameter, ...], str]:
    """The coordinates of a box, innermost first, as parameters and as PTX operands."""
    parameters = tuple(("int", f"c{axis}") for axis in range(rank))
    return parameters, ", ".join(f"{{c{axis}}}" for axis in range(rank))


@cache
def tensor_load(rank: int, multicast: bool, hint: bool, pair: bool = False, patches: bool = False) -> Helper:
    """Builds `cp.async.bulk.tensor` from global to shared memory, credited to a barrier; in a `pair`, to either CTA's.

    `patches` of a convolution have a pixel further on, by as many numbers as pixels have axes.
    """
    form = "im2col" if patches else "tile"
    mnemonic = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{form}.mbarrier::complete_tx::bytes"
    mnemonic += ".multicast::cluster" * multicast + ".cta_group::2" * pair + ".L2::cache_hint" * hint
    coordinates, places = _coordinates(rank)
    parameters = (("unsigned", "dst"), _MAP, *coordinates, ("unsigned", "bar"))
    operands = f"[{{dst}}], [{{map}}, {{{places}}}], [{{bar}}]"
    if patches:
        taps = tuple(f"o{axis}" for axis in range(rank - 2))
        parameters += tuple(("unsigned short", tap) for tap in taps)
        operands += ", {" + ", ".join(f"{{{tap}}}" for tap in taps) + "}"
    if multicast:
        parameters += (("unsigned short", "ctas"),)
        operands += ", {ctas}"
    if hint:
        parameters += (_POLICY,)
        operands += ", {policy}"
    name = f"cp_async_bulk_tensor_{rank}d_shared_global" + "_im2col" * patches
    name += "_multicast" * multicast + "_pair" * pair + "_cache_hint" * hint
    return instruction(mnemonic, operands, parameters, name=name)


@cache
def tensor_store(rank: int, reduction: str = "", hint: bool = False) -> Helper:
    """Builds `cp.async.bulk.tensor` from shared to global memory; with a reduction, `cp.reduce.async.bulk.tensor`."""
    verb = "cp.reduce" if reduction else "cp"
    fold = f".{reduction}" if reduction else ""
    mnemonic = f"{verb}.async.bulk.tensor.{rank}d.global.shared::cta{fold}.tile.bulk_group" + ".L2::cache_hint" * hint
    coordinates, places = _coordinates(rank)
    parameters = (_MAP, *coordinates, ("unsigned", "src"), *[_POLICY] * hint)
    name = function_name(f"{verb}.async.bulk.tensor.{rank}d.global.shared{fold}") + "_cache_hint" * hint
    return instruction(mnemonic, f"[{{map}}, {{{places}}}], [{{src}}]" + ", {policy}" * hint, parameters, name=name)


@cache
def tensor_prefetch(rank: int, hint: bool = False) -> Helper:
    """Builds `cp.async.bulk.prefetch.tensor`, into L2."""
    coordinates, places = _coordinates(rank)
    mnemonic = f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile" + ".L2::cache_hint" * hint
    parameters = (_MAP, *coordinates, *[_POLICY] * hint)
    return instruction(mnemonic, f"[{{map}}, {{{places}}}]" + ", {policy}" * hint, parameters)


@emits(TmaLoad)
def emit_load(w: Writer, op: TmaLoad) -> None:
    """Writes boxes of a descriptor, or one bulk copy, issued by the elected thread."""
    plan = w.plan.copies[op]
    bar = w.barrier_address(op.bar)
    policy = policy_of(op.cache)
    with w.elected():
        w.comment(f"{plan.path} copy: {plan.reason}")
        ctas = [] if op.multicast is None else [mask_text(w, op.multicast)]
        if plan.path is CopyPath.BULK:
            operands = [_shared_pointer(w, op.dst), *_run(w, op.src), bar, *ctas, *policy]
            _call(w, w.use(("bulk_multicast" if ctas else "bulk_load") + "_cache_hint" * bool(policy)), operands)
            return
        taps = [f"(unsigned short){atom(start_text(w, tap))}" for tap in reversed(op.src.taps)]
        load = w.use(tensor_load(plan.rank, bool(ctas), bool(policy), op.pair, bool(taps)))
        if op.pair:
            bar = leaders_barrier(w, bar)
        base = _shared_base(w, op.dst)
        _each_box(
            w, plan, op.src, base,
            lambda place, dst: w.line(f"{load}({', '.join([dst, *place, bar, *taps, *ctas, *policy])});"),
        )


def leaders_barrier(w: Writer, bar: str) -> str:
    """Names the same barrier in the even CTA of this one's pair."""
    return f"{w.use('mapa_shared_cluster')}({bar}, {rank_of_cta(w)} & ~1)"


def policy_of(hint: str | None) -> list[str]:
    """The last argument of an access with a cache hint."""
    if hint is None:
        return []
    name, parts = parted_hint(hint)
    share = 0 if name == "evict_normal" else parts - 1 << 4
    return [f"0x{POLICIES[name] | share:04x}000000000000ull"]


@emits(TmaStore)
def emit_store(w: Writer, op: TmaStore) -> None:
    """Writes boxes of a descriptor, or one bulk copy; ordinary stores where it may begin before the array."""
    plan = w.plan.copies[op]
    policy = policy_of(op.cache)
    with w.elected():
        w.comment(f"{plan.path} copy: {plan.reason}")
        if plan.path is CopyPath.BULK:
            store = w.use("bulk_store" + "_cache_hint" * bool(policy))
            _call(w, store, [*_run(w, op.dst), _shared_pointer(w, op.src), *policy])
            return
        if not plan.guarded:
            _store_boxes(w, plan, op.src, op.dst, "", policy)
            return
        # A store that begins before the array would fault; that rare one is done element by element.
        starts = " && ".join(f"{w.name(op.dst.offsets[axis])} >= 0" for axis in plan.guarded)
        with w.block(f"if ({starts})", footer="} else {"):
            _store_boxes(w, plan, op.src, op.dst, "", policy)
        with w.indent():
            store_elements(w, op.src, op.dst)
        w.line("}")


@emits(TmaReduce)
def emit_reduce(w: Writer, op: TmaReduce) -> None:
    """Writes boxes of a descriptor that are added, or otherwise combined, in global memory."""
    plan = w.plan.copies[op]
    with w.elected():
        policy = policy_of(op.cache)
        w.comment(f"{plan.path} copy: {plan.reason}")
        if plan.path is CopyPath.BULK:
            dtype = op.dst.dtype.name
            add = bulk_add(dtype, atomic("add", dtype, "global", Span.GPU, False), hint=bool(policy))
            _call(w, w.use(add), [*_run(w, op.dst), _shared_pointer(w, op.src), *policy])
            return
        _store_boxes(w, plan, op.src, op.dst, op.op, policy)


def _store_boxes(
    w: Writer, plan: CopyPlan, src: SharedView, dst: GlobalView, reduction: str, policy: list[str]
) -> None:
    helper = w.use(tensor_store(plan.rank, reduction, bool(policy)))
    base = _shared_base(w, src)
    _each_box(
        w, plan, dst, base, lambda place, address: w.line(f"{helper}({', '.join([*place, address, *policy])});"),
        stores=True,
    )


@emits(TmaPrefetch)
def emit_prefetch(w: Writer, op: TmaPrefetch) -> None:
    """Writes boxes of a descriptor, or one run of bytes, brought into L2."""
    plan = w.plan.copies[op]
    policy = policy_of(op.cache)
    with w.elected():
        w.comment(f"{plan.path} prefetch: {plan.reason}")
        if plan.path is CopyPath.BULK:
            _call(w, w.use("bulk_prefetch" + "_cache_hint" * bool(policy)), [*_run(w, op.src), *policy])
            return
        helper = w.use(tensor_prefetch(plan.rank, bool(policy)))
        _each_box(w, plan, op.src, "0", lambda place, _: w.line(f"{helper}({', '.join([*place, *policy])});"))


@emits(TmaCommit)
def emit_commit(w: Writer, op: TmaCommit) -> None:
    """Writes `cp.async.bulk.commit_group`, by the elected thread."""
    with w.elected():
        w.line(f"{w.use(instruction('cp.async.bulk.commit_group'))}();")


@emits(TmaWait)
def emit_wait(w: Writer, op: TmaWait) -> None:
    """Writes `cp.async.bulk.wait_group`, by the elected thread."""
    mnemonic = "cp.async.bulk.wait_group" + ".read" * op.read
    helper = instruction(f"{mnemonic} {op.n}", name=f"{function_name(mnemonic)}_{op.n}")
    with w.elected():
        w.line(f"{w.use(helper)}();")


# ---------------------------------------------------------------------- operands


def _each_box(
    w: Writer, plan: CopyPlan, view: GlobalView, base: str, emit: Callable[[list[str], str], None], *,
    stores: bool = False,
) -> None:
    """Calls `emit` per box with the descriptor and its coordinates, innermost first, and the shared address.

    Many boxes in an even row become a loop.
    """
    assert plan.tensor_map is not None
    tensor_map = f"&{w.tensor_map(plan.tensor_map)}"
    axes = tuple(reversed(range(plan.rank)))  # merged ones begin where the first of them does, at 0
    boxes = plan.boxes
    if len(boxes) >= LOOP_FROM and (step := _even_step(boxes)) is not None:
        with w.block(f"for (int px_i = 0; px_i < {len(boxes)}; ++px_i)"):
            place = [_plus(w, view.offsets[axis], boxes[0].offsets[axis], step.offsets[axis], stores) for axis in axes]
            emit([tensor_map, *place], _sum(base, boxes[0].shared_offset, step.shared_offset))
        return
    for box in boxes:
        place = [_plus(w, view.offsets[axis], box.offsets[axis], stores=stores) for axis in axes]
        emit([tensor_map, *place], _sum(base, box.shared_offset))


def _even_step(boxes: tuple[Box, ...]) -> Box | None:
    """The difference from each box to the next, if it is always the same."""
    steps = {
        Box(
            tuple(b - a for a, b in zip(left.offsets, right.offsets, strict=True)),
            right.shared_offset - left.shared_offset,
        )
        for left, right in pairwise(boxes)
    }
    return steps.pop() if len(steps) == 1 else None


def _sum(text: str, shift: int, step: int = 0) -> str:
    parts = [text] if text != "0" else []
    parts += [str(shift)] if shift else []
    parts += [f"px_i * {step}"] if step else []
    return " + ".join(parts) or "0"


def _plus(w: Writer, offset: Value, shift: int, step: int = 0, stores: bool = False) -> str:
    """A coordinate: 32 bits, as the instruction takes it. A sum wraps around, to where no array is."""
    if isinstance(offset, Const):
        return _sum("0", int(offset.value) + shift, step)
    text = start_text(w, offset)
    if shift or step:
        text = _sum(f"(unsigned){atom(text)}", shift, step)
    elif is_plain(scalar_dtype(offset)):
        return bare(text)
    return f"{w.use('store_at')}({text})" if stores else text


def _shared_base(w: Writer, shared: SharedView) -> str:
    """The address that the boxes' own places are added to: what is known only at run time, and dropped axes."""
    lead = 0
    while lead < len(shared.extents) - 1 and lead not in shared.kept:
        lead += 1
    terms = [
        "0" if axis >= lead and isinstance(offset, Const) else w.name(offset)
        for axis, offset in enumerate(shared.offsets)
    ]
    extra = w.plan.buffers[shared.buffer].layout.linear_offset_expression(terms)
    address = w.address(shared.buffer)
    return address if extra == "0" else f"{address} + {extra}"


def _shared_pointer(w: Writer, shared: SharedView) -> str:
    """A pointer to the first element of a contiguous shared region."""
    layout = w.plan.buffers[shared.buffer].layout
    terms = [w.name(offset) for offset in shared.offsets]
    extra = layout.linear_offset_expression(terms)
    if extra == "0":
        return w.pointer(shared.buffer)
    ctype = w.ctype(shared.dtype)
    return f"reinterpret_cast<{ctype}*>({plus(w.smem, w.plan.buffers[shared.buffer].offset)} + {extra})"


def _run(w: Writer, view: GlobalView) -> list[str]:
    """A run along the last axis: pointer to its first element, its index, the elements of the row, its length.

    If an index of another axis is outside the array, the row has no elements: everything is beyond it.
    """
    array = w.name(view.array)
    last = len(view.offsets) - 1
    steps, inside = [], []
    for axis, offset in enumerate(view.offsets[:last]):
        text = start_text(w, offset)
        if constant_of(offset) != 0:
            steps.append(f"(long long){atom(text)} * {array}.stride[{axis}]")
        inside.append(f"(unsigned){atom(text)} < (unsigned){array}.shape[{axis}]")  # a negative index is a large one
    start = start_text(w, view.offsets[last])
    pointer = " + ".join([f"{array}.data", *steps, *([start] if start != "0" else [])])
    size = f"{array}.shape[{last}]"
    if inside:
        size = f"({' && '.join(inside)} ? {size} : 0)"
    return [pointer, start, size, str(view.extents[last])]


def _call(w: Writer, function: str, arguments: list[str]) -> None:
    w.line(f"{function}({', '.join(arguments)});")
