"""IR and CUDA text of pinned kernels, kept as files, or as digests. `make golden` writes them anew; read the diff."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from examples.cases import EXAMPLES, random_case
from golden.blackwell import CASES as BLACKWELL
from golden.kernels import CASES
from golden.library import CASES as LIBRARY
from golden.prelude import apart, listed_in, read_helpers, written
from golden.workstation import CASES as WORKSTATION
from phalanx.cuda.abi import Extras
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import Module, generate
from phalanx.ir.archs import arch_of
from phalanx.runtime.launch import dispatch

HERE = Path(__file__).resolve().parent / "expected"
DIGESTED = [f"blackwell_v{rung}" for rung in (1, 2, 3, 5, 6)]
"""Rungs that differ little from their neighbours, of which numbers over their texts are kept."""
NAMES = [name for name in (*EXAMPLES, *CASES, *LIBRARY, *BLACKWELL, *WORKSTATION) if name not in DIGESTED]
HELPERS = HERE / "helpers.cuh"
LIBRARYS = sorted(path.name for path in (Path(px.__file__).parent / "kernels").rglob("*.py"))
PLACES = re.compile(rf"\b({'|'.join(map(re.escape, LIBRARYS))}):\d+")
DIGESTS = HERE / "digests.txt"


def compiled(name: str, arch: str = "sm_90a") -> Any:
    for cases, target in ((BLACKWELL, "sm_100a"), (WORKSTATION, "sm_120a")):
        if name in cases:
            launch, args, constants = cases[name]
            return px.compile(launch, *args, arch=target, **constants)
    if name in CASES or name in LIBRARY:
        launch, args, constants = (CASES | LIBRARY)[name]
        return px.compile(launch, *args, arch=arch, **constants)
    case = random_case(name, 0)
    return px.compile(case.launch, *case.args, arch=arch, **case.constants)


def only_text(specialisation: Any, arch: str, extras: Extras) -> Module:
    target = arch_of(arch)
    return generate(lower(specialisation.prepared_for(target), target, extras=extras))


def text_of(name: str, is_kept: Callable[[Any], bool]) -> Any:
    """The texts of a kernel. Those that are as kept were compiled when they were kept, which takes longer than writing them;
    only others are compiled now, as a compiler that finds registers wanting may ask for another text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "compiled_for", only_text)
        made = compiled(name)
    return made if is_kept(made) else compiled(name)


def kept_form(text: str) -> str:
    """A text as it is kept: of the library's own lines without their numbers, which any edit of the file moves."""
    return PLACES.sub(r"\1", text)


def digest(made: Any) -> str:
    """A number over the IR of a kernel, and one over its CUDA text."""
    return " ".join(hashlib.sha256(text.encode()).hexdigest()[:16] for text in (made.ir, made.source))


@pytest.mark.long
@pytest.mark.parametrize("name", [*NAMES, *DIGESTED])
def test_compiles(name: str) -> None:
    assert compiled(name).cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize("name", NAMES)
def test_text_is_as_kept(name: str, regenerate: bool) -> None:
    file = HERE / f"{name}.cu"
    kept_text = file.read_text() if file.exists() else None
    made = compiled(name) if regenerate else text_of(name, lambda made: kept_form(apart(made.source)[0]) == kept_text)
    body, helpers = apart(made.source)
    for suffix, text in (("ir", kept_form(made.ir)), ("cu", kept_form(body))):
        path = HERE / f"{name}.{suffix}"
        if regenerate:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), "run make golden"
        assert text == path.read_text(), f"{path.name} differs: run make golden and read the diff"
    kept = read_helpers(HELPERS.read_text()) if HELPERS.exists() else {}
    if regenerate:
        kept |= helpers
        HELPERS.write_text(written(kept))
    for helper, text in helpers.items():
        assert kept.get(helper) == text, f"{helper} of helpers.cuh differs: run make golden and read the diff"


@pytest.mark.parametrize("name", DIGESTED)
def test_digest_is_as_kept(name: str, regenerate: bool) -> None:
    kept = dict(line.split(" ", 1) for line in DIGESTS.read_text().splitlines()) if DIGESTS.exists() else {}
    made = compiled(name) if regenerate else text_of(name, lambda made: digest(made) == kept.get(name))
    if regenerate:
        kept[name] = digest(made)
        DIGESTS.write_text("".join(f"{each} {kept[each]}\n" for each in DIGESTED if each in kept))
    changed = "IR and CUDA text of {0} changed: python -m golden.texts of both commits shows how; then make golden"
    assert digest(made) == kept.get(name), changed.format(name)


@pytest.mark.share(7)
@pytest.mark.parametrize("name", [name for name in CASES if name != "attention_tiles"])  # by wgmma, which it has not
def test_compiles_for_blackwell_too(name: str) -> None:
    assert compiled(name, "sm_100a").cubin[:4] == b"\x7fELF"


def test_nothing_is_left_over(regenerate: bool) -> None:
    assert {path.stem for path in HERE.glob("*.ir")} == {path.stem for path in HERE.glob("*.cu")} == set(NAMES)
    used = set().union(*(listed_in(path.read_text()) for path in HERE.glob("*.cu")))
    kept = read_helpers(HELPERS.read_text())
    if regenerate:
        kept = {name: text for name, text in kept.items() if name in used}
        HELPERS.write_text(written(kept))
    assert set(kept) == used
