"""The instructions of a function in PTX that somebody asks for, as a graph of blocks.

A block runs from its first instruction to its last, then goes on in one of the blocks that may follow. PTX also has blocks
in braces, in which registers and labels can be declared anew: a register of an inner one that hides another gets a name of
its own here, and a label is looked for from the innermost braces outwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_FOR_DEBUGGERS = re.compile(r"^\s*\.(?:loc|file)\b[^\n]*", re.M)
_FUNCTION = re.compile(r"\.(?:entry|func)\s+(?:\([^()]*\)\s*)?([\w$%]+)\s*(?:\([^()]*\))?[^;{]*([;{])")
_BRACE = re.compile(r"[{}]")
_STATEMENT = re.compile(r"\s*(?:([{}])|([\w$%]+)\s*:(?!:)|([^;{}]*(?:\{[^{}]*\}[^;{}]*)*);)")
_NAME = re.compile(r"[%$A-Za-z_][\w$@]*")
_DECLARATION = re.compile(r"([%\w$]+)(?:<(\d+)>)?\s*(?:,|$)")
_GUARD = re.compile(r"@!?\s*[%\w$]+\s*")
_OPERAND = re.compile(r"\s*((?:\{[^{}]*\}|\[[^\[\]]*\]|\([^()]*\)|[^,{}\[\]()])+)")

_NO_RESULT = (
    "st.", "stmatrix", "red.", "bar.sync", "bar.arrive", "bar.warp", "barrier.sync", "barrier.arrive", "barrier.cluster",
    "mbarrier.init", "mbarrier.inval", "mbarrier.expect_tx", "mbarrier.complete_tx", "fence", "membar", "cp.", "setmaxnreg",
    "prefetch", "nanosleep", "griddepcontrol", "tensormap", "discard", "applypriority", "multimem.st", "multimem.red",
    "sust", "sured", "pmevent", "stackrestore", "trap", "brkpt", "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish",
    "tcgen05.st", "tcgen05.mma", "tcgen05.cp", "tcgen05.shift", "tcgen05.commit", "tcgen05.fence", "tcgen05.wait", "wgmma.",
)
"""Instructions that write no register. One that is missing here seems to write its first operand."""
_CALL = ("call.", "call ")
_SPECIAL = (*_NO_RESULT, *_CALL, "tcgen05.ld")


class Instruction(NamedTuple):
    """An instruction without its guard, its words one space apart."""

    text: str
    guarded: bool

    def operands(self) -> list[str]:
        """Its operands; lists and addresses are one operand each."""
        return [match[1].strip() for match in _OPERAND.finditer(self.text.partition(" ")[2])]

    def registers(self) -> tuple[set[str], set[str]]:
        """The names that it writes, and those that it reads, predicates and labels among them; a call does both with all."""
        if "{" not in self.text and not self.text.startswith(_SPECIAL):  # by far the most
            first, _, rest = self.text.partition(" ")[2].partition(",")
            return (set(), names_in(first + rest)) if first.startswith("[") else (names_in(first), names_in(rest))
        operands = self.operands()
        if self.text.startswith(_CALL):
            return names_in(self.text), names_in(self.text)
        count = 1
        if self.text.startswith(_NO_RESULT) or not operands or operands[0].startswith("["):
            count = 0
        elif self.text.startswith("tcgen05.ld"):  # one that reduces as well has a second result
            count = next(n for n, operand in enumerate(operands) if operand.startswith("["))
        return names_in(" ".join(operands[:count])), names_in(" ".join(operands[count:]))


@dataclass(eq=False)
class Block:
    """Instructions that run one after the other, and the blocks of which one comes next."""

    instructions: list[Instruction] = field(default_factory=list)
    following: list[Block] = field(default_factory=list)


class Function(NamedTuple):
    """A kernel, or a device function that is called, without comments."""

    name: str
    body: str


def names_in(text: str) -> set[str]:
    """All words of a text that can be registers."""
    return set(_NAME.findall(text))


def functions(ptx: str) -> Iterator[Function]:
    """The functions of a text that have a body."""
    text = _FOR_DEBUGGERS.sub("", _COMMENT.sub("", ptx))
    at = 0
    while match := _FUNCTION.search(text, at):
        at = match.end()
        if match[2] == "{":
            end = _end_of_braces(text, at)
            yield Function(match[1], text[at:end])
            at = end


def _end_of_braces(text: str, at: int) -> int:
    depth = 1
    for brace in _BRACE.finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise ValueError("a brace in PTX is never closed")


def blocks(function: Function, names: Collection[str], mnemonics: tuple[str, ...]) -> list[Block]:
    """The blocks of a function, in the order of its text, with the instructions that contain one of the names or begin with
    one of the mnemonics."""
    return _Reader(frozenset(names), mnemonics).read(function.body)


@dataclass
class _Scope:
    """What is declared within a pair of braces; `number` tells it from others."""

    number: int
    outer: _Scope | None
    registers: set[str] = field(default_factory=set)
    labels: dict[str, Block] = field(default_factory=dict)
    targets: dict[str, list[str]] = field(default_factory=dict)

    def outwards(self) -> Iterator[_Scope]:
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


class _Reader:
    """Reads one body: statement by statement, then where its branches go."""

    def __init__(self, names: frozenset[str], mnemonics: tuple[str, ...]) -> None:
        self.names = names
        self.mnemonics = mnemonics
        self.scope = _Scope(0, None)
        self.scopes = 1
        self.hidden = 0  # declarations that hide a name which is asked for, in all scopes that are open
        self.block = Block()
        self.all = [self.block]
        self.label = ""
        self.jumps: list[tuple[Block, _Scope, str, bool]] = []

    def read(self, body: str) -> list[Block]:
        """Blocks of a body, each linked to those that may follow."""
        at = 0
        while match := _STATEMENT.match(body, at):
            at = match.end()
            brace, label, statement = match.groups()
            if statement is not None:
                self._statement(statement)
            elif label is not None:
                self._begin(falls_through=True)
                self.scope.labels[label] = self.block
                self.label = label
            elif brace == "{":
                self.scope = _Scope(self.scopes, self.scope)
                self.scopes += 1
            else:
                self._close()
        if body[at:].strip():
            raise ValueError(f"PTX that is no statement: {body[at:].strip()[:80]}")
        for block, scope, target, by_table in self.jumps:
            block.following += self._targets(scope, target) if by_table else [self._labelled(scope, target)]
        return self.all

    def _close(self) -> None:
        assert self.scope.outer is not None
        self.hidden -= len(self.scope.registers)
        self.scope = self.scope.outer

    def _begin(self, *, falls_through: bool) -> None:
        before = self.block
        self.block = Block()
        self.all.append(self.block)
        if falls_through:
            before.following.append(self.block)

    def _statement(self, statement: str) -> None:
        text = statement.lstrip()
        if text.startswith("."):
            self._directive(text)
            return
        guarded = text.startswith("@")
        if guarded:
            text = _GUARD.sub("", text, count=1)
        if text.startswith(("bra ", "bra.", "bra\t", "brx.")):
            target = text.split(",")[-1].split()[-1]
            self.jumps.append((self.block, self.scope, target, text.startswith("brx")))
            self._begin(falls_through=guarded)
        elif text.startswith(("ret", "exit", "trap")):
            self._begin(falls_through=guarded)
        elif text.startswith(self.mnemonics) or not self.names.isdisjoint(_NAME.findall(text)):
            plain = " ".join(text.split())
            self.block.instructions.append(Instruction(self._renamed(plain) if self.hidden else plain, guarded))

    def _directive(self, text: str) -> None:
        if text.startswith(".branchtargets"):
            self.scope.targets[self.label] = [name.strip() for name in text.partition(" ")[2].split(",")]
        elif text.startswith(".reg") and self.scope.outer is not None:
            declared = text.split(None, 2)[2]
            for name, count in _DECLARATION.findall(declared):
                here = {f"{name}{n}" for n in range(int(count))} if count else {name}
                self.scope.registers |= here & self.names
            self.hidden += len(self.scope.registers)

    def _renamed(self, text: str) -> str:
        """The text with names of their own for registers that are declared in inner braces."""

        def name_of(match: re.Match[str]) -> str:
            for scope in self.scope.outwards():
                if match[0] in scope.registers:
                    return f"{match[0]}@{scope.number}"
            return match[0]

        return _NAME.sub(name_of, text)

    def _labelled(self, scope: _Scope, label: str) -> Block:
        for each in scope.outwards():
            if label in each.labels:
                return each.labels[label]
        raise ValueError(f"PTX that branches to {label}, which is no label there")

    def _targets(self, scope: _Scope, table: str) -> list[Block]:
        for each in scope.outwards():
            if table in each.targets:
                return [self._labelled(each, label) for label in each.targets[table]]
        raise ValueError(f"PTX that branches by {table}, which is no list of targets there")
