"""How the kernels of this package are launched: each is set up while the one before it ends, by as many clusters as fit."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.symbolic.choices import chosen_at_example

SIMULATED_CLUSTERS, SIMULATED_SMS = 2, 4
"""Clusters that stay, in the simulator, and SMs that work is dealt to there: a few show as much as all."""


@px.func
def wait_for_prior_launch():
    """Waits for the end of the launch before this one on the stream, and lets the next one begin.

    It is the first thing that a kernel with ``pdl=True`` does, with all its threads: no access to memory comes before it.
    The next launch's CTAs come where CTAs of this one have left, prepare their barriers and wait here in their turn:
    behind another launch, small products take 0.7 to 1.4 us less.
    """
    px.wait_prior()
    px.launch_dependents()


def sms_of(x: Any) -> int:
    """The number of SMs of the GPU that has an array, whose work is dealt to all of them; a few in the simulator."""
    info = describe(x)
    return px.device(info.device).sms if info is not None and info.kind == "cuda" else SIMULATED_SMS


@chosen_at_example
def clusters_at_once(kernel: Any, cluster: int, args: tuple[Any, ...], constants: dict[str, Any]) -> int:
    """How many clusters of the kernel the GPU of the arguments holds, as its driver says; a few in the simulator.

    Where there is no driver to ask, as when launches are only looked at, nothing is compiled.
    """
    infos = [describe(argument) for argument in args]
    first = infos[0]
    assert first is not None
    if first.kind != "cuda":
        return SIMULATED_CLUSTERS
    device = px.device(first.device)
    if device.simulated:
        return device.clusters(cluster)
    key = (kernel, first.device, tuple(info and info.dtype_name for info in infos), tuple(constants.items()))
    if key not in _clusters:
        made = px.compile(kernel[cluster], *args, arch=device.arch, **constants)
        _clusters[key] = device.clusters(made)
    return _clusters[key]


_clusters: dict[tuple[Any, ...], int] = {}
