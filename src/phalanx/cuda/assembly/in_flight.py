"""Registers of work in flight: PTX that touches what an asynchronous instruction still reads or writes.

`wgmma.mma_async` reads the registers of its left operand, and reads and writes its accumulator, until a
`wgmma.wait_group` has waited for its group. `tcgen05.ld` writes its registers until `tcgen05.wait::ld`. Whoever touches
them before gets what chance makes of it, and neither the assembler nor the hardware says so. The CUDA text gives no register
its place: where a value is kept from one turn of a loop to the next, or comes from two arms of a branch, the compiler puts
in moves of its own. So what is checked is PTX, after everything that chooses registers by name.

Of every place in a function it is known what may be in flight there, on whichever way one comes to it, by how many groups
have been committed since. The rules, from PTX's manual:

- nothing writes a register of a left operand in flight;
- nothing reads or writes an accumulator in flight, but another product that adds to exactly the same registers;
- a product's registers that others have written are behind a `wgmma.fence` when it starts.

What reads a left operand in flight does no harm. `cp.async` and the copy engine have no registers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from phalanx.cuda.assembly.reader import Block, Function, Instruction, blocks, functions, names_in

_PRODUCT = "wgmma.mma_async"
_COMMIT = "wgmma.commit_group"
_WAIT = "wgmma.wait_group"
_FENCE = "wgmma.fence"
_LOAD = "tcgen05.ld"
_LOADED = "tcgen05.wait::ld"
_KINDS = (_PRODUCT, _COMMIT, _WAIT, _FENCE, _LOAD, _LOADED)
_REGISTERS = re.compile(r"wgmma\.mma_async[^;]*?\}(?:\s*,\s*\{[^{}]*\})?|tcgen05\.ld[^;\[]*")
_NUMBER = re.compile(r"(\d+)$")
_SHOWN = 100


class Violation(NamedTuple):
    """An instruction of a function that touches registers in flight: what it does wrong, and with whose registers."""

    function: str
    instruction: str
    problem: str
    flight: str

    def __str__(self) -> str:
        whose = f" of {_short(self.flight)}" if self.flight else ""
        return f"{_short(self.instruction)}: {self.problem}{whose}"


class _Flight(NamedTuple):
    """An instruction whose registers are not its own when it is over: those it reads, and those it writes, in order."""

    text: str
    reads: frozenset[str]
    writes: tuple[str, ...]


class _State(NamedTuple):
    """What may be at a place. Flights are bits of a number.

    `ages[0]` are products of no group yet, `ages[n]` those of groups after which `n - 1` others were committed, the last
    one with all that are older. `loads` are reads of tensor memory, `unfenced` products of whose registers some were
    written after the last fence.
    """

    ages: tuple[int, ...]
    loads: int
    unfenced: int

    def joined(self, other: _State) -> _State:
        ages = tuple(mine | theirs for mine, theirs in zip(self.ages, other.ages))
        return _State(ages, self.loads | other.loads, self.unfenced | other.unfenced)

    @property
    def flying(self) -> int:
        """All that may be in flight."""
        found = self.loads
        for flights in self.ages:
            found |= flights
        return found


def violations(ptx: str) -> list[Violation]:
    """Every instruction of a text that touches registers in flight.

        for violation in violations(compiled.ptx):
            print(violation)
    """
    if _PRODUCT not in ptx and _LOAD not in ptx:
        return []
    return [violation for function in functions(ptx) for violation in _Check(function).violations()]


class _Step(NamedTuple):
    """An instruction, and the flights whose operands it writes, whose results it writes, and whose results it reads.

    `kind` is what it does to flights, as the beginning of its text; `own` is its own flight, where it starts one.
    """

    instruction: Instruction
    kind: str
    own: int
    operands_written: int
    results_written: int
    results_read: int


class _Check:
    """The flights of one function, and how its instructions change what is in flight."""

    def __init__(self, function: Function) -> None:
        self.name = function.name
        sought = {name for match in _REGISTERS.finditer(function.body) for name in names_in(match[0])}
        self.blocks = blocks(function, sought, _KINDS) if sought else []
        every = [instruction for block in self.blocks for instruction in block.instructions]
        self.flights = {
            instruction: _flight_of(instruction) for instruction in every if instruction.text.startswith((_PRODUCT, _LOAD))
        }
        self.listed = list(self.flights.values())
        self.numbers = {instruction: number for number, instruction in enumerate(self.flights)}
        self.readers = _by_register(flight.reads for flight in self.listed)
        self.writers = _by_register(flight.writes for flight in self.listed)
        self.products = _bits(n for n, flight in enumerate(self.listed) if flight.text.startswith(_PRODUCT))
        self.steps = {block: [self._step(instruction) for instruction in block.instructions] for block in self.blocks}
        waits = [_groups_left(instruction) for instruction in every if instruction.text.startswith(_WAIT)]
        self.nothing = _State((0,) * (max(waits, default=0) + 2), 0, self.products)

    def _step(self, instruction: Instruction) -> _Step:
        flight = self.flights.get(instruction)
        if flight is None:
            own = 0
            written, read = instruction.registers()
        else:
            own = 1 << self.numbers[instruction]
            written, read = set(flight.writes), set(flight.reads)
        return _Step(
            instruction, _kind_of(instruction), own,
            _any(self.readers, written), _any(self.writers, written), _any(self.writers, read),
        )

    def violations(self) -> list[Violation]:
        """What is found with all that may be in flight at each instruction."""
        if not self.flights:
            return []
        found: dict[tuple[str, str], Violation] = {}
        for block, state in self._states().items():
            for step in self.steps[block]:
                for problem, flights in self._problems(step, state):
                    text = step.instruction.text
                    flight = self.listed[flights.bit_length() - 1].text if flights else ""
                    found.setdefault((text, problem), Violation(self.name, text, problem, flight))
                state = self._after(step, state)
        return list(found.values())

    def _states(self) -> dict[Block, _State]:
        """What may be at the beginning of each block that can be reached, in the order of the text."""
        before = {self.blocks[0]: self.nothing}
        waiting = [self.blocks[0]]
        while waiting:
            block = waiting.pop()
            state = before[block]
            for step in self.steps[block]:
                state = self._after(step, state)
            for following in block.following:
                known = before.get(following)
                joined = state if known is None else known.joined(state)
                if joined != known:
                    before[following] = joined
                    waiting.append(following)
        return {block: before[block] for block in self.blocks if block in before}

    def _after(self, step: _Step, state: _State) -> _State:
        """What may be behind an instruction; under a guard it may have done nothing."""
        if not step.kind:
            written = (step.operands_written | step.results_written) & self.products
            return _State(state.ages, state.loads, state.unfenced | written) if written else state
        after = self._done(step, state)
        return state.joined(after) if step.instruction.guarded else after

    def _done(self, step: _Step, state: _State) -> _State:
        ages, loads, unfenced = state
        if step.kind == _PRODUCT:
            ages = (ages[0] | step.own, *ages[1:])
        elif step.kind == _COMMIT:
            ages = (0, *ages[:-2], ages[-2] | ages[-1])
        elif step.kind == _WAIT:
            left = _groups_left(step.instruction) + 1
            ages = ages[:left] + (0,) * (len(ages) - left)
        elif step.kind == _FENCE:
            unfenced = 0
        elif step.kind == _LOADED:
            loads = 0
        else:
            loads |= step.own
            unfenced |= (step.operands_written | step.results_written) & self.products
        return _State(ages, loads, unfenced)

    def _problems(self, step: _Step, state: _State) -> Iterator[tuple[str, int]]:
        """What an instruction does wrong, and the flights whose registers they are."""
        flying = state.flying
        results_written = step.results_written & flying
        if step.kind == _PRODUCT:
            own = self.flights[step.instruction]
            if own.reads.intersection(own.writes):
                yield "multiplies registers that it writes", 0
            if state.unfenced & step.own:
                yield "its registers may have been written after the last wgmma.fence", 0
            if results_written:
                alike = _bits(n for n, other in enumerate(self.listed) if other.writes == own.writes)
                results_written &= ~(alike & self.products)
        if operands_written := step.operands_written & flying:
            yield "writes an operand register in flight", operands_written
        if results_written:
            yield "writes a result register in flight", results_written
        if results_read := step.results_read & flying:
            yield "reads a result register in flight", results_read


def _kind_of(instruction: Instruction) -> str:
    if not instruction.text.startswith(("wgmma.", "tcgen05.")):
        return ""
    return next((kind for kind in _KINDS if instruction.text.startswith(kind)), "")


def _flight_of(instruction: Instruction) -> _Flight:
    """The registers of a product or a load."""
    operands = instruction.operands()
    if instruction.text.startswith(_LOAD):
        address = next(n for n, operand in enumerate(operands) if operand.startswith("["))
        return _Flight(instruction.text, frozenset(), tuple(_listed(", ".join(operands[:address]))))
    left = _listed(operands[1]) if operands[1].startswith("{") else []
    return _Flight(instruction.text, frozenset(left), tuple(_listed(operands[0])))


def _listed(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip(" {}")) and name != "_"]


def _groups_left(wait: Instruction) -> int:
    match = _NUMBER.search(wait.text)
    if match is None:
        raise ValueError(f"PTX that waits for no number of groups: {wait.text}")
    return int(match[1])


def _any(by_register: dict[str, int], registers: set[str]) -> int:
    found = 0
    for register in registers:
        found |= by_register.get(register, 0)
    return found


def _by_register(lists: Iterable[Iterable[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, registers in enumerate(lists):
        for register in registers:
            found[register] = found.get(register, 0) | 1 << number
    return found


def _bits(numbers: Iterable[int]) -> int:
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]} ..."
