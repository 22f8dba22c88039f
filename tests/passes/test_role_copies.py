"""Copies of a role are counted, numbered and refused as roles that are written one by one."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.analysis.lifetimes import Lifetimes
from phalanx.analysis.ranks import per_rank
from phalanx.ir.effects import Span
from phalanx.ir.ops.control import If, Role, RoleCopy, Roles
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx
from support.front import array, prepared
from support.role_copies import agents, counts, traffic, turns, turns_arguments


@pytest.mark.parametrize(("copies", "count"), [(2, 4), (3, 1), (4, 2)])
def test_the_same_counts_and_the_same_traffic(copies, count):
    copied, unrolled = turns(copies, count).functions
    assert counts(copied) == counts(unrolled)
    assert traffic(copied) == traffic(unrolled)
    assert agents(copied) == agents(unrolled)


@pytest.mark.parametrize(("copies", "count"), [(2, 4), (3, 1)])
def test_the_same_result(copies, count):
    pair = turns(copies, count)
    for kernel in (pair.copied, pair.unrolled):
        x, y, want = turns_arguments(copies)
        kernel[1](x, y, **pair.constants)
        np.testing.assert_allclose(y, want, rtol=1e-6)


def test_one_body_for_all_copies():
    copied, unrolled = turns(3, 4).functions
    (roles,) = (op for op in copied.walk() if isinstance(op, Roles))
    assert [(role.first, role.count, role.copies) for role in roles.regions] == [(0, 1, 1), (4, 4, 3)]
    assert len(list(copied.walk())) < 0.6 * len(list(unrolled.walk()))


def test_one_copy_is_an_ordinary_role_whose_number_is_a_constant():
    copied, unrolled = turns(1, 4).functions
    assert not any(isinstance(op, RoleCopy) for op in copied.walk())
    assert len(list(copied.walk())) == len(list(unrolled.walk()))
    assert counts(copied) == counts(unrolled)


def test_bytes_that_differ_from_copy_to_copy():
    """The second copy loads twice as much: each expects its own bytes, by a choice that the copy makes."""

    def body(c, X, buf, full):
        with full[c].transaction():
            px.tma.load(X[0:32, 0:32], buf[c][0:32, :], full[c])
            if c == 1:
                px.tma.load(X[32:64, 0:32], buf[c][32:64, :], full[c])
        full[c].wait(0)

    body = px.func(body)

    @px.kernel(warps=2)
    def copied(X):
        buf, full = px.shared((2, 64, 32), px.f32), px.barrier(2)
        with px.warps(0, 1, copies=2) as c:
            body(c, X, buf, full)

    @px.kernel(warps=2)
    def unrolled(X):
        buf, full = px.shared((2, 64, 32), px.f32), px.barrier(2)
        for c in px.static_range(2):
            with px.warps(c, 1):
                body(c, X, buf, full)

    both = [prepared(kernel, (array(2),)) for kernel in (copied, unrolled)]
    assert counts(both[0]) == counts(both[1]) == {"full": ((1, 1),)}
    assert traffic(both[0]) == traffic(both[1])
    (arm,) = (op for op in both[0].walk() if isinstance(op, If) and any(isinstance(i, ArriveExpectTx) for i in op.then))
    assert [per_rank(both[0], op.nbytes) for op in arm.then if isinstance(op, ArriveExpectTx)] == [(4096,)]
    assert [per_rank(both[0], op.nbytes) for op in arm.orelse if isinstance(op, ArriveExpectTx)] == [(8192,)]
    assert px.check(copied[1], np.zeros((64, 32), np.float32)).ok


def test_a_barrier_that_too_few_copies_have():
    @px.kernel(warps=4)
    def kernel(X):
        bar = px.barrier(2)
        with px.warps(0, 1, copies=3) as c:
            bar[c].arrive()

    with pytest.raises(px.Error) as caught:
        prepared(kernel, (array(1),))
    assert caught.value.message == "barrier bar[2] does not exist: the array has 2"
    assert caught.value.remedy == "indices run from 0 to 1 (seen in warp 2)"


def test_copies_are_what_a_pipe_counts():
    @px.kernel(warps=9)
    def kernel(X):
        buf, pipe = px.shared((2, 16), px.f32), px.pipe(2)
        with px.warps(0, 1):
            for _ in range(4):
                with pipe.produce() as s:
                    px.tma.load(X[0:16], buf[s], pipe.full[s])
        with px.warps(1, 2, copies=4):
            for _ in range(4):
                with pipe.consume():
                    pass

    found = counts(prepared(kernel, (array(1),)))
    assert sorted(found.values()) == [((1, 1),), ((4, 4),)]


def test_a_cluster_barrier_that_every_copy_comes_to():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        with px.warps(0, 2, copies=2) as c:
            px.cluster.sync()
            if c == 0:
                px.cluster.sync()
            else:
                px.cluster.sync()

    assert prepared(kernel, (array(1),)).cluster_size == 2


def test_a_cluster_barrier_that_one_copy_leaves_out():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        with px.warps(0, 2, copies=2) as c:
            if c == 0:
                px.cluster.sync()

    with pytest.raises(px.Error) as caught:
        prepared(kernel, (array(1),))
    assert caught.value.details == "warps 0-1: 1 arrivals, 1 waits\nwarps 2-3: 0 arrivals, 0 waits"


def test_the_role_knows_what_it_holds():
    role = Role("", 4, 1, 24, None, copies=3)  # type: ignore[arg-type]
    assert (role.span, role.held, role.first_of(2), role.name_of(2)) == (3, 4, 6, "warp 6")
    assert role.call == "px.warps(4, 1, copies=3)"


def test_buffers_of_a_role_with_copies_do_not_share_memory():
    """One copy may be with its second buffer while another still has its first."""

    def kernel(copies):
        @px.kernel(warps=4)
        def split(X):
            first, second = px.shared((4, 32), px.f32), px.shared((4, 32), px.f32)
            with px.warps(0, 1, copies=copies) as c:
                px.store(first[c], px.load(X[c, 0:32]))
                px.store(X[c, 0:32], px.load(first[c]))
                px.store(second[c], px.load(X[c, 0:32]))
                px.store(X[c, 0:32], px.load(second[c]))

        return prepared(split, (array(2),))

    for copies in (1, 2):
        lives = Lifetimes(kernel(copies))
        first, second = lives.units
        assert (lives.order(first, second) is not None) is (copies == 1)


def test_what_one_copy_stores_another_hands_to_a_peer():
    """The arrive in the peer publishes a store of the other copy: it must be of cluster scope."""

    @px.kernel(warps=2, cluster=2)
    def kernel(X, Y):
        here, there = px.barrier(), px.barrier()
        rank = px.cluster.rank()
        with px.warps(0, 1, copies=2) as c:
            if c == 0:
                px.store(X[rank, 0:32], px.zeros((32,), px.f32))
                here.arrive()
            else:
                here.wait(0)
                there.arrive(ctas=1 << (1 - rank))
                there.wait(0)
                px.store(Y[rank, 0:32], px.load(X[1 - rank, 0:32]))

    function = prepared(kernel, (array(2), array(2)))
    remote = [op for op in function.walk() if isinstance(op, Arrive) and op.ctas is not None]
    assert [op.scope for op in remote] == [Span.CLUSTER]
    assert px.check(kernel[2], np.zeros((2, 32), np.float32), np.zeros((2, 32), np.float32)).ok


def test_print_and_assertions_know_their_copy(capsys):
    @px.kernel(warps=4)
    def kernel(X, n):
        with px.warps(0, 2, copies=2) as c:
            px.print("copy", c)
            px.device_assert(c < n, "one copy too many")

    x = np.zeros(4, np.float32)
    kernel[1](x, 2)
    assert sorted(capsys.readouterr().out.split("\n")) == [
        "", "block (0, 0, 0), warps 0-1: copy 0", "block (0, 0, 0), warps 2-3: copy 1",
    ]
    with pytest.raises(px.Error, match=r"one copy too many \(block \(0, 0, 0\), warps 2-3 \(warps 2-3\)\)"):
        kernel[1](x, 1)
