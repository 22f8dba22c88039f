"""Every instruction means something, or says why not."""

from __future__ import annotations

import phalanx.sim.ops  # noqa: F401
from phalanx.ir.core import INSTRUCTIONS
from phalanx.sim.registry import INLINES, MEANINGS, NEVER_RUN, TEXTS, covered


def test_every_instruction_has_a_meaning():
    assert [cls.__name__ for cls in INSTRUCTIONS if cls not in covered()] == []


def test_no_instruction_has_two_meanings():
    assert not set(MEANINGS) & set(TEXTS)
    assert not (set(MEANINGS) | set(TEXTS)) & set(NEVER_RUN)
    assert set(INLINES) <= set(MEANINGS)


def test_a_meaning_lives_in_the_file_of_its_family():
    for table in (MEANINGS, TEXTS):
        for cls, entry in ((cls, table[cls]) for cls in INSTRUCTIONS if cls in table):  # tests may plant others
            function = getattr(entry, "prepare", entry)
            assert function.__module__ == f"phalanx.sim.ops.{cls.family}"
