"""Whose numbers the model of time uses: what was measured on this machine's GPU, what ships for it, or another card's."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from phalanx.errors import Error
from phalanx.machines.rates import CARDS, Rates, corrected, rates_of, read_rates, shipped, text_of
from phalanx.runtime.cache import default_folder, digest
from phalanx.runtime.device.devices import Device, device

NAMED = "PHALANX_CARD"
"""The variable that names a card's file, which is used whatever GPU there is."""

REMEDY = "`phalanx calibrate` measures this card"

_said: set[str] = set()
_cards: dict[tuple[str, ...], Card] = {}


@dataclass(frozen=True)
class Card:
    """The numbers that are used for a target, where they are from, and what there is to say about that."""

    rates: Rates
    path: str
    """The file that `phalanx calibrate` wrote, or "" for numbers that ship."""
    problem: str = ""
    """Why they are not this card's own, where a GPU is there and they are not."""

    @cached_property
    def key(self) -> str:
        """What tells its numbers from others."""
        return digest(text_of(self.rates))


def card_for(arch: str) -> Card:
    """The numbers for a target on this machine, as they were when they were first asked for.

    For `px.trace`, choices among candidates and `phalanx doctor`. Example: ``card_for("sm_90a").rates.hbm_rate``.
    """
    here = device()
    key = (arch, here.name, here.arch, os.environ.get(NAMED, ""), default_folder())
    found = _cards.get(key)
    if found is None:
        found = _cards[key] = found_card(arch, here)
    return found


def found_card(arch: str, here: Device) -> Card:
    """The numbers for a target, looked for."""
    named = os.environ.get(NAMED)
    if named:
        return Card(named_rates(named), named)
    known = rates_of(arch)
    if here.simulated or CARDS.get(here.arch) != CARDS.get(arch):
        return Card(known, "")
    path = file_of(here.name)
    if path.is_file():
        try:
            return Card(corrected(read_rates(path)), str(path))
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


def named_rates(path: str) -> Rates:
    """The numbers in the file that the user named."""
    try:
        return corrected(read_rates(Path(path)))
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
    _cards.clear()
    return path
