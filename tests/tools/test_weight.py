"""How heavy the sources are: what counts as a line of code, as a room, as a kernel, and what is printed of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks import weight

TEXT = '''"""A docstring
of two lines."""

# a comment
import px  # 5

ROWS = 3  # 7
"""What the constant means."""


@row_kernel  # 11
def copy(X, Y, *, ROWS, WIDTH):  # 12
    """What it does."""

    # a step
    text = """not
a docstring"""  # 16 and 17


class Ring:  # 20
    @px.kernel(warps=4)  # 21
    def fill(self, /, x):  # 22
        def deeper():  # 23
            return (  # 24
                1  # 25

            )  # 27
'''


def test_lines_of_code() -> None:
    assert weight.code_lines(TEXT, ast.parse(TEXT)) == [5, 7, 11, 12, 16, 17, 20, 21, 22, 23, 24, 25, 27]


def test_a_file() -> None:
    source = weight.weigh("src/phalanx/kernels/rowwise/copies.py", TEXT)
    assert (source.lines, source.code, source.room) == (27, 13, "kernels/rowwise")
    assert [(part.where.split()[1], part.size) for part in source.functions] == [
        ("copy", 3), ("Ring.fill", 5), ("Ring.fill.deeper", 4),
    ]  # fmt: skip
    assert [(part.where.split()[1], part.size) for part in source.signatures] == [("copy", 4), ("Ring.fill", 2)]


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("src/phalanx/errors.py", "."),
        ("src/phalanx/machines/h200.py", "machines"),
        ("src/phalanx/tools/bench/peers/settings.py", "tools/bench"),
        ("tests/kernels/test_matmul.py", "tests"),
        ("benchmarks/weight.py", "benchmarks"),
    ],
)
def test_rooms(path: str, room: str) -> None:
    assert weight.weigh(path, "").room == room


def test_what_is_printed() -> None:
    copies = weight.weigh("src/phalanx/kernels/rowwise/copies.py", TEXT)
    tests = weight.weigh("tests/test_copies.py", "assert True\n")
    signature = ", ".join("abcdefghijklmnopq")
    wide = weight.weigh("src/phalanx/wide.py", f"@kernel\ndef wide({signature}): pass\n# a comment\n" + "\n" * 600)
    assert "\n".join(weight.report([copies, tests, wide], [copies, wide, wide])) == """\
room                      files     code   before   change
.                             1        2        4       -2
kernels/rowwise               1       13       13       +0
source                        2       15       17       -2
tests                         1        1        0       +1

largest files, lines of code
     13  src/phalanx/kernels/rowwise/copies.py
      2  src/phalanx/wide.py

largest functions, lines of code
      5  src/phalanx/kernels/rowwise/copies.py:22 Ring.fill
      4  src/phalanx/kernels/rowwise/copies.py:23 Ring.fill.deeper
      3  src/phalanx/kernels/rowwise/copies.py:12 copy
      1  src/phalanx/wide.py:2 wide

files of more than 600 lines: 1
    603  src/phalanx/wide.py

kernels with more than 16 parameters: 1
     17  src/phalanx/wide.py:2 wide"""


def test_of_a_folder() -> None:
    """Every file is counted, in the room of the folder that it is in, and their sum is what the source has."""
    found = weight.of_folder(weight.ROOT, [f"{weight.SOURCES}/ir"])
    assert len(found) == len(list(Path(weight.ROOT, weight.SOURCES, "ir").rglob("*.py")))
    rooms = weight.by_room(found)
    assert rooms.keys() == {"ir", "ir/ops", "source"}
    assert rooms["source"] == (len(found), rooms["ir"][1] + rooms["ir/ops"][1])


def sources() -> list[tuple[str, str]]:
    """The path and the text of every file of the sources."""
    folder = weight.ROOT / weight.SOURCES
    return [(path.relative_to(weight.ROOT).as_posix(), path.read_text()) for path in sorted(folder.rglob("*.py"))]


def test_kernels_have_few_parameters() -> None:
    many = [
        f"{path} {name}"
        for path, text in sources()
        if "kernel" in text
        for name, function in weight.named_functions(ast.parse(text))
        if weight.is_kernel(function) and weight.parameters(function) > weight.MOST_PARAMETERS
    ]
    assert many == [], "pass a configuration as a frozen dataclass, and arguments that belong together as a px.struct"


def test_files_are_short() -> None:
    long = [path for path, text in sources() if len(text.splitlines()) > weight.MOST_LINES]
    assert long == [], "split it by topic"
