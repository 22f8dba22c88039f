"""Whose numbers the model of time uses: what was measured on this machine's GPU, what ships for it, or another card's."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.machines.rates import CARDS, Rates, rates_of, read_rates, shipped
from phalanx.runtime.cache import default_folder
from phalanx.runtime.device.devices import Device, device

NAMED = "PHALANX_CARD"
"""The variable that names a card's file, which is used whatever GPU there is."""

REMEDY = "`phalanx calibrate` measures this card"

_said: set[str] = set()
_read: dict[tuple[str, int], Rates] = {}


@frozen
class Card:
    """The numbers that are used for a target, where they are from, and what there is to say about that."""

    rates: Rates
    path: str
    """The file that `phalanx calibrate` wrote, or "" for numbers that ship."""
    problem: str = ""
    """Why they are not this card's own, where a GPU is there and they are not."""


def card_for(arch: str) -> Card:
    """The numbers for a target on this machine.

    For `px.trace`, choices among candidates and `phalanx doctor`. Example: ``card_for("sm_90a").rates.hbm_rate``.
    """
    named = os.environ.get(NAMED)
    if named:
        return Card(named_rates(named), named)
    here = device()
    known = rates_of(arch)
    if here.simulated or CARDS.get(here.arch) != CARDS.get(arch):
        return Card(known, "")
    path = file_of(here.name)
    if path.is_file():
        try:
            return Card(kept(path), str(path))
        except (OSError, ValueError) as problem:
            return Card(known, "", f"{path} is left out ({problem}), the model of time uses what ships for the {known.name}")
    for each in shipped():
        if each.device == here.name:
            return Card(each, "")
    return Card(known, "", f"the model of time has no numbers of this {here.name} and uses those of the {known.name}")


def rates_for(arch: str) -> Rates:
    """The numbers for a target on this machine; what there is to say about them is said once, in one line."""
    card = card_for(arch)
    if card.problem and card.problem not in _said:
        _said.add(card.problem)
        sys.stderr.write(f"phalanx: {card.problem}; {REMEDY}\n")
    return card.rates


def kept(path: Path) -> Rates:
    """The numbers in a file, which is read again where it has changed."""
    key = (str(path), path.stat().st_mtime_ns)
    if key not in _read:
        _read[key] = read_rates(path)
    return _read[key]


def named_rates(path: str) -> Rates:
    """The numbers in the file that the user named."""
    try:
        return kept(Path(path))
    except (OSError, ValueError) as problem:
        raise Error(
            f"{NAMED} names {path}, which is no card's file: {problem}",
            remedy="name a file that `phalanx calibrate` wrote, or leave the variable out",
        ) from None


def file_of(name: str) -> Path:
    """Where the numbers of a card are, or will be: beside the user's compiled kernels."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return Path(default_folder()) / "cards" / f"{plain}.json"


def write_card(text: str, here: Device, to: Path | None = None) -> Path:
    """Writes the numbers of a card, whole or not at all."""
    path = to or file_of(here.name)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
    return path
