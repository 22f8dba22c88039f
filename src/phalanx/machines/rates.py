"""How long the parts of a card take: rates and latencies for the model of time (`sim/timeline/`), read from a data file.

A card's file is `machines/<name>_time.json`; every key is a field of `Rates`. Cycles are those of an SM.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from phalanx.frozen import frozen

FOLDER = Path(__file__).parent
CARDS = {"sm_90a": "h200", "sm_100a": "b200", "sm_120a": "b200"}
"""The card whose numbers stand for a target, where no other is named."""


@frozen
class Rates:
    """A card in cycles of an SM, and bytes; `source` says where the numbers come from."""

    name: str
    arch: str
    source: str
    sms: int
    clock: float
    """Cycles in a microsecond, as in a burst after a rest."""
    launch: float
    """From the start of a launch, behind another one, until its first CTAs run."""
    cta_start: float
    """From the start of a CTA to its first instruction."""
    fork: float
    """From the code around roles to the first instruction of a role."""
    schedulers: float
    """Warp instructions that an SM issues in a cycle."""
    issue_share: float
    """The share of its issue slots that a run of independent instructions fills."""
    special_lanes: float
    """Elements of special functions (exp2, rsqrt ...) that an SM computes in a cycle."""
    step: float
    """What an agent spends on addresses and counters before an instruction with an effect."""
    sync: float
    """A barrier of the threads of one CTA or role, after the last has come."""
    tensor_rate: float
    """Operations of tensor cores in 16 bits, of an SM in a cycle; other types by their size."""
    tensor_share_mma: float
    """The share of that rate which `mma.sync` reaches."""
    tensor_drain: float
    """From the end of the last product's occupation of the tensor cores until its result can be read."""
    tensor_drain_registers: float
    """Time of that drain where the left operand comes from registers."""
    product_issue: float
    """Cycles in which an agent issues one instruction of tensor cores."""
    product_rows: float
    """Rows of one such instruction: for each such block of rows, it reads the right operand anew."""
    shared_rate: float
    """Bytes that the shared memory of an SM moves in a cycle."""
    shared_latency: float
    l2_rate: float
    """Bytes between L2 and one SM in a cycle, while all SMs ask."""
    l2_bytes: float
    """What L2 keeps."""
    hbm_rate: float
    """Bytes of HBM in a microsecond, for the whole card."""
    load_latency: float
    """A load by threads out of L2."""
    load_latency_hbm: float
    atomic_latency: float
    copy_issue: float
    """Cycles in which a thread gives the copy engine one copy."""
    copy_latency: float
    """A copy by the copy engine out of L2, from its issue to the first byte on its barrier."""
    copy_latency_hbm: float
    copy_multicast: float
    """How much later a copy is there that goes to several CTAs."""
    store_read: float
    """Until the copy engine has begun to read the source of a store."""
    store_latency: float
    """Until what it wrote counts as written."""
    peer_rate: float
    """Bytes from one SM to another of its cluster in a cycle."""
    peer_latency: float
    arrive_issue: float
    arrive_latency: float
    """From an arrival to the phase it completes."""
    remote_arrive_latency: float
    """Time from an arrival to the phase it completes in another CTA."""
    wait: float
    """What a wait for a barrier takes that is passed at once."""
    cluster_sync: float
    fence_proxy: float
    fence_cluster: float
    query: float
    """One round of a loop that polls."""

    @property
    def hbm_share(self) -> float:
        """Bytes of HBM for one SM in a cycle, while all SMs ask."""
        return self.hbm_rate / self.clock / self.sms


@cache
def rates_of(card: str) -> Rates:
    """The numbers of a card by its name ("h200"), or by a target ("sm_90a")."""
    name = CARDS.get(card, card)
    return Rates(**json.loads((FOLDER / f"{name}_time.json").read_text()))
