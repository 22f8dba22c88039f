"""Line information for profilers: `#line` in the text and the user's lines in the machine code, on request alone."""

from __future__ import annotations

import itertools
import re
import struct
from pathlib import Path

import pytest

import phalanx as px
from phalanx.cuda.abi import Extras
from phalanx.cuda.text.lines import with_line_directives, without_line_directives
from phalanx.ir.archs import arch_of
from phalanx.runtime.compiled import program_key
from phalanx.runtime.launch.specialise import read_arguments, specialise

HERE = __file__.replace("\\", "/")
FILE = dict(enumerate(map(str.strip, Path(__file__).read_text("utf-8").splitlines()), 1))
"""The lines of this file by their numbers."""


@px.func
def halved(x):
    return x * 0.5


@px.kernel(warps=4)
def product(A, B, C, *, BK=64):
    acc = px.zeros((64, 64), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK)):
        acc = px.dot(px.load(A[0:64, k : k + BK]), px.load(B[0:64, k : k + BK]).T, acc)
    px.store(C[0:64, 0:64], halved(acc))


ARGUMENTS = (px.spec((64, 256), px.bf16), px.spec((64, 256), px.bf16), px.spec((64, 64), px.f32))


def sections(elf: bytes) -> dict[str, bytes]:
    """What an ELF file has, by the names of its sections."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, table + number * size) for number in range(count)]
    text = elf[heads[names][4] :]
    return {text[head[0] : text.index(b"\0", head[0])].decode(): elf[head[4] : head[4] + head[5]] for head in heads}


@pytest.fixture(scope="module")
def made() -> tuple[px.Compiled, px.Compiled]:
    return px.compile(product[1], *ARGUMENTS), px.compile(product[1], *ARGUMENTS, line_info=True)


def test_nothing_changes_but_lines(made: tuple[px.Compiled, px.Compiled]) -> None:
    plain, located = made
    assert "#line" not in plain.source and plain.source == without_line_directives(located.source)
    assert (plain.registers, plain.spills, plain.shared_bytes) == (located.registers, located.spills, located.shared_bytes)
    before, after = sections(plain.cubin), sections(located.cubin)
    assert ".debug_line" not in before and ".debug_line" in after
    assert before[".text.product_kernel"] == after[".text.product_kernel"], "not an instruction is another"


def test_each_line_of_the_kernel_is_one_of_the_users(made: tuple[px.Compiled, px.Compiled]) -> None:
    _, located = made
    kernel = located.source[located.source.index('extern "C"') :].splitlines()
    seen = set()
    place = None
    for before, text in itertools.pairwise(kernel):
        comment = re.match(r"\s*// test_line_info\.py:(\d+): (.*)", text)
        if comment:
            place = int(comment[1])
            assert comment[2].startswith(FILE[place])
        elif text.strip() and not text.startswith("#line") and not text.strip().startswith("//"):
            directive = re.fullmatch(r'#line (\d+) "(.*)"', before)
            assert directive is not None and directive[2] == HERE, text
            assert place is None or int(directive[1]) == place
            seen.add(FILE[int(directive[1])])
    assert "return x * 0.5" in seen and "px.store(C[0:64, 0:64], halved(acc))" in seen


def test_the_ptx_names_the_users_file(made: tuple[px.Compiled, px.Compiled]) -> None:
    plain, located = made
    assert ".loc" not in plain.ptx
    number = re.search(rf'\.file\s+(\d+) "{re.escape(HERE)}"', located.ptx)
    assert number is not None
    lines = {int(line) for line in re.findall(rf"\.loc\s+{number[1]} (\d+) ", located.ptx)}
    assert next(number for number, text in FILE.items() if text.startswith("acc = px.dot(")) in lines


def test_it_is_part_of_the_key() -> None:
    function = specialise(product, read_arguments(product, ARGUMENTS), product.bind_constants({})).prepared
    arch = arch_of("sm_90a")
    keys = {program_key(function, arch, "nvrtc", Extras(line_info=lines)) for lines in (False, True)}
    assert len(keys) == 2 and program_key(function, arch, "nvrtc") in keys


def test_the_environment_asks_for_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_LINE_INFO", "1")
    assert "#line" in px.compile(product[1], *ARGUMENTS).source
    assert "#line" not in px.compile(product[1], *ARGUMENTS, line_info=False).source
    monkeypatch.setenv("PHALANX_LINE_INFO", "0")
    assert "#line" not in px.compile(product[1], *ARGUMENTS).source


def test_paths_are_quoted() -> None:
    """A path of Windows, and one with a quote in it, stay one string of C++."""
    import dataclasses

    function = specialise(product, read_arguments(product, ARGUMENTS), product.bind_constants({})).prepared
    moved = dataclasses.replace(function, loc=dataclasses.replace(function.loc, file='C:\\a "b"\\k.py'))
    text = with_line_directives("__global__ void f() {\n}\n", moved)
    assert text.splitlines()[0] == f'#line {function.loc.line} "C:/a \\"b\\"/k.py"'
