"""Every instruction of every family stands on every floor, under the same file name, and is documented."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import phalanx.cuda.ops
import phalanx.sim.ops  # noqa: F401
from phalanx.cuda.text.registry import EMITTERS
from phalanx.ir.core import INSTRUCTIONS, Op
from phalanx.language.builtin import BUILTINS
from phalanx.sim.registry import INLINES, MEANINGS, NEVER_RUN, TEXTS

NEVER_EMITTED = {
    "mbarrier.transaction": "a pass turns it into mbarrier.arrive_expect_tx before text is written",
    "role": "written as a region of roles",
    "cluster.load": "a pass turns it into the tma.load of each rank's share",
    "cluster.turn": "the text of an exchange counts by itself",
    "cluster.send": "the text of an exchange sends by itself",
    "cluster.receive": "the text of an exchange reads by itself",
    "cluster.multicast": "a pass turns it into the tma.load of the rank that fetches",
}
ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_has_a_meaning_in_the_simulator(cls: type[Op]) -> None:
    assert cls in MEANINGS or cls in TEXTS or cls in INLINES or cls in NEVER_RUN


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_has_an_emitter(cls: type[Op]) -> None:
    assert cls in EMITTERS or cls.mnemonic in NEVER_EMITTED


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_stands_in_the_file_of_its_family(cls: type[Op]) -> None:
    for floor, table in (("sim", MEANINGS), ("cuda", EMITTERS)):
        if cls in table:
            entry = table[cls]
            function = getattr(entry, "prepare", entry)
            home = inspect.getmodule(inspect.unwrap(function)).__name__
            assert home == f"phalanx.{floor}.ops.{cls.family}", f"{cls.__name__} is in {home}"


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_is_documented(cls: type[Op]) -> None:
    assert cls.__doc__ and not cls.__doc__.startswith(cls.__name__ + "("), "a docstring of its own"


def test_mnemonics_are_unique() -> None:
    assert len({cls.mnemonic for cls in INSTRUCTIONS}) == len(INSTRUCTIONS)


@pytest.mark.parametrize("entry", BUILTINS, ids=lambda entry: entry.name)
def test_functions_say_who_where_and_how(entry) -> None:
    text = entry.__doc__ or ""
    assert "Example: ``" in text or "Example::" in text
    assert "agent" in text or "warps of the CTA" in text or "Outside roles" in text, "who may call it"
    assert "GPU" in text or "sm_" in text, "which hardware"
    assert "PTX" in text or "shfl" in text or "printf" in text or "simulator" in text, "which PTX"


def test_the_reference_is_current(regenerate: bool) -> None:
    page = ROOT / "docs" / "reference.md"
    fresh = importlib.import_module("phalanx.tools.reference").text()
    if regenerate:
        page.write_text(fresh)
    assert page.read_text() == fresh, "run make golden"
