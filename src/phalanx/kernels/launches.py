"""How the kernels of this package follow each other on a stream: each is set up while the one before it ends."""

from __future__ import annotations

import phalanx as px


@px.func
def take_turn():
    """The first thing a kernel with ``pdl=True`` does, all its threads: no access to memory comes before it.

    It waits for the end of the launch before, and lets the next one begin. Its CTAs come where CTAs of this one have
    left, prepare their barriers and wait here in their turn: behind another, small products take 0.7 to 1.4 us less.
    """
    px.wait_prior()
    px.launch_dependents()
