"""Choreographies whose alike roles are written once, with `copies=`, and the same ones with the roles one by one.

The roles of a drawn choreography that differ in nothing but numbers, and in those evenly, are the copies of one role:
`take0 += 3` in the second and `take0 += 6` in the third are `take0 += (c * 3)`. Both texts have the same warps, so that
counts, traffic, results and findings must be the same, and those of mutants too: a line left out of all copies, or of
one alone.
"""

from __future__ import annotations

import random
import re
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import phalanx as px
from fuzz.choreo_kernel import Case, draw, load
from fuzz.choreo_mutants import changed
from fuzz.choreo_parts import indented
from fuzz.choreography import Problem, differences, outputs
from fuzz.outcomes import Options, Outcome
from phalanx.ir.core import Function
from support.host_cuda import type_of
from support.role_copies import counts, traffic

COPY = "copy_"
HEADER = re.compile(r"    with px\.warps\((\d+), (\d+)(.*)\):")
TOKEN = re.compile(r"[A-Za-z_][\w.]*|\d+:\d+|\d+|.")
UNROLLED = re.compile(r"px\.unroll\(.*, (\d+)\):")
BATCH = 12
MUTANTS = 2


@dataclass
class Block:
    """A role as it is written: its warps, what stands behind them in the parentheses, and its lines."""

    warps: int
    options: str
    lines: list[str]

    def header(self, first: int, more: str = "") -> str:
        return f"    with px.warps({first}, {self.warps}{self.options}{more})"


@dataclass
class Merged:
    """Roles that are copies of one: one block each, and the lines that stand for all of them."""

    blocks: list[Block]
    lines: list[str]


@dataclass
class Written:
    """One text of the two: its lines, and for each line of a merged role, where it stands for every copy."""

    lines: list[str]
    places: dict[tuple[int, int], list[int]]
    """By role and line: where that line stands in the text, once or in every copy."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass
class Twins:
    """Both texts of a case."""

    case: Case
    copied: Written
    unrolled: Written
    merged: list[Merged]


def twins(case: Case) -> Twins | None:
    """Both texts; None where no two roles are alike."""
    pieces = list(_pieces(case.text.splitlines()))
    merged = [role for piece in pieces if isinstance(piece, list) for role in piece if len(role.blocks) > 1]
    if not merged:
        return None
    return Twins(case, _written(pieces, merged, copied=True), _written(pieces, merged, copied=False), merged)


def _pieces(lines: list[str]) -> Iterator[str | list[Merged]]:
    """Lines outside roles, and groups of neighbouring roles."""
    group: list[Block] = []
    for line in lines:
        header = HEADER.fullmatch(line)
        if header is not None:
            group.append(Block(int(header[2]), header[3], []))
        elif group and line.startswith(" " * 8):
            group[-1].lines.append(line)
        else:
            if group:
                yield _grouped(group)
                group = []
            yield line
    if group:
        yield _grouped(group)


def _grouped(blocks: list[Block]) -> list[Merged]:
    """The roles of a group, those that are alike together; whole warpgroups still come first."""
    _align(blocks)
    found: list[Merged] = []
    left = list(blocks)
    while left:
        block = left.pop(0)
        alike = [block, *(other for other in left if _form(other) == _form(block))]
        alike.sort(key=lambda one: [tuple(map(int, re.findall(r"\d+", token))) for token in _numbers(one)])
        lines = _common(alike) if len(alike) > 1 else None
        chosen = alike if lines is not None else [block]
        found.append(Merged(chosen, block.lines if lines is None else lines))
        left = [other for other in left if all(other is not one for one in chosen)]
    return sorted(found, key=lambda role: role.blocks[0].warps % 4 != 0)


def _align(blocks: list[Block]) -> None:
    """The first of agents that take turns begins with what the others begin later: by nothing at all."""
    starts = {block.lines[0].split(" += ")[0] for block in blocks if re.fullmatch(r"\s+take\d+ \+= \d+", block.lines[0])}
    for block in blocks:
        for number, line in enumerate(block.lines):
            block.lines[number] = re.sub(r"(range\(px\.cluster\.id\(\)( \* \d+)?),", r"\1 + 0,", line)
        for start in starts:
            if not block.lines[0].startswith(start) and any(start.strip() in line for line in block.lines):
                block.lines.insert(0, f"{start} += 0")


def _numbers(block: Block) -> list[str]:
    return [token for line in block.lines for token in TOKEN.findall(line) if token[0].isdigit()]


def _form(block: Block) -> tuple[Any, ...]:
    """What all copies of a role have in common; by how much a loop is unrolled is a constant, which no copy can choose."""
    unrolled = [UNROLLED.findall(line) for line in block.lines]
    return block.warps, block.options, unrolled, [re.sub(r"\b\d+(:\d+)?\b", "#", line) for line in block.lines]


def _common(blocks: list[Block]) -> list[str] | None:
    """Lines for all of the blocks, in which the number of the copy says what differs; None where it can't."""
    out: list[str] = []
    for lines in zip(*(block.lines for block in blocks)):
        tokens = [TOKEN.findall(line) for line in lines]
        if len({len(one) for one in tokens}) > 1:
            return None
        parts = [_token(token) for token in zip(*tokens)]
        if any(part is None for part in parts):
            return None
        out.append("".join(part for part in parts if part is not None))
    return out


