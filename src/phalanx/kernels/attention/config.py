"""How a call of attention is cut: warpgroups, keys a block, stages, registers, and why.

What there is to share out, on an SM of sm_90: 65,536 registers and 227 KB of shared memory.

- *Registers* decide. Each thread of a warpgroup holds, for 64 queries, its part of the result (value_dim / 2
  registers), of a block's scores (keys / 2) and of the powers before it, packed (keys / 4). Two warpgroups have 240
  registers each, three 160, of which about 36 go to addresses, maxima, sums and the rest. The producer makes do with 24
  or 32.
- *Warpgroups.* A third one fills the gaps that two leave to the tensor cores while both do their softmax: three where
  the result leaves room for at least 80 keys, up to heads of 128; two beyond.
- *Keys a block*: as many as then fit, in steps of 16: the work that a block costs whatever its size is spread over more
  keys. Bias tiles need a register for each score besides, so that they have fewer.
- *Stages*: two of K and of V, each in use for a whole step; with three warpgroups as many more as there is room for, up
  to four. They let warpgroups be apart: one is between two tiles while the others multiply. In bursts on an H200 a third
  one is worth 1% to heads of 128; a third and a fourth one 2% to heads of 64, and 5% where they are causal.
- *Places for Q*: two, so that the next tile's is there when this one ends; the result leaves through the first. Where
  results are not as wide as queries, or shared memory is short, one place, and another for the result, or for parts
  of it.
- *8-bit floats*: powers take half the registers, and rows of transposed values, as long as a block, are best 128 bytes.
"""

from __future__ import annotations

from dataclasses import replace

from phalanx.frozen import frozen
from phalanx.kernels.attention.arguments import DIMS, Heads
from phalanx.kernels.attention.forms import TilesForm
from phalanx.kernels.attention.scores import LAZY
from phalanx.kernels.matrices import HALVES, refused

GROUP_ROWS = 64
"""Queries of a warpgroup: the rows of one `wgmma`."""


@frozen
class AttentionConfig:
    """How attention is cut: `groups` warpgroups of 64 queries each, blocks of `keys` keys, and the constants of the ring.

    `slack`: by how much, as an exponent of 2, a row's scores may exceed the maximum that its results refer to; 0
    rescales a row wherever its maximum grows, which is slower and a little more exact on peaked scores.
    `schedule`: how CTAs get their tiles, as in `px.persistent`. A counter is quicker than a static deal also where all tiles
    are equally long, by 0.4% in bursts on an H200: not all SMs are equally quick.
    """

    groups: int = 3
    keys: int = 80
    stages: int = 2
    query_stages: int = 2
    parts: int = 1
    schedule: str = "counter"
    slack: float = LAZY
    producer_regs: int | None = 32
    regs: int | None = 160

    @property
    def rows(self) -> int:
        """Queries of a tile."""
        return GROUP_ROWS * self.groups

    def form(self, heads: Heads, bias_kind: str | None = None, sure: bool = False) -> TilesForm:
        """What the kernel computes for such heads. Results leave through Q's place where that is free, and as wide."""
        dim, wide = heads.columns
        as_wide = wide == dim and heads.out_dtype == heads.dtype
        own_out = self.query_stages == 1 or not as_wide
        return TilesForm(dim, wide, wide == heads.value_dim, own_out, bias_kind, sure)


TWO = AttentionConfig(groups=2, keys=128, query_stages=1, producer_regs=24, regs=240)
CHOICES = {
    (64, 64): AttentionConfig(keys=128, stages=4),
    (96, 96): AttentionConfig(keys=80, stages=4),
    (128, 128): AttentionConfig(keys=80, stages=3),
    (160, 160): replace(TWO, keys=128, parts=5),
    (192, 128): replace(TWO, keys=112),
    (192, 192): replace(TWO, keys=96, parts=3),
    (224, 224): replace(TWO, keys=80, parts=7, producer_regs=32, regs=232),
    (256, 256): replace(TWO, keys=64, parts=2),
}
"""Configurations by the sizes of heads of keys and of values, for calls that need no further registers."""
BIASED = {
    (64, 64): replace(TWO, keys=128), (96, 96): replace(TWO, keys=96), (128, 128): replace(TWO, keys=96),
    (160, 160): replace(TWO, keys=80), (192, 128): replace(TWO, keys=80), (192, 192): replace(TWO, keys=64),
    (224, 224): replace(TWO, keys=48, producer_regs=32, regs=232), (256, 256): replace(TWO, keys=32, parts=2),
}  # fmt: skip
"""Configurations of calls whose scores each have a bias of their own, or a cap, by the sizes of heads."""
NARROW = {
    dim: replace(TWO, keys=128 if dim < 224 else 64, slack=0.0, stages=3 if dim <= 128 else 2) for dim in DIMS
}
"""Configurations for 8-bit floats, by the size of a head."""


FEWER = {("window", 64): 112, ("window", 128): 64, ("packed", 128): 64}
"""Keys a block, by the kind of a call and its heads: where tiles take more numbers to find, registers are left for fewer."""
REGISTERS = {("window", 96): (40, 152)}
"""Registers of the producer and of the other warpgroups, where the usual ones do not suffice."""


def choose(heads: Heads, *, kind: str = "full", biased: bool = False) -> AttentionConfig:
    """The configuration of a call, as the module's docstring explains it.

    `kind`: "full", "causal", "window" (a bound to the left), or "packed"; `biased`: scores have a
    cap or a bias. Anyone may call it; no hardware is involved. Example: ``choose(heads, kind="causal").keys``.
    """
    if heads.dtype not in HALVES:
        return NARROW[heads.columns[0]]
    if biased:
        return BIASED[heads.columns]
    chosen = CHOICES[heads.columns]
    dim = heads.columns[0]
    producer, others = REGISTERS.get((kind, dim), (chosen.producer_regs, chosen.regs))
    return replace(chosen, keys=FEWER.get((kind, dim), chosen.keys), producer_regs=producer, regs=others)


def require_fits(config: AttentionConfig, heads: Heads) -> None:
    """Refuses a configuration with which the kernel would not be right, or could not be."""
    unit = 16 if heads.dtype in HALVES else 32
    if config.keys % unit or not unit <= config.keys <= 256:
        raise refused(f"blocks of {config.keys} keys", f"give a multiple of {unit} up to 256")
    if heads.dtype not in HALVES and config.slack:
        raise refused(f"slack={config.slack} for {heads.dtype}", "give slack=0: larger powers are beyond its numbers")
    if config.groups not in (1, 2, 3):
        raise refused(f"{config.groups} warpgroups", "give 1, 2 or 3")
    skipped = -(-(config.rows - GROUP_ROWS) // config.keys)
    if config.stages < max(2, skipped):
        raise refused(
            f"{config.stages} stages of {config.keys} keys",
            f"give at least {max(2, skipped)}: a group holds one while it passes on those beyond its reach",
        )
    if config.query_stages not in (1, 2):
        raise refused(f"{config.query_stages} places for Q", "give 1 or 2")
