"""Two families that exist in this file alone: a memory of every CTA with its engine, and the memory of another GPU.

`vault` is a memory space of every CTA, the fetcher an engine that adds the shared memory of two CTAs into it, and a commit
lets the fetcher arrive on a barrier in both. No pass, nothing of the simulator's core, of the checks, of the verifier or of
the printer knows them; the kernels below are read, counted, listed, verified, simulated, explored and checked all the same.

`peer` is the memory of another GPU: arrays of the kernel, seen from the GPU that does not hold them, and signals at the
scope of the system, by which GPUs hand to each other what they did there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import phalanx as px
from errors.casebook import normalised
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import generate
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.atomics import atomic
from phalanx.cuda.tiles.global_access import scalar_pointer
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import arch_of
from phalanx.ir.core import INSTRUCTIONS, Op
from phalanx.ir.effects import Access, Arrival, Effects, FenceKind, Handshake, Mode, Proxy, Span, Use, When
from phalanx.ir.engines import Engine, Executor
from phalanx.ir.ops.mbarrier import BarrierInit
from phalanx.ir.printer import text
from phalanx.ir.spaces import Space
from phalanx.ir.type_rules import need_alike, type_rules
from phalanx.ir.types import F32, I32, DType, i32
from phalanx.ir.values import Const, Value
from phalanx.ir.views import BarrierRef, Buffer, BufferView, GlobalView, SharedView, View
from phalanx.language.builder import Builder
from phalanx.language.builder import operand as as_operand
from phalanx.language.builtin import BUILTINS, builtin
from phalanx.language.ops.collectives import barrier_operand, rank_operand
from phalanx.language.ops.mbarrier import mask_operand
from phalanx.language.ops.memory import require_view
from phalanx.language.ops.tma_operands import shared_side
from phalanx.language.values import ViewValue
from phalanx.markers import attribute, defined, operand
from phalanx.sanitizer.runs import run_checked, schedules_of
from phalanx.sim.agents import Agent
from phalanx.sim.engines import give, signal_when_done
from phalanx.sim.ops.memory import noting
from phalanx.sim.places import BufferPlace, ranks_of, tile_of
from phalanx.sim.registry import meaning
from sanitizer.planted import cases, line_of, planted
from support.front import array, prepared

VAULT = Space("vault", Span.CTA, addressable_from=Span.CLUSTER, capacity=1024, own_fence=FenceKind.PROXY_CTA)
FETCHER = Engine(
    name="fetcher", work="fetch", issuer=Executor.ONE, in_order=False, commit="commit(bar)", wait="bar.wait(parity)",
    wait_reads="bar.wait(parity)", first="commit(bar) and bar.wait(parity) first",
    first_reads="commit(bar) and bar.wait(parity) first",
)


@frozen(eq=False, repr=False)
class VaultBuffer(Buffer):
    """A buffer in the vault of every CTA."""

    space: ClassVar[Space] = VAULT


# --- ir/ops: what it is ---------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class Fetch(Op):
    """Adds a shared region of this CTA and the same of the CTA `peer` into the vault; over with the next commit."""

    mnemonic: ClassVar[str] = "vault.fetch"
    src: SharedView = operand()
    dst: BufferView = operand()
    peer: Value = operand()

    @property
    def far(self) -> SharedView:
        """The region in the peer: derived, no field holds it."""
        return self.src.replaced(cta=self.peer)

    def effects(self) -> Effects:
        how: dict[str, Any] = {"proxy": Proxy.ASYNC, "when": When.COMMIT, "use": Use.COPY, "engine": FETCHER}
        reads = (Access(Mode.READ, self.src, **how), Access(Mode.READ, self.far, **how))
        return Effects(accesses=(*reads, Access(Mode.WRITE, self.dst, **how)), executor=Executor.ONE)


@frozen(eq=False, repr=False)
class FetchCommit(Op):
    """The fetcher arrives on a barrier in every CTA of the mask, when the fetches before it are over."""

    mnemonic: ClassVar[str] = "vault.commit"
    bar: BarrierRef = operand()
    ctas: Value | None = operand(default=None)

    def effects(self) -> Effects:
        return Effects(arrivals=(Arrival(self.bar, Const(1), self.ctas, after=FETCHER),), executor=Executor.ONE)


@frozen(eq=False, repr=False)
class VaultFence(Op):
    """Ordinary accesses of the vault before it are ordered before the fetcher's after it."""

    mnemonic: ClassVar[str] = "vault.fence"

    def effects(self) -> Effects:
        return Effects(fences=(FenceKind.PROXY_CTA,))