def _token(tokens: tuple[str, ...]) -> str | None:
    """What stands for a token that may differ from copy to copy."""
    if len(set(tokens)) == 1:
        return tokens[0]
    if not all(re.fullmatch(r"\d+(:\d+)?", token) for token in tokens):
        return None
    starts = [int(token.split(":")[0]) for token in tokens]
    step = starts[1] - starts[0]
    if any(start != starts[0] + step * copy for copy, start in enumerate(starts)):
        return None
    place = f"({f'{starts[0]} + ' if starts[0] else ''}{COPY} * {step})"
    if ":" not in tokens[0]:
        return place
    sizes = {int(token.split(":")[1]) - start for token, start in zip(tokens, starts)}
    return f"{place}:{place} + {sizes.pop()}" if len(sizes) == 1 else None


def _written(pieces: list[Any], merged: list[Merged], *, copied: bool) -> Written:
    out = Written([], {})
    for piece in pieces:
        if isinstance(piece, str):
            out.lines.append(piece)
            continue
        first = 0
        for role in piece:
            number = next((n for n, one in enumerate(merged) if one is role), -1)
            blocks = role.blocks[:1] if copied else role.blocks
            for copy, block in enumerate(blocks):
                many = copied and len(role.blocks) > 1
                head = block.header(first + copy * block.warps, f", copies={len(role.blocks)}" if many else "")
                out.lines.append(head + (f" as {COPY}:" if many else ":"))
                for position, line in enumerate(role.lines if many else block.lines):
                    out.places.setdefault((number, position), []).append(len(out.lines))
                    out.lines.append(line)
            first += len(role.blocks) * role.blocks[0].warps
    return out


