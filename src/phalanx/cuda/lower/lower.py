"""From a prepared function to a plan for one GPU: layouts, copy paths, memory."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.analysis.divisibility import find_divisibility
from phalanx.analysis.signs import find_signs
from phalanx.cuda.abi import PLAIN, Extras
from phalanx.cuda.lower.copies import plan_copies
from phalanx.cuda.lower.own_operands import find_own_registers, moved_in_flight, wait_for_operands
from phalanx.cuda.lower.partial_reductions import find_partial_reductions
from phalanx.cuda.lower.pushes import Pushes, plan_pushes
from phalanx.cuda.lower.shared_memory import MemoryPlan, plan_memory
from phalanx.cuda.plan import Plan
from phalanx.cuda.text.cautions import CAREFREE, Cautions, products_of
from phalanx.cuda.text.cells import find_cells
from phalanx.cuda.text.registry import check_emitters
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import Arch
from phalanx.ir.beside import Beside
from phalanx.ir.core import Function, Note, Op
from phalanx.ir.ops.control import Roles
from phalanx.ir.values import Value
from phalanx.ir.views import SharedBuffer
from phalanx.layouts import RegisterLayout, SharedLayout
from phalanx.location import Location
from phalanx.passes.exchange_protocols import without_protocols, write_protocols

ROLE_BARRIERS = 15
"""Hardware barriers of a CTA's threads, without the one of all of them."""


def lower(function: Function, arch: Arch, *, extras: Extras = PLAIN, cautions: Cautions = CAREFREE) -> Plan:
    """Makes all choices for one target that the text of the kernel depends on.

    For the compiler's driver, after `prepare`. What the target lacks, too much shared memory, or a copy that the
    hardware can't do is a `px.Error` at the user's line.
    Example: ``generate(lower(prepare(function), arch_of("sm_90a"))).source``.
    """
    import phalanx.cuda.ops  # noqa: F401  # registers the emitters
    from phalanx.cuda.lower.mma_fallback import replace_missing_products

    check_emitters(function)
    function = replace_missing_products(function, arch)
    check_target(function, arch)
    arranged = _arrange_waiting(without_protocols(function), cautions.alone)
    function, pushes = arranged.pushes.function, arranged.pushes
    copies = plan_copies(function, arranged.shared, arch)
    memory = place(arranged, arch)
    return Plan(
        function=function,
        arch=arch,
        layouts=arranged.layouts,
        buffers=memory.buffers,
        barriers=memory.barriers,
        scratch=memory.scratch,
        copies=copies.plans,
        pushes=pushes.plans,
        partial=arranged.partial,
        own_registers=find_own_registers(function, cautions.careful),
        careful=cautions.careful,
        tensor_maps=copies.tensor_maps,
        credited=pushes.credited,
        signs=find_signs(function),
        shared_bytes=memory.nbytes,
        extras=extras,
        notes=(*function.notes, *arranged.notes, *copies.notes, *pushes.notes),
    )


@frozen
class Arrangement:
    """How a kernel's tiles lie in registers and shared memory, and how its pushes go: the same for every target.

    `whole` is the kernel that was laid out: the prepared one, in which products that shared memory can't be laid out for
    are replaced.
    """

    whole: Function
    pushes: Pushes
    layouts: Mapping[Value, RegisterLayout]
    shared: Mapping[SharedBuffer, SharedLayout]
    partial: frozenset[Op]
    scratch: Mapping[Op, int]
    notes: tuple[Note, ...]


def _arrange_waiting(function: Function, alone: frozenset[Location]) -> Arrangement:
    """The layouts of a kernel in which products are waited for where registers that they use would be written."""
    while True:
        arranged = arrange(wait_for_operands(function, alone))
        laid_out = arranged.pushes.function
        if not products_of(laid_out):
            return arranged
        moved = moved_in_flight(laid_out, find_cells(laid_out.body, arranged.layouts))
        if moved <= alone:
            return arranged
        alone |= moved


_ARRANGED = Beside[Arrangement]("arranged")
"""What is wanted twice: by the decision to share memory, and by the target."""


def arrange(function: Function) -> Arrangement:
    """Chooses the layouts of a prepared kernel."""
    import phalanx.cuda.ops  # noqa: F401  # registers the rules
    from phalanx.cuda.lower.mma_fallback import replace_unreadable_products, split_products
    from phalanx.cuda.lower.packed import unpack_memory
    from phalanx.cuda.lower.register_layouts import infer_register_layouts
    from phalanx.cuda.lower.shared_layouts import choose_shared_layouts
    from phalanx.cuda.tiles.scratch import scratch_needed

    found = _ARRANGED.get(function)
    if found is None:
        whole = function
        while True:
            laid_out, layouts, register_notes = infer_register_layouts(unpack_memory(split_products(whole)))
            shared, shared_notes = choose_shared_layouts(laid_out, layouts)
            readable = replace_unreadable_products(whole, laid_out, shared)
            if readable is whole:
                break
            whole = readable  # without the products that wgmma can't do; once more
        pushes = plan_pushes(laid_out, shared)
        laid_out = pushes.function
        partial = find_partial_reductions(laid_out, layouts)
        sizes = {op: scratch_needed(op, layouts) for op in laid_out.walk() if op not in partial}
        scratch = {op: size for op, size in sizes.items() if size > 0}
        found = Arrangement(whole, pushes, layouts, shared, partial, scratch, (*register_notes, *shared_notes))
        _ARRANGED.keep(function, _ARRANGED.keep(whole, found))
    return found


