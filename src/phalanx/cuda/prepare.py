"""Prepares a kernel for a target: writes its pipelined loops, runs the passes, measures, and tries again where it must.

The simulator and the compiler run what comes out, so both see the same function. The target is the one that a user names,
the device's, or the first that has all of the kernel's instructions.
"""

from __future__ import annotations

import dataclasses

from phalanx.errors import Error
from phalanx.ir.archs import ARCHS, USUAL, Arch, Feature
from phalanx.ir.core import Faster, Function, Note
from phalanx.location import Location
from phalanx.passes.operand_staging import stage_operands
from phalanx.passes.pipeline import prepare
from phalanx.passes.pipelining.staging import Refusals
from phalanx.passes.pipelining.write import LEAST_STAGES, MOST_STAGES, has_pipelined, leave_plain, write_loops
from phalanx.passes.sharing import budget, needs_sharing
from phalanx.passes.tensor_products import multiply_in_tensor_memory


def prepare_for(function: Function, arch: Arch | None = None, *, overlap: bool = True) -> Function:
    """The kernel after all passes, for a target (None: the one that `default_arch` names).

    For whoever runs, checks or compiles a kernel. An instruction that the target lacks stays where it is, but for products
    of `px.dot`, which take another instruction; `require_target` and the compiler refuse it. Without `overlap`, products of
    loops over `px.pipelined` wait for each other.
    Example: ``prepare_for(reading.function, arch_of("sm_100a"))``.
    """
    chosen = default_arch(function) if arch is None else arch
    if has_pipelined(function):
        return _with_loops_written(function, chosen, overlap)
    return _prepare(function, chosen)


def _prepare(function: Function, arch: Arch) -> Function:
    """The prepared kernel, with operands of `px.dot` in shared memory where that is faster and there is room for them."""
    staged = stage_operands(function, arch)
    if staged is not function:
        prepared = _prepared_if_it_fits(staged, arch)
        if prepared is not None:
            return prepared
        why = "operands of px.dot stay in registers: shared memory has no room for them"
        note = Note(why, function.loc, Faster("multiply smaller tiles"))
        function = dataclasses.replace(function, notes=(*function.notes, note))
    return _prepare_products(function, arch)


def _prepare_products(function: Function, arch: Arch, *, measured: bool = True) -> Function:
    """The prepared kernel; not `measured`: whoever asks looks for himself whether shared memory has room for it."""
    if arch.has((Feature.TCGEN05,)) and has_own_products(function, arch):
        return _with_tensor_memory(function, arch, measured)
    return choose_products(prepare_common(function, arch), arch)


def has_own_form(function: Function, arch: Arch) -> bool:
    """Whether what the passes make of a kernel depends on more of the target than its shared memory."""
    return has_pipelined(function) or has_own_products(function, arch)


