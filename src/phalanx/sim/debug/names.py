"""The user's variables in the frame of an agent's generated code."""

from __future__ import annotations

import re
from typing import Any

from phalanx.ir.core import Op
from phalanx.location import Location
from phalanx.sim.agents import Agent
from phalanx.sim.codegen import Code

DEFINES = re.compile(r"(?:for (?P<loop>\w+) in |(?P<names>\w+(?:, \w+)*),? = )")
HEADER = re.compile(r"def program\((?P<names>.*)\):")


def variables(agent: Agent, code: Code) -> dict[str, Any]:
    """The values of the variables at the agent's place, by the user's names; a role sees those around it, too."""
    found: dict[str, Any] = {}
    each: Agent | None = agent
    while each is not None:
        for name, value in own_variables(each, code).items():
            found.setdefault(name, value)
        each = each.parent
    return found


def own_variables(agent: Agent, code: Code) -> dict[str, Any]:
    """The variables of one agent's own frame: of several values of one name that which was defined last on the way here.

    The text is read backwards from the agent's place. What stands deeper than the way there (in a loop or an arm of an
    `if` that is over, or that was not taken) is not on the way. A variable of the function that is run goes before one of
    that name in a function that was inlined into it, or around it.
    """
    frame = None if agent.generator is None else agent.generator.gi_frame
    if frame is None:
        return {}
    local = frame.f_locals
    found: dict[str, Any] = {}
    elsewhere: dict[str, Any] = {}
    here = call_of(code.ops[frame.f_lineno])
    depth = 1 << 16
    for number in range(min(frame.f_lineno, len(code.lines)) - 1, -1, -1):
        text = code.lines[number]
        bare = text.lstrip()
        header = HEADER.match(bare)
        if header is None and len(text) - len(bare) > depth:
            continue
        depth = min(depth, len(text) - len(bare))
        for name in defined_by(bare) if header is None else header["names"].split(", "):
            value, known = local.get(name), code.values.get(name)
            if known is not None and known.name and value is not None:
                near = header is not None or call_of(code.ops[number + 1]) == here
                (found if near else elsewhere).setdefault(known.name, value)
        if header is not None:
            break
    return {**elsewhere, **found}


def call_of(op: Op | None) -> tuple[str, Location | None]:
    """The function that an instruction is of, and from where it was called: an inlined function has a name of its own."""
    return ("", None) if op is None else (op.loc.function, op.loc.caller)


def defined_by(text: str) -> list[str]:
    """The local names that a line of generated code gives a value."""
    match = DEFINES.match(text)
    if match is None:
        return []
    return [match["loop"]] if match["loop"] else match["names"].split(", ")
