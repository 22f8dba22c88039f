"""Targets: an architecture is an argument, never ambient state. One table says what each of them has.

Instructions name the features that they need (`ir.effects.Target`); nobody compares numbers of architectures.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from phalanx.errors import Error
from phalanx.frozen import frozen


class Feature(Enum):
    """What some targets have and others lack, each by its PTX."""

    WGMMA = "wgmma"
    """Products of a warpgroup, `wgmma.mma_async`."""
    TCGEN05 = "tcgen05"
    """Tensor memory and its products of floats: `alloc`, `mma`, `cp`, `ld`, `st`, `commit`."""
    TCGEN05_I8 = "tcgen05.mma of integers"
    """`kind::i8`."""
    BLOCK_SCALE = "tcgen05.mma with block scales"
    """`.block_scale` with `.block16` or `.block32`; `.scale_vec` is not on the `f` targets, and not needed."""
    SCALE_INPUT_D = "tcgen05.mma that scales its accumulator"
    """`scale-input-d` of f16 and tf32."""
    TCGEN05_SHIFT = "tcgen05.shift"
    LD_RED = "tcgen05.ld.red"
    """A load of tensor memory that also gives the minimum or maximum over the columns."""
    PAIR_COPIES = "TMA copies of a pair of CTAs"
    """`.cta_group` on `cp.async.bulk.tensor`: bytes on the barrier of the pair's other CTA."""
    GATHER4 = "gather4"
    """`tile::gather4` into the CTA's own shared memory."""
    GATHER4_CLUSTER = "gather4 to several CTAs, and scatter4"
    """`tile::gather4` into `shared::cluster`, with multicast too, `tile::scatter4`, and the prefetch of four rows."""
    CLC = "cluster launch control"
    """`clusterlaunchcontrol.try_cancel` and `query_cancel`."""
    CLC_MULTICAST = "cluster launch control in clusters"
    """`.multicast::cluster::all`: the response in every CTA of the cluster."""
    MMA_NARROW = "mma.sync of 8-, 6- and 4-bit floats in any mix"
    """`mma.sync` with `kind::f8f6f4`."""
    MMA_BLOCK_SCALE = "mma.sync with block scales"
    """`mma.sync` with `.block_scale`."""
    NARROW_CASTS = "conversions to 4- and 6-bit floats"
    """`cvt` of `e2m1x2`, `e3m2x2`, `e2m3x2` and `ue8m0x2`."""
    NARROW_MATRICES = "ldmatrix of 4- and 6-bit elements"
    """`ldmatrix` with `b4x16_p64` or `b6x16_p32`, and of transposed bytes (`m16n16`)."""
    REDUX_F32 = "redux.sync of floats"
    WIDE_ACCESSES = "accesses of 256 bits"
    """`ld.global.v8.b32` and its store."""
    F32X2 = "arithmetic on two floats at once"
    """`fma.rn.f32x2`, `add`, `mul`."""


