"""How a backward pass of attention is cut into blocks, and why.

A CTA has 128 keys, 64 for each of two warpgroups: the sums of their gradients take 2 x 64 x dim numbers, dim registers of a
thread. Scores and their gradients take 64 x queries each. With heads of 128, blocks of 64 queries fit into 240 registers;
heads of 64 take 128, which reads keys and values, the left operands in shared memory, half as often. Of heads of 192 and
256 the sums of one gradient fit: each of the three has a pass of its own, eight products instead of five. Beyond 192
shared memory has one block of queries at a time.
"""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.kernels.matrices import refused

KEYS = 128
"""Keys of a CTA."""
TOGETHER = 128
"""One pass has the sums of both gradients, of keys and of values, for heads of at most this size."""


@frozen
class BackwardConfig:
    """`queries` of a block, `stages` of queries in shared memory; `early`: values' gradients begin before those of scores.

    `ahead`: those of queries before those of keys, so that they are added to global memory under the latter. `apart`:
    gradients of queries by a pass of their own, as with ``deterministic=True``.
    """

    queries: int = 64
    stages: int = 2
    early: bool = True
    ahead: bool = False
    apart: bool = False


def choose_backward(
    dim: int, *, bounded: bool = False, ragged: bool = False, varlen: bool = False, capped: bool = False,
    biased: bool = False, sloped: bool = False,
) -> BackwardConfig:  # fmt: skip
    """The configuration for `dim` columns, which leaves registers for what packed sequences, caps and biases take.

    `bounded`: by a causal mask or a window; `ragged`: keys may end within a block; `biased` by a number for each score,
    `sloped` by one for each head. What is `early` and `ahead` is what was quickest on an H200
    (`attention_backward_orders.json`). Under a mask, without a cap or a bias, it is both, since the kernel then masks in a
    branch: heads of 128 take 3 to 14% less time so, those of 96 2 and 5%, those of 64 8 to 12%. Without a mask heads of 96
    and 128 take 12% longer with `early`, those of 64 8%; `ahead` is worth 3% to those of 96 and 128.
    Anyone may call it; no hardware is involved. Example: ``choose_backward(64).queries == 128``.
    """
    if dim > TOGETHER:
        return BackwardConfig(stages=2 if dim <= 192 else 1, early=False, apart=True)
    masked = bounded or ragged or varlen
    more = capped or biased
    if dim == 64 and (varlen or more):
        return BackwardConfig(queries=64)
    if dim == 64:
        return BackwardConfig(queries=128, early=masked, ahead=masked)
    if masked and not more and not sloped:
        return BackwardConfig(ahead=True)
    return BackwardConfig(early=False, ahead=not bounded and not varlen and not more, apart=dim == 128 and more)


def require_config_fits(config: BackwardConfig, dim: int) -> None:
    """Refuses a configuration for which there is no kernel."""
    if config.queries not in ((64, 128) if dim == 64 else (64,)):
        raise refused(
            f"blocks of {config.queries} queries with heads of {dim} elements",
            "give 64, with heads of 64 elements also 128",
        )
    if dim > TOGETHER and not config.apart:
        raise refused(f"heads of {dim} elements without apart", "give apart=True: each gradient has a pass of its own")
    if dim > 192 and config.stages != 1:
        raise refused(f"{config.stages} stages with heads of {dim} elements", "give 1: shared memory has no room for more")
    if dim <= 192 and (config.stages not in (2, 3) or (config.stages == 3 and config.queries == 128)):
        raise refused(f"{config.stages} stages of {config.queries} queries", "give 2, or 3 of 64 queries")