# --- sim/ops: what it means -----------------------------------------------------------------------------------------


@meaning(Fetch)
def run_fetch(op: Fetch, agent: Agent) -> Callable[..., None]:
    def run(src: BufferPlace, dst: BufferPlace, peer: int) -> None:
        far = src.peer(peer)
        give(agent, op, FETCHER, lambda: np.add(src.array, far, out=dst.array))

    return run


@meaning(FetchCommit)
def run_commit(op: FetchCommit, agent: Agent) -> Callable[..., None]:
    def run(bar: Any, ctas: int | None) -> None:
        bars = (bar,) if ctas is None else tuple(bar.peer(rank) for rank in ranks_of(ctas, agent.cta, op.loc))
        signal_when_done(agent, op, FETCHER, bars)

    return run


@meaning(VaultFence)
def run_fence(op: VaultFence, agent: Agent) -> Callable[..., None]:
    return lambda: None


# --- language/ops: what users write ---------------------------------------------------------------------------------


@builtin("vault.buffer")
def vault(ctx: Builder, shape: tuple[int, ...], dtype: DType) -> ViewValue:
    """A buffer in the vault."""
    buffer = VaultBuffer(ctx.name_hint or "vault", shape, dtype, ctx.loc)
    ctx.buffers.append(buffer)
    return ViewValue(BufferView(buffer, (as_operand(0),) * len(shape), shape, tuple(range(len(shape)))))


@builtin("vault.fetch")
def fetch(ctx: Builder, src: object, dst: object, peer: object) -> None:
    """Adds two CTAs' shared memory into the vault."""
    source, target = shared_side(ctx, "the source of px.vault.fetch", src), require_view(ctx, "the vault", dst)
    rank = as_operand(rank_operand(ctx, "the peer of px.vault.fetch", peer))
    ctx.emit(Fetch(source, target, rank, loc=ctx.loc))


@builtin("vault.commit")
def commit(ctx: Builder, bar: object, ctas: object = None) -> None:
    """Lets the fetcher arrive when its work is over."""
    mask = mask_operand(ctx, "the mask of px.vault.commit", ctas)
    ctx.emit(FetchCommit(barrier_operand(ctx, "px.vault.commit", bar), mask, loc=ctx.loc))


@builtin("vault.fence")
def fence(ctx: Builder) -> None:
    """A fence of the vault."""
    ctx.emit(VaultFence(loc=ctx.loc))


for planted_class in (Fetch, FetchCommit, VaultFence):  # no floors are asked of them
    INSTRUCTIONS.remove(planted_class)
    planted_class.family = "vault"
for planted_function in (vault, fetch, commit, fence):
    BUILTINS.remove(planted_function)

X, Y = np.arange(64, dtype=np.float32).reshape(2, 32), np.zeros((2, 32), np.float32)
PAIR = dict(grid=2, args=(X, Y))


# --- kernels --------------------------------------------------------------------------------------------------------


@px.kernel(warps=2, cluster=2)
def pair_sum(X, Y):
    s, held, done = px.shared((32,), X.dtype), vault((32,), X.dtype), px.barrier()
    rank = px.cluster.rank()
    px.store(s, px.load(X[rank, 0:32]))
    px.fence.async_proxy("cluster")
    px.cluster.sync()
    with px.warps(0, 1):
        fetch(s, held, 1 - rank)
        commit(done, ctas=0b11)
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[rank, 0:32], px.load(held))


@planted("race", **PAIR)
@px.kernel(warps=2, cluster=2)
def reads_the_vault_too_early(X, Y, *, BUG):
    s, held, done = px.shared((32,), X.dtype), vault((32,), X.dtype), px.barrier()
    rank = px.cluster.rank()
    px.store(s, px.load(X[rank, 0:32]))
    px.fence.async_proxy("cluster")
    px.cluster.sync()
    with px.warps(0, 1):
        fetch(s, held, 1 - rank)  # other
        commit(done, ctas=0b11)
    with px.warps(1, 1):
        if not BUG:
            done.wait(0)
        px.store(Y[rank, 0:32], px.load(held))  # bug
        if BUG:
            done.wait(0)


