"""The passes of every target: from the front end's function to what the simulator runs and listings show."""

from __future__ import annotations

from phalanx.ir.archs import Arch
from phalanx.ir.core import Function
from phalanx.ir.verifier import verify
from phalanx.passes.active_warps import choose_active_warps
from phalanx.passes.barrier_init import insert_barrier_init
from phalanx.passes.collectives import lower_collectives, lower_run_time_collectives
from phalanx.passes.counts import infer_counts
from phalanx.passes.entry_sync import insert_entry_sync
from phalanx.passes.exchange_protocols import write_protocols
from phalanx.passes.exit_sync import insert_exit_sync
from phalanx.passes.late_waits import place_late_waits
from phalanx.passes.mma_fences import insert_mma_fences
from phalanx.passes.reductions import allocate_reductions
from phalanx.passes.release_masks import lower_releases
from phalanx.passes.role_sync import insert_role_syncs
from phalanx.passes.roles import merge_roles
from phalanx.passes.scopes import choose_scopes
from phalanx.passes.sharing import Fits, needs_sharing, share_memory
from phalanx.passes.tensor_memory import allocate_tensor_memory
from phalanx.passes.tile_loops import write_draws
from phalanx.passes.transactions import lower_transactions


def prepare(function: Function, arch: Arch, fits: Fits) -> Function:
    """The kernel with its roles formed, bytes and counts inferred, the promised barriers in place, memory shared.

    Called by `cuda.prepare`, for the simulator and the CUDA back end alike. `arch` says how much shared memory
    there is; `fits` measures a kernel with the layouts of that target. Mistakes that only show here (roles that overlap, a
    count that contradicts the arrivals, a slice past a buffer) are `px.Error`s at the line.
    Example: ``print(printer.text(prepare(function, arch_of("sm_90a"), fits)))``.
    """
    verify(function)  # first, so that the passes may rely on masks and indices inside their bounds
    function = write_draws(merge_roles(function))
    function = allocate_reductions(function)
    function = lower_collectives(function)
    function = lower_releases(function)
    function = lower_run_time_collectives(lower_transactions(function))
    function = insert_barrier_init(function, infer_counts(function))
    function = insert_exit_sync(insert_entry_sync(function))
    function = allocate_tensor_memory(function)
    function = choose_scopes(choose_active_warps(function))
    ordered = _keep_order(function)
    if len(function.buffers) > 1 and needs_sharing(ordered, arch, fits):
        shared = share_memory(function)
        ordered = ordered if shared is function else _keep_order(shared)
    ordered = write_protocols(ordered)
    verify(ordered)
    return ordered


def _keep_order(function: Function) -> Function:
    """Program order between the threads of an agent, and between its registers and the tensor cores."""
    return place_late_waits(insert_mma_fences(insert_role_syncs(function)))
