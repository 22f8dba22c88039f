"""The cluster sync before exit."""

from __future__ import annotations

import pytest

from phalanx.ir.core import Function
from phalanx.ir.ops.cluster import ClusterArrive, ClusterSync
from phalanx.ir.ops.control import If, Leave, Scope, Sync
from phalanx.ir.types import BOOL, I32, f32
from phalanx.ir.values import Label, Value
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.passes.exit_sync import insert_exit_sync
from phalanx.passes.roles import merge_roles
from support.hand_ir import arrive, block, kernel, load, role, whole

FULL = BarrierArray("full", 1)
SMEM = SharedBuffer("smem", (64,), f32)
REMOTE = arrive(FULL, ctas=2)
PEER = Value(I32, "peer")


def made(*ops, cluster: int = 2, **options) -> Function:
    return kernel(*ops, barriers=(FULL,), buffers=(SMEM,), cluster=cluster, **options)


@pytest.mark.parametrize("op", [REMOTE, load(whole(SMEM, PEER))])
def test_appended_where_a_peer_is_touched(op):
    function = insert_exit_sync(made(role(0, 1, op)))
    assert isinstance(function.body.ops[-1], ClusterSync)
    assert function.body.ops[-1].reason == "exit: peers may still touch this CTA's shared memory"


@pytest.mark.parametrize(
    "function",
    [
        made(arrive(FULL), load(whole(SMEM))),
        made(REMOTE, exit_sync=False),
        made(REMOTE, cluster=1),
        made(REMOTE, ClusterSync()),
        made(REMOTE, ClusterSync(), scope=Label("kernel")),
    ],
    ids=["local", "opted out", "no cluster", "already there", "already there in a scope"],
)
def test_not_where_it_is_not_needed(function):
    assert insert_exit_sync(function) is function


def test_half_a_barrier_is_not_enough():
    assert len(insert_exit_sync(made(REMOTE, ClusterArrive())).body.ops) == 3


def test_early_returns_reach_it():
    end = Label("kernel")
    early = If(Value(BOOL, "c"), block(Leave(end)), block())
    function = insert_exit_sync(made(early, REMOTE, ClusterSync(), scope=end))
    assert [type(op) for op in function.body.ops] == [Scope, ClusterSync]


def test_it_follows_roles_that_do_not_join():
    function = insert_exit_sync(merge_roles(made(Sync(), role(0, 1, REMOTE), role(1, 3))))
    assert [op.mnemonic for op in function.body.ops] == ["sync", "roles", "cluster.sync"]
    assert function.body.ops[1].joins is False