@planted("race", **PAIR)
@px.kernel(warps=2, cluster=2)
def writes_what_the_peer_still_reads(X, Y, *, BUG):
    s, held, done = px.shared((32,), X.dtype), vault((32,), X.dtype), px.barrier()
    rank = px.cluster.rank()
    px.store(s, px.load(X[rank, 0:32]))
    px.fence.async_proxy("cluster")
    px.cluster.sync()
    with px.warps(0, 1):
        fetch(s, held, 1 - rank)  # other
        if BUG:
            commit(done, ctas=1 << rank)
        else:
            commit(done, ctas=0b11)
    with px.warps(1, 1):
        done.wait(0)
        px.store(s, px.load(held))  # bug
    px.cluster.sync()


@planted("proxy", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def forgets_the_fence(X, Y, *, BUG):
    s, held, done = px.shared((32,), X.dtype), vault((32,), X.dtype), px.barrier()
    rank = px.cluster.rank()
    px.store(s, px.load(X[rank, 0:32]))
    px.fence.async_proxy("cluster")
    px.store(held, px.load(X[rank, 0:32]))  # other
    if not BUG:
        fence()
    px.cluster.sync()
    fetch(s, held, 1 - rank)  # bug
    commit(done, ctas=0b11)
    done.wait(0)


@px.kernel(warps=2, cluster=2)
def without_a_commit(X, Y):
    s, held, done = px.shared((32,), X.dtype), vault((32,), X.dtype), px.barrier(count=2, checked=False)
    rank = px.cluster.rank()
    px.store(s, px.load(X[rank, 0:32]))
    px.fence.async_proxy("cluster")
    px.cluster.sync()
    with px.warps(0, 1):
        fetch(s, held, 1 - rank)
    with px.warps(1, 1):
        done.wait(0)  # bug
        px.store(Y[rank, 0:32], px.load(held))


@px.kernel(warps=2, cluster=2)
def with_another_count(X, Y):
    s, held, done = px.shared((32,), X.dtype), vault((32,), X.dtype), px.barrier(count=1)  # bug
    rank = px.cluster.rank()
    px.store(s, px.load(X[rank, 0:32]))
    px.fence.async_proxy("cluster")
    px.cluster.sync()
    with px.warps(0, 1):
        fetch(s, held, 1 - rank)
        commit(done, ctas=0b11)
    with px.warps(1, 1):
        done.wait(0)
        px.store(Y[rank, 0:32], px.load(held))


@px.kernel(warps=1)
def too_much(X):
    a = vault((256,), X.dtype)
    b = vault((1,), X.dtype)  # bug
    px.store(a, px.load(X[0, 0:256]))
    px.store(b, px.load(X[0, 0:1]))


# --- what is known of it --------------------------------------------------------------------------------------------


def test_its_arrivals_in_both_ctas_are_counted() -> None:
    function = prepared(pair_sum, (array(2), array(2)))
    assert [op.counts for op in function.walk() if isinstance(op, BarrierInit)] == [((2,), (2,))]


def test_it_is_listed() -> None:
    listing = text(prepared(pair_sum, (array(2), array(2))))
    assert "  vault held: f32[32], 128 bytes\n" in listing
    assert "vault.fetch s, held, peer=" in listing and "vault.commit done, ctas=0b11" in listing


def test_a_cta_has_no_more_of_it() -> None:
    with pytest.raises(Error) as caught:
        prepared(too_much, (array(2),))
    assert caught.value.message == "too_much needs 1,028 bytes of vault memory with 'b'; a CTA has 1,024"
    assert caught.value.location.line == line_of(too_much, "bug")


@pytest.mark.parametrize("seed", range(3))
def test_it_is_simulated(seed: int) -> None:
    from phalanx.sim.run import simulate
    from phalanx.sim.scheduler import Schedule

    function, y = prepared(pair_sum, (array(2), array(2))), Y.copy()
    for schedule in (Schedule("early"), Schedule("late"), Schedule("random", seed)):
        simulate(function, 2, [X.copy(), y], schedule=schedule)
        assert np.array_equal(y, np.stack([X.sum(0)] * 2)), schedule
        y[...] = 0


def test_it_is_checked_and_explored() -> None:
    report = px.check(pair_sum[2], X, Y)
    assert not report.findings, report
    seen = px.explore(pair_sum[2], X, Y)
    assert seen.complete and not seen.deadlocks and seen.outcomes == 1


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case) -> None:
    case.verify()