def _with_loops_written(function: Function, arch: Arch, overlap: bool) -> Function:
    """The prepared kernel with its loops over `px.pipelined` written out, and rings that fit.

    Layouts, and scratch for changes between them, are known only when the kernel is prepared: where they leave less room
    than was thought there is a stage less, and a region that the copy engine refuses then is brought by threads.
    """
    from phalanx.cuda.lower.lower import ring_problem, unreadable_products

    most, refusals = MOST_STAGES, Refusals(overlap=overlap)
    while True:
        made = write_loops(function, arch, most, refusals)
        if not made.staged:
            return _prepare(made.function, arch)
        whole = stage_operands(made.function, arch) if refusals.operands else made.function
        shorter = made.grown or made.stages > LEAST_STAGES  # so that what does not fit is the rings' doing
        problem: Error | int | None = _lacking(whole, arch) if whole is not made.function else None
        if problem is None:
            prepared = _prepare_products(whole, arch, measured=not shorter)
            problem = ring_problem(prepared, arch)
            if made.multiplied and unreadable_products(prepared, arch, measured=False):
                refusals = dataclasses.replace(refusals, multiplier=False)
                continue
        if isinstance(problem, Error):
            again = refusals.with_problem(problem.location, made.choices)
            if again is None:
                return prepared  # not the loops' doing: an error of `lower`
            refusals = again
        elif problem is not None and made.grown:
            refusals = dataclasses.replace(refusals, larger=False)
        elif problem is not None and made.stages > LEAST_STAGES:
            most = max(LEAST_STAGES, made.stages - max(1, problem // made.each))  # what is lacking may be less by then
        elif problem is not None and made.choices.stores - refusals.stores:
            refusals = dataclasses.replace(refusals, stores=made.choices.stores | refusals.stores)
        elif problem is not None and whole is not made.function:
            refusals = dataclasses.replace(refusals, operands=False)
        elif problem is not None and made.stages:
            why = f"its rings fit, but with all else the kernel lacks {problem:,} bytes of shared memory"
            return _prepare(leave_plain(function, why, "load smaller tiles, or give fewer stages="), arch)
        else:
            return prepared


def _lacking(function: Function, arch: Arch) -> int | None:
    """The bytes of shared memory that a kernel surely lacks, whatever its layouts will be; None where it lacks none."""
    taken = sum(buffer.nbytes for buffer in function.shared_buffers if buffer.reuse is None)
    return max(0, taken - budget(function, arch)) or None


def _prepared_if_it_fits(function: Function, arch: Arch) -> Function | None:
    """The prepared kernel; None where it needs more shared memory than the target has, or can't be prepared so."""
    try:
        prepared = _prepare_products(function, arch)
    except Error:
        return None
    return None if needs_sharing(prepared, arch, _fits) else prepared


def has_own_products(function: Function, arch: Arch) -> bool:
    """Whether a kernel has a `px.dot` that the target may do in a way of its own, so that the passes see another kernel."""
    if any(op.product is not None for op in function.walk()):
        return True
    return arch.has((Feature.TCGEN05,)) and any(op.replaceable for op in function.walk())


def _with_tensor_memory(function: Function, arch: Arch, measured: bool) -> Function:
    """The prepared kernel with each `px.dot` in tensor memory, but for those that the tensor cores can't read then."""
    from phalanx.cuda.lower.lower import unreadable_products
    from phalanx.cuda.lower.mma_fallback import plain_products

    plain = plain_products(function, arch)
    refused: dict[Location, str] = {}
    while True:
        try:
            prepared = prepare_common(multiply_in_tensor_memory(plain, arch, refused), arch)
        except Error as problem:
            everywhere = {op.loc: problem.message for op in plain.walk() if op.product is not None}
            if everywhere.keys() <= refused.keys():
                raise  # tensor memory has no part in it
            refused = everywhere | refused
            continue
        found = unreadable_products(prepared, arch, measured=measured)
        new = {loc: why for loc, why in found.items() if loc not in refused}
        if not new:
            return prepared
        refused |= new


def prepare_common(function: Function, arch: Arch) -> Function:
    """The kernel after the passes that ask no more of a target than how much shared memory it has."""
    return prepare(function, arch, _fits)


def choose_products(function: Function, arch: Arch) -> Function:
    """A prepared kernel whose `px.dot`s are the instructions that they become on the target."""
    if not any(op.replaceable for op in function.walk()):  # most kernels: no compiler is loaded for them
        return function
    from phalanx.cuda.lower import lower

    return lower.choose_products(function, arch)


def default_arch(function: Function) -> Arch:
    """The first target that has every instruction of a kernel and clusters of its size; the very first if there is none.

    The usual ones are tried before the others.
    """
    needed = {feature for op in function.walk() for feature in op.effects().target.needs}
    for arch in (*USUAL, *ARCHS.values()):
        if function.cluster_size <= arch.max_cluster and arch.has(needed):
            return arch
    return USUAL[0]


def require_target(function: Function, arch: Arch) -> None:
    """Raises what `px.compile` raises for a prepared kernel with an instruction, or a cluster, that the target lacks."""
    from phalanx.cuda.lower.lower import check_target

    check_target(function, arch)


def _fits(function: Function, limit: int) -> bool:
    from phalanx.cuda.lower.lower import fits  # most kernels are known to fit before layouts are asked for

    return fits(function, limit)
