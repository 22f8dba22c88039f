"""How long the parts of a card take: rates and latencies for the model of time (`sim/timeline/`), read from a data file.

A card's file is `machines/<name>_time.json`, or what `phalanx calibrate` has written; every key is a field of `Rates`.
Cycles are those of an SM.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from phalanx.frozen import frozen

FOLDER = Path(__file__).parent
CARDS = {"sm_90a": "h200", "sm_100a": "b200", "sm_120a": "b200"}
"""The card whose numbers stand for a target, where no other is named."""


@frozen
class Rates:
    """A card in cycles of an SM, and bytes; `source` says where the numbers come from."""

    name: str
    device: str
    """What the driver calls the card."""
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
    l2_sm_rate: float
    """Bytes between L2 and one SM in a cycle, while few SMs ask."""
    l2_together: float
    """Exponent: bytes that are asked for n times, by CTAs that run at about the same time, cost n ** -l2_together each."""
    l2_bytes: float
    """What L2 keeps."""
    hbm_rate: float
    """Bytes of HBM in a microsecond, for the whole card."""
    hbm_sm_rate: float
    """Bytes of HBM for one SM in a cycle, while few ask."""
    zero_rate: float
    """Bytes of zeros that get into an SM in a cycle, for what lies outside an array."""
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


@cache
def rates_of(card: str) -> Rates:
    """The numbers of a card that ships, by its name ("h200") or a target ("sm_90a"), as the model of time uses them."""
    return corrected(measured_rates(card))


def measured_rates(card: str) -> Rates:
    """The numbers of a card that ships as they were measured, or are public: without corrections."""
    return read_rates(FOLDER / f"{CARDS.get(card, card)}_time.json")


def corrected(rates: Rates) -> Rates:
    """Measured numbers with what was fitted to whole kernels: how much of what a probe reaches such kernels reach.

    The factors are those of the card that stands for the target, `machines/<name>_corrections.json`, which
    `benchmarks/fit_time.py` writes; a number without one stays as it was measured.
    """
    path = FOLDER / f"{CARDS[rates.arch]}_corrections.json"
    factors = json.loads(path.read_text())["factors"] if path.is_file() else {}
    changes: dict[str, Any] = {name: getattr(rates, name) * factor for name, factor in factors.items()}
    return replace(rates, **changes)


def shipped() -> list[Rates]:
    """The numbers of all cards that ship."""
    return [rates_of(name) for name in sorted(set(CARDS.values()))]


def read_rates(path: Path) -> Rates:
    """The numbers in a file.

    For rooms above, on any machine. A ValueError says what is wrong with a file that is none of a card. Example:
    ``read_rates(Path("h200_time.json")).sms``.
    """
    given = json.loads(path.read_text())
    kinds = {field.name: str(field.type) for field in fields(Rates)}
    if not isinstance(given, dict) or given.keys() != kinds.keys():
        odd = sorted(kinds.keys() ^ given.keys()) if isinstance(given, dict) else []
        raise ValueError(f"it has not the numbers of a card ({', '.join(odd[:4]) or 'no object'})")
    for name, value in given.items():
        if not fits(value, kinds[name]):
            raise ValueError(f"{name} is {value!r}")
    return Rates(**given)


def fits(value: Any, kind: str) -> bool:
    """Whether a value is a text, or a number above zero."""
    if kind == "str":
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def text_of(rates: Rates) -> str:
    """A card's file, with four digits a number that was measured."""
    plain = {name: rounded(value) for name, value in asdict(rates).items()}
    return json.dumps(plain, indent=2) + "\n"


def rounded(value: Any) -> Any:
    """A number with four digits, whole where it has more before its point."""
    if not isinstance(value, float):
        return value
    found = float(f"{value:.4g}")
    return int(found) if found.is_integer() else found
