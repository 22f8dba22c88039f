"""Every instruction of every family stands on every floor, under the same file name, and is documented."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import phalanx.cuda.lower.ops
import phalanx.cuda.ops
import phalanx.sim.ops  # noqa: F401
from phalanx.cuda.lower.layout_rules import asks, repeats
from phalanx.cuda.lower.registry import expands, pushes, stand_ins, transfers, without_update
from phalanx.cuda.text.registry import EMITTERS, NEVER_EMITTED
from phalanx.ir.core import INSTRUCTIONS, Op
from phalanx.ir.tables import Table
from phalanx.ir.type_rules import type_rules
from phalanx.language.builtin import BUILTINS
from phalanx.language.objects import exposed_names
from phalanx.passes import registry
from phalanx.sim.registry import INLINES, MEANINGS, NEVER_RUN, TEXTS
from phalanx.tools.reference import MEMBERS

WITHOUT_TILES = {
    "clc": {"try_cancel", "query"},
    "cluster": {
        "rank", "id", "count", "arrive", "wait", "sync", "copy", "load", "multicast", "agree", "turn", "send", "receive",
    },
    "control": {
        "if", "for", "while", "break", "continue", "scope", "leave", "role", "roles", "sync", "wait_prior",
        "launch_dependents", "role_copy", "block_id", "num_blocks", "next_tile",
    },
    "cp_async": {"commit"},
    "gather": {"tma.gather4", "tma.scatter4"},
    "mbarrier": {
        "init", "inval", "fence.barrier_init", "arrive", "expect_tx", "arrive_expect_tx", "transaction", "wait", "test_wait",
    },
    "memory": {"extent", "fence.async_proxy", "fence.cluster"},
    "tcgen05": {
        "tmem.alloc", "tmem.take", "tmem.free", "mma", "commit", "copy", "wait.store", "fence.before", "fence.after",
    },
    "tma": {"load", "store", "reduce", "commit", "wait", "prefetch"},
    "wgmma": {"fence", "commit"},
}
"""Instructions whose operands and results are scalars, views and barriers, or that no target sees: no rule for layouts."""
LOWERING = {
    "@asks": asks, "@repeats": repeats, "@transfers": transfers, "@pushes": pushes, "@stand_ins": stand_ins,
    "@expands": expands, "@without_update": without_update,
}
IN_IR = {"@type_rules": type_rules}
PASSES = {name: table for name, table in vars(registry).items() if isinstance(table, Table)}
ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_has_a_meaning_in_the_simulator(cls: type[Op]) -> None:
    assert cls in MEANINGS or cls in TEXTS or cls in INLINES or cls in NEVER_RUN


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_has_an_emitter(cls: type[Op]) -> None:
    assert (cls in EMITTERS) is not (cls in NEVER_EMITTED)


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_says_how_its_tiles_are_laid_out(cls: type[Op]) -> None:
    without = WITHOUT_TILES.get(cls.family, set())
    assert (cls in asks.entries) is not (cls.mnemonic in without or cls.mnemonic.removeprefix(f"{cls.family}.") in without)


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_stands_in_the_file_of_its_family(cls: type[Op]) -> None:
    for floor, table in (("sim", MEANINGS), ("cuda", EMITTERS)):
        if cls in table:
            entry = table[cls]
            function = getattr(entry, "prepare", entry)
            home = inspect.getmodule(inspect.unwrap(function)).__name__
            assert home == f"phalanx.{floor}.ops.{cls.family}", f"{cls.__name__} is in {home}"
    for floor, tables in (("ir", IN_IR), ("passes", PASSES), ("cuda.lower", LOWERING)):
        for name, entries in tables.items():
            if cls in entries.entries:
                home = entries.entries[cls].__module__
                assert home == f"phalanx.{floor}.ops.{cls.family}", f"{name} of {cls.__name__} is in {home}"


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda cls: cls.mnemonic)
def test_is_documented(cls: type[Op]) -> None:
    assert cls.__doc__ and not cls.__doc__.startswith(cls.__name__ + "("), "a docstring of its own"


@pytest.mark.parametrize("floor", ["ir", "passes", "sim", "cuda", "cuda/lower"])
def test_families_are_found_by_their_files(floor: str) -> None:
    """A process that imports the package has the module of every file in it."""
    folder = ROOT / "src" / "phalanx" / floor / "ops"
    package = f"phalanx.{floor.replace('/', '.')}.ops"
    wanted = {f"{package}.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    assert len(wanted) > 5, "the files are found"
    script = f"import sys, {package}; sys.exit(len({sorted(wanted)!r}) - len(set({sorted(wanted)!r}) & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_mnemonics_are_unique() -> None:
    assert len({cls.mnemonic for cls in INSTRUCTIONS}) == len(INSTRUCTIONS)


METHODS = [
    getattr(members, name)
    for _, members in MEMBERS
    for name in exposed_names(members)
    if getattr(members, name).__exposed__ == "method"
]


@pytest.mark.parametrize("entry", [*BUILTINS, *METHODS], ids=lambda entry: getattr(entry, "name", entry.__name__))
def test_functions_say_who_where_and_how(entry) -> None:
    text = entry.__doc__ or ""
    assert "Example: ``" in text or "Example::" in text
    assert "agent" in text or "warps of the CTA" in text or "Outside roles" in text, "who may call it"
    assert "GPU" in text or "sm_" in text, "which hardware"
    assert "PTX" in text or "shfl" in text or "printf" in text or "simulator" in text, "which PTX"


def test_the_reference_is_current(regenerate: bool) -> None:
    reference = importlib.import_module("phalanx.tools.reference")
    fresh = reference.pages()
    if regenerate:
        reference.write(ROOT / "docs")
    found = {f"reference/{path.name}" for path in (ROOT / "docs" / "reference").glob("*.md")} | {"reference.md"}
    assert {name: (ROOT / "docs" / name).read_text() for name in found} == fresh, "run make golden"


def test_a_family_that_is_listed_nowhere_has_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = importlib.import_module("phalanx.tools.reference")
    listed = reference.pages()
    monkeypatch.setattr(reference, "FAMILIES", tuple(f for f in reference.FAMILIES if f.name != "products"))
    found = reference.pages()
    assert "px.tcgen05.mma(" in listed["reference/products.md"] and "reference/products.md" not in found
    assert "px.tcgen05.mma(" in found["reference/tcgen05.md"] and "px.dot(" in found["reference/mma.md"]


def test_the_table_of_families_is_complete() -> None:
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| `\w+\.py` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted({cls.family for cls in INSTRUCTIONS}), "a family needs a row in docs/architecture.md"


def test_contributing_lists_the_files_of_an_instruction() -> None:
    """Those that name the class of its example, no more and no fewer."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^\*\*\d\. `(src/[^`]+)`", text, re.MULTILINE)
    files = [file for file in (ROOT / "src").rglob("*.py") if "TmaPrefetch" in file.read_text()]
    assert sorted(listed) == sorted(str(file.relative_to(ROOT)) for file in files)
    assert f"{['no', 'one', 'two', 'three', 'four', 'five', 'six'][len(listed)]} floors" in text