@frozen
class Arch:
    """A compilation target: what it has, and how much.

    `shared_limit` is the dynamic shared memory a CTA may use, `max_cluster` its largest cluster, `nvrtc` the first NVRTC
    that compiles for it.
    """

    name: str
    features: frozenset[Feature]
    shared_limit: int = 232448
    max_cluster: int = 8
    nvrtc: tuple[int, int] = (13, 0)

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor number of its compute capability: (10, 3) of sm_103a."""
        digits = "".join(letter for letter in self.name if letter.isdigit())
        return int(digits[:-1]), int(digits[-1])

    def has(self, features: Iterable[Feature]) -> bool:
        """Whether it has all of them."""
        return self.features.issuperset(features)

    def __str__(self) -> str:
        return self.name


_SINCE_BLACKWELL = frozenset({
    Feature.GATHER4, Feature.CLC, Feature.CLC_MULTICAST, Feature.NARROW_CASTS, Feature.NARROW_MATRICES,
    Feature.WIDE_ACCESSES, Feature.F32X2,
})  # fmt: skip
_WITH_TENSOR_MEMORY = _SINCE_BLACKWELL | {
    Feature.TCGEN05, Feature.BLOCK_SCALE, Feature.PAIR_COPIES, Feature.GATHER4_CLUSTER,
}  # fmt: skip
_DATACENTER = _WITH_TENSOR_MEMORY | {Feature.SCALE_INPUT_D, Feature.REDUX_F32}
_WORKSTATION = _SINCE_BLACKWELL | {Feature.MMA_NARROW, Feature.MMA_BLOCK_SCALE}
_SMALL_SHARED = 101376

# What NVRTC 13.4 accepts for each (tests/cuda/test_features.py asks it); 13.0 to 13.3 accept the same, but for targets that
# they do not know. A cluster of 16 is measured on an H200 and
# documented for the B200 and its successor; the others have what every target with clusters has, 8.
ARCHS = {
    arch.name: arch
    for arch in (
        Arch("sm_90a", frozenset({Feature.WGMMA}), max_cluster=16),
        Arch("sm_100a", _DATACENTER | {Feature.TCGEN05_I8, Feature.TCGEN05_SHIFT}, max_cluster=16),
        Arch("sm_100f", _DATACENTER, max_cluster=16),
        Arch("sm_103a", _DATACENTER | {Feature.TCGEN05_SHIFT, Feature.LD_RED}, max_cluster=16),
        Arch("sm_103f", _DATACENTER | {Feature.LD_RED}, max_cluster=16),
        Arch("sm_107a", _DATACENTER | {Feature.TCGEN05_SHIFT, Feature.LD_RED}, nvrtc=(13, 4)),
        Arch("sm_107f", _DATACENTER | {Feature.LD_RED}, nvrtc=(13, 4)),
        Arch("sm_110a", _WITH_TENSOR_MEMORY | {Feature.TCGEN05_I8, Feature.TCGEN05_SHIFT, Feature.LD_RED}),
        Arch("sm_110f", _WITH_TENSOR_MEMORY | {Feature.LD_RED}),
        Arch("sm_120a", _WORKSTATION, _SMALL_SHARED),
        Arch("sm_121a", _WORKSTATION, _SMALL_SHARED),
    )
}
USUAL = tuple(ARCHS[name] for name in ("sm_90a", "sm_100a", "sm_120a"))
"""The targets that are tried first, in that order, where nobody names one."""


def archs_with(features: Iterable[Feature]) -> tuple[Arch, ...]:
    """The targets that have all of these features, in the order of the table."""
    wanted = frozenset(features)
    return tuple(arch for arch in ARCHS.values() if arch.has(wanted))


COPY_CHUNK = 16
"""Bytes: where the copy engine begins, what it steps by and how much it moves are multiples of it (`ArrayType.aligned`,
`.whole`); the widest access of a thread moves as many."""
EXPANDED_BOX, EXPANDED_ALIGNMENT = 128, 32
"""Elements along the last axis, and bytes of addresses and strides, that a copy which puts room between elements wants."""
MAX_STRIDE = 1 << 40
"""Bytes between neighbours along an axis of an array from which on TMA has no descriptor."""
MAX_DIM = 1 << 32
"""Elements along an axis that a descriptor can name."""
MAX_BOX = 256
"""Elements of a TMA box along an axis."""
SHARED_LIMIT = ARCHS["sm_90a"].shared_limit
"""Bytes of shared memory of a CTA on Hopper, to which `px.auto` is fitted for every target."""

WARPGROUP = 4
"""Warps, from a multiple of 4 on, that run a Hopper product together, and whose registers `regs=` moves."""
QUARTERS = 4
"""Parts of an SM: each has a scheduler and a register file of its own, and warps are dealt to them in turn."""
REGISTERS_PER_QUARTER = 65536 // QUARTERS


def arch_of(name: str | Arch) -> Arch:
    """The target of that name.

    Anyone may call it. Example: ``arch_of("sm_90a").max_cluster == 16``.
    """
    if isinstance(name, Arch):
        return name
    if name not in ARCHS:
        raise Error(f"unknown target {name!r}", remedy=f"use one of {', '.join(ARCHS)}")
    return ARCHS[name]


def entry_registers(warps: int, ctas_per_sm: int = 1) -> int:
    """Registers a thread starts with where `regs=` is used: an even share, in steps of 8, at most 255.

    The share is that of the fullest quarter of an SM: 13 warps start with as many as 16 do. ptxas decides so for kernels
    with `setmaxnreg`; one that reckoned with more would wait forever for what the pool does not have.
    """
    dealt = -(-warps * ctas_per_sm // QUARTERS)
    return min(255, REGISTERS_PER_QUARTER // (32 * dealt) // 8 * 8)