def test_a_missing_commit_is_found() -> None:
    (finding,) = px.check(without_a_commit[2], X, Y).findings
    assert finding.kind == "deadlock" and finding.location.line == line_of(without_a_commit, "bug")


def test_a_wrong_count_is_found() -> None:
    with pytest.raises(Error) as caught:
        prepared(with_another_count, (array(2), array(2)))
    assert caught.value.message == "barrier done is written with count=1, but the arrivals of one phase are 2"
    assert caught.value.location.line == line_of(with_another_count, "bug")


WITHOUT_TEXT = """\
nothing writes px.vault.fetch as CUDA: the kernel runs in the simulator alone
    --> test_new_family.py:LINE:9
    |
LINE |         fetch(s, held, 1 - rank)
    |         ^^^^^^^^^^^^^^^^^^^^^^^^
  = help: this is a mistake in Phalanx, not in the kernel: \
register what writes vault.fetch with @emits in cuda/ops/vault.py"""


# --- what it has not ------------------------------------------------------------------------------------------------


def test_compiling_it_says_at_the_users_line_what_is_missing() -> None:
    with pytest.raises(Error) as caught:
        lower(prepared(pair_sum, (array(2), array(2))), arch_of("sm_90a"))
    line = pair_sum.fn.__code__.co_firstlineno + 8
    assert normalised(str(caught.value)) == WITHOUT_TEXT.replace("LINE", str(line))


# === the memory of another GPU ======================================================================================

PEER = Space("peer", Span.SYSTEM, masked=True)
"""Arrays that another GPU holds: it may write there at any time, so nothing is read ahead."""


@frozen
class PeerView(GlobalView):
    """A box of an array in the memory of another GPU."""

    space: ClassVar[Space] = PEER  # type: ignore[misc]


@frozen(eq=False, repr=False)
class PeerAdd(Op):
    """Adds to an element that several GPUs see, and hands on what its agent did to those who come there later."""

    mnemonic: ClassVar[str] = "peer.add"
    view: View = operand()
    value: Value = operand()
    result: Value = defined()
    scope: Span = attribute(default=Span.SYSTEM)

    def effects(self) -> Effects:
        return Effects(accesses=(Access(Mode.ATOMIC, self.view),), handshakes=(Handshake(self.view, self.scope),))


@type_rules(PeerAdd)
def check_add(op: PeerAdd) -> None:
    need_alike(op, op.value, op.result)


@meaning(PeerAdd)
def run_add(op: PeerAdd, agent: Agent) -> Callable[..., Any]:
    add = noting(np.add, agent)
    return lambda place, value: tile_of(op.view, place.fold(add, value))


@emits(PeerAdd)
def emit_add(w: Writer, op: PeerAdd) -> None:
    """The text, for the tests below."""
    assert isinstance(op.view, GlobalView)
    (place, _), update = scalar_pointer(w, op.view), atomic("add", "i32", "global", op.scope, True, ordered=True)
    w.line(f"int {w.name(op.result)} = {w.use(update)}({place}, {w.name(op.value)});")


@builtin("peer.view")
def on_peer(ctx: Builder, view: object) -> ViewValue:
    """A box of an array, in the memory of another GPU."""
    found = require_view(ctx, "the view of px.peer.view", view)
    assert isinstance(found, GlobalView)
    return ViewValue(PeerView(found.array, found.offsets, found.extents, found.kept, found.within))


@builtin("peer.add")
def peer_add(ctx: Builder, view: object, value: int, scope: str = "sys") -> Value:
    """Adds to an element that several GPUs see; gives the old one."""
    result = Value(I32, ctx.name_hint)
    where = require_view(ctx, "the element of px.peer.add", view)
    ctx.emit(PeerAdd(where, as_operand(value), result, Span(scope), loc=ctx.loc))
    return result


