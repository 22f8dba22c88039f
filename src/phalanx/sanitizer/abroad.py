"""What agents know of clusters other than their own: a vector for each, as that cluster's agents published it.

It goes the way of all knowledge: an ordered atomic brings it from cluster to cluster, and every release of one who has it
hands it on within the release's scope, to the CTA or to the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Vectors = Mapping[int, np.ndarray]


class Abroad:
    """Vectors of other clusters by their numbers. Neither it nor any of its vectors ever changes."""

    __slots__ = ("before_fence", "known")

    def __init__(self, known: Vectors, before_fence: Vectors) -> None:
        self.known = known
        self.before_fence = before_fence
        """What was known of them at a proxy fence for global memory, by somebody of another cluster than theirs."""

    def fenced(self) -> Abroad:
        """What is known behind a proxy fence for global memory."""
        return Abroad(self.known, self.known)

    def without(self, cluster: int) -> Abroad:
        """What is news for an agent of that cluster: all but the cluster's own vector."""
        if cluster not in self.known:
            return self
        known = {index: vector for index, vector in self.known.items() if index != cluster}
        return Abroad(known, self.before_fence)

    def adding(self, cluster: int, vector: np.ndarray) -> Abroad:
        """What is known with the vector of one more cluster."""
        return Abroad({**self.known, cluster: vector}, self.before_fence)


NOTHING = Abroad({}, {})


def joined(some: Abroad, more: Abroad) -> Abroad:
    """What is known one way or the other."""
    if some is more or more is NOTHING:
        return some
    if some is NOTHING:
        return more
    return Abroad(_together(some.known, more.known), _together(some.before_fence, more.before_fence))


def _together(some: Vectors, more: Vectors) -> Vectors:
    if not more or some is more:
        return some
    if not some:
        return more
    out = dict(some)
    for cluster, vector in more.items():
        mine = out.get(cluster)
        if mine is None:
            out[cluster] = vector
        elif mine is not vector:
            out[cluster] = np.maximum(mine, vector)
    return out