# --- judging ----------------------------------------------------------------------------------------------------------


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """The verdict on each seed that has roles which are alike."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            yield judged(seed, Path(folder), host=options.host)


def judged(seed: int, folder: Path, *, host: bool = False) -> Outcome:
    """Whether both texts of a seed are counted alike, run alike and are refused alike."""
    found = twins(draw(seed))
    if found is None:
        return Outcome(seed, "right, nothing is alike")
    try:
        problem = compared(found, folder) or mutated(found, folder) or (on_host(found, folder) if host else None)
    except Exception:
        problem = ("internal error", traceback.format_exc())
    if problem is None:
        return Outcome(seed, "right")
    verdict, story = problem
    return Outcome(seed, verdict, f"{verdict}: {story}\n\n{found.copied.text}\n\n{found.unrolled.text}")


def _prepared(kernel: Any, case: Case) -> Function:
    from support.front import prepared

    return prepared(kernel, tuple(type_of(value) for value in case.arguments))


def compared(pair: Twins, folder: Path) -> Problem:
    """The counts, the traffic, the findings (none) and the results."""
    case = pair.case
    kernels = [
        load(written.text, folder, f"{name}_{case.seed}")
        for name, written in (("copied", pair.copied), ("unrolled", pair.unrolled))
    ]
    try:
        functions = [_prepared(kernel, case) for kernel in kernels]
        if counts(functions[0]) != counts(functions[1]):
            return "other counts", f"{counts(functions[0])}, not {counts(functions[1])}"
        both = [[Counter(rank) for rank in traffic(function)] for function in functions]
        if both[0] != both[1]:
            return "other traffic", str([(a - b, b - a) for a, b in zip(*both)])
        report = px.check(kernels[0][case.grid], *case.copies())
        if not report.ok:
            return "false alarm", str(report)
        arguments = case.copies()
        kernels[0][case.grid](*arguments)
    except px.Error as error:
        return "refused", str(error)
    wrong = differences(case, outputs(case, arguments), case.expected)
    return ("the result differs", wrong) if wrong else None


def mutated(pair: Twins, folder: Path) -> Problem:
    """A line too few, in all copies or in one alone: the same kinds of findings both ways."""
    rng = random.Random(pair.case.seed)
    needed = [
        (number, position)
        for number, role in enumerate(pair.merged)
        for position, line in enumerate(role.lines) if "# needed" in line
    ]
    for turn, (number, position) in enumerate(rng.sample(needed, min(MUTANTS, len(needed)))):
        copies = len(pair.merged[number].blocks)
        skipped = rng.randrange(copies) if rng.random() < 0.6 else None
        texts = [_without(pair.copied, number, position, skipped, copied=True, rng=rng),
                 _without(pair.unrolled, number, position, skipped, copied=False, rng=rng)]  # fmt: skip
        kinds = [found_in(pair.case, folder, text, f"mutant_{turn}_{n}") for n, text in enumerate(texts)]
        if kinds[0] != kinds[1]:
            line = pair.merged[number].lines[position].strip()
            where = "all copies" if skipped is None else f"copy {skipped}"
            return "other findings", f"{kinds[0]}, not {kinds[1]}, without '{line}' in {where}"
    return None


def _without(
    written: Written, number: int, position: int, skipped: int | None, *, copied: bool, rng: random.Random
) -> str:
    """The text in which that line is missing: in all copies, or in `skipped` alone."""
    lines = list(written.lines)
    places = written.places[number, position]
    for copy, place in enumerate(places):
        if not copied and skipped not in (None, copy):
            continue
        line = lines[place]
        if copied and skipped is not None:
            space = line[: len(line) - len(line.lstrip())]
            lines[place] = f"{space}if {COPY} != {skipped}:\n" + indented([line])[0]
        else:
            lines[place] = changed(line, rng)
    return "\n".join(lines) + "\n"


def found_in(case: Case, folder: Path, text: str, name: str) -> set[str]:
    """The kinds of findings of a text; that of the error, where it is refused."""
    kernel = load(text, folder, f"{name}_{case.seed}")
    try:
        report = px.check(kernel[case.grid], *case.copies())
    except px.Error as error:
        return {error.kind or error.message}
    return {str(finding.kind) for finding in report.findings}


def on_host(pair: Twins, folder: Path) -> Problem:
    """The CUDA text of the copies, as the CPU runs it."""
    from fuzz.host import HostCase, run_batch  # needs a C++ compiler
    from support.host_cuda import module_for

    case, arguments = pair.case, pair.case.copies()
    module = module_for(load(pair.copied.text, folder, f"text_{case.seed}"), tuple(arguments))
    (result,) = run_batch([HostCase(module, case.grid, arguments, case.seed)], sanitize=False)
    if result.unsupported:
        return None
    wrong = result.failure or differences(case, outputs(case, result.args), case.expected)
    return ("host differs", wrong) if wrong else None