def choose_products(function: Function, arch: Arch) -> Function:
    """A prepared kernel whose `px.dot`s are the instructions that they become on the target.

    For whoever prepares a kernel: what is simulated and checked is what is emitted. A kernel that can't be laid out stays as
    it is: what is wrong with it is an error of `lower`.
    """
    from phalanx.cuda.lower.mma_fallback import replace_missing_products

    function = replace_missing_products(function, arch)
    if not any(op.replaceable for op in function.walk()):
        return function
    bare = without_protocols(function)
    try:
        whole = arrange(bare).whole
    except Error:
        return function
    return function if whole is bare else write_protocols(whole)


def unreadable_products(function: Function, arch: Arch, *, measured: bool = True) -> dict[Location, str]:
    """Where the tensor cores can't read the operands of a prepared kernel's products as these are laid out, and why.

    For `cuda.prepare`, which then takes another instruction for a `px.dot` there. What else is wrong with the
    kernel, its shared memory too large for the target say, may be those products' doing: it is said of all of them. Not
    `measured`: how much shared memory there is does not matter yet.
    """
    from phalanx.cuda.lower.registry import unreadables

    try:
        arranged = arrange(without_protocols(function))
        place(arranged, arch if measured else None)
    except Error as problem:
        return {op.loc: problem.message for op in function.walk() if unreadables.of(op) is not None}
    laid_out = arranged.pushes.function
    facts = find_divisibility(laid_out)
    found: dict[Location, str] = {}
    for op in laid_out.walk():
        why = None if (ask := unreadables.of(op)) is None else ask(op, arranged.shared, facts)
        if why is not None:
            found[op.loc] = why
    return found


def ring_problem(function: Function, arch: Arch) -> Error | int | None:
    """What keeps a prepared kernel from its target: an error at the place it is about, or bytes of shared memory that lack.

    For `cuda.prepare`, which then writes the loops of the kernel anew. None where nothing does.
    """
    try:
        arranged = arrange(without_protocols(function))
        lacking = place(arranged, None).nbytes - arch.shared_limit
        if lacking > 0:
            return lacking
        plan_copies(arranged.pushes.function, arranged.shared, arch)
    except Error as problem:
        return problem
    return None


def place(arranged: Arrangement, arch: Arch | None) -> MemoryPlan:
    """Where everything in shared memory lies; an error where a target does not have so much."""
    return plan_memory(arranged.pushes.function, arch, arranged.shared, arranged.scratch)


def fits(function: Function, limit: int) -> bool:
    """Whether a prepared kernel, laid out for a GPU, takes at most `limit` bytes of shared memory.

    For `passes.pipeline`. A kernel that can't be laid out is said to fit: what is wrong with it is an error of `lower`.
    """
    return shared_bytes_of(function) <= limit


def shared_bytes_of(function: Function) -> int:
    """The bytes of shared memory that a prepared kernel takes, laid out for a GPU; 0 for one that can't be laid out."""
    try:
        return place(arrange(function), None).nbytes
    except Error:
        return 0


def check_target(function: Function, arch: Arch) -> None:
    """Every instruction must exist on the target; the error names what to write instead."""
    if function.cluster_size > arch.max_cluster:
        raise Error(
            f"a cluster of {function.cluster_size} CTAs; {arch} has at most {arch.max_cluster}",
            location=function.loc,
            remedy=f"use a cluster of at most {arch.max_cluster} CTAs",
        )
    for op in function.walk():
        if isinstance(op, Roles):
            _check_thread_barriers(op, function.warps)
        target = op.effects().target
        if not target.supports(arch):
            raise Error(f"{arch} has no {target.family or op.mnemonic}", location=op.loc, remedy=target.remedy)


def _check_thread_barriers(roles: Roles, warps: int) -> None:
    """Roles of several warps that run side by side need a hardware barrier each; number 0 is the whole CTA's."""
    meeting = [role for role in roles.regions if 1 < role.running < warps for _ in range(role.copies)]
    if len(meeting) > ROLE_BARRIERS:
        raise Error(
            f"{len(meeting)} roles of several warps run at the same time; "
            f"a CTA has {ROLE_BARRIERS} barriers of threads for them",
            location=meeting[ROLE_BARRIERS].loc,
            remedy="use fewer roles, or roles of one warp, which need no barrier",
        )