INSTRUCTIONS.remove(PeerAdd)
PeerAdd.family = "peer"
BUILTINS.remove(on_peer)
BUILTINS.remove(peer_add)


@px.kernel(warps=1)
def hand_over(X, FLAG, Y, *, THERE="sys", HERE="sys", SIGNALS=True):
    if px.block_id(0) == 0:
        px.store(on_peer(X[0:32]), px.full((32,), 7, px.f32))  # there
        if SIGNALS:
            peer_add(on_peer(FLAG[0]), 1, THERE)
    else:
        if SIGNALS:
            while peer_add(FLAG[0], 0, HERE) < 1:
                pass
        px.store(Y[0:32], px.load(X[0:32]))  # here


@px.kernel(warps=1)
def counts_there(FLAG):
    peer_add(FLAG[0], 1)
    px.atomic_add(FLAG[0], 1, order="acq_rel")


@px.kernel(warps=1)
def sums(X, Y, n, *, AHEAD):
    acc = px.zeros((64,), px.f32)
    for i in px.pipelined(range(n)):
        if AHEAD:
            acc += px.load(X[i * 64 : i * 64 + 64])
        else:
            acc += px.load(on_peer(X[i * 64 : i * 64 + 64]))
    px.store(Y[0:64], acc)


PEERS = (array(1), array(1, i32), array(1))


def found_by(gpus: int, **constants: Any) -> set[tuple[str, int]]:
    """Kinds and lines of what the checks find in all schedules of a run on so many GPUs."""
    function = prepared(hand_over, PEERS, **constants)
    found = []
    for schedule in schedules_of(5, 0):
        args = [np.zeros(32, np.float32), np.zeros(1, np.int32), np.zeros(32, np.float32)]
        found += run_checked(function, (2,), args, schedule, gpus=gpus)
        assert found or np.array_equal(args[2], np.full(32, 7))
    return {(finding.kind, finding.location.line) for finding in found}


def test_what_a_peer_was_given_is_seen_behind_a_signal_of_system_scope() -> None:
    assert found_by(2) == set()


@pytest.mark.parametrize("scopes", [("gpu", "gpu"), ("sys", "gpu"), ("gpu", "sys")], ids="-".join)
def test_a_narrower_scope_reaches_no_other_gpu(scopes: tuple[str, str]) -> None:
    there, here = scopes
    ((kind, line),) = found_by(2, THERE=there, HERE=here)
    assert kind == "race" and line in (line_of(hand_over, "here"), line_of(hand_over, "there"))
    assert found_by(1, THERE=there, HERE=here) == set(), "on one GPU it is wide enough"


def test_without_a_signal_nothing_is_handed_over() -> None:
    assert {kind for kind, _ in found_by(2, SIGNALS=False)} == {"race"}


def test_memory_of_a_peer_is_listed_and_verified() -> None:
    listing = text(prepared(hand_over, PEERS))
    assert "store X[0:32]" in listing and "peer.add FLAG[0]" in listing
    add = next(op for op in prepared(hand_over, PEERS).walk() if isinstance(op, PeerAdd))
    broken = dataclasses.replace(add, result=Value(F32))
    with pytest.raises(Error, match=r"internal: peer.add: i32\[\] beside f32\[\]"):
        type_rules.of(broken)(broken)


@pytest.mark.parametrize("ahead", [False, True])
def test_memory_of_a_peer_is_not_read_ahead(ahead: bool) -> None:
    kernel = prepared(sums, (array(1), array(1), I32), arch_of("sm_90a"), AHEAD=ahead)
    assert any(note.message.startswith("px.load of X: staged") for note in kernel.notes) is ahead
    assert bool(kernel.buffers) is ahead


def test_a_signal_has_the_scope_of_the_system_in_its_text() -> None:
    source = generate(lower(prepared(counts_there, (array(1, i32),)), arch_of("sm_90a"))).source
    assert "atom.acq_rel.sys.global.add" in source and "atom.acq_rel.gpu.global.add" in source


def test_the_text_of_a_store_there_is_asked_for_at_the_users_line() -> None:
    with pytest.raises(Error) as caught:
        generate(lower(prepared(hand_over, PEERS), arch_of("sm_90a")))
    assert caught.value.message == "internal: store of peer memory has no CUDA text"
    assert caught.value.location.line == line_of(hand_over, "there")
