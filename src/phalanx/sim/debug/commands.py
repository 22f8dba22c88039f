"""The commands of a session: their names, what they do, and what `help` says of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.sim.debug.names import variables
from phalanx.sim.debug.run import awaited, name_of, position_of
from phalanx.sim.debug.show import (
    agents_text,
    barriers_text,
    copies_text,
    memory_text,
    short_text,
    source_text,
    value_text,
    waits_text,
)
from phalanx.sim.debug.stops import LineStop, PhaseStop, Stop, Watch
from phalanx.sim.engines import Copy

if TYPE_CHECKING:
    from phalanx.sim.debug.session import Session

LINE = re.compile(r"(?:(?P<file>[^\s:]+):)?(?P<line>\d+)(?:\s+if\s+(?P<condition>.+))?$")
PHASE = re.compile(
    r"(?P<name>[A-Za-z_][\w.]*)(?:\[(?P<index>\d+)\])?(?:\.at\((?P<rank>\d+)\))?(?:\s+phase\s+(?P<phase>\d+))?$"
)
Action = Callable[["Session", str], list[str]]


@frozen
class Command:
    """One command: its names, the first of which is the whole one, how it is written, what it does."""

    names: tuple[str, ...]
    usage: str
    about: str
    action: Action


COMMANDS: list[Command] = []


def command(*names: str, usage: str, about: str) -> Callable[[Action], Action]:
    """Registers what a command does: it gets the session and what stands behind its name, and gives the lines to print."""

    def register(action: Action) -> Action:
        COMMANDS.append(Command(names, usage, about, action))
        return action

    return register


def carry_out(session: Session, text: str) -> list[str]:
    """Carries out a command and gives the lines to print; a mistake in the command is one more such line."""
    name, _, rest = text.strip().partition(" ")
    if not name:
        return []
    found = next((each for each in COMMANDS if name in each.names), None)
    if found is None:
        return [f"there is no command {name!r}: 'help' lists them"]
    try:
        return found.action(session, rest.strip())
    except Error as problem:
        remedy = f" ({problem.remedy})" if problem.remedy else ""
        return [f"{problem.message}{remedy}"]


def number_of(text: str, usual: int = 1) -> int:
    """Reads the positive number that follows a command, or takes the usual one where none does."""
    if not text:
        return usual
    if not text.isdecimal() or not int(text):
        raise Error(f"{text!r} is no positive number")
    return int(text)


def repeated(session: Session, times: int, once: Callable[[], list[str]]) -> list[str]:
    """Carries out `once` several times, unless the run stops for another reason or ends; what the last time says."""
    said: list[str] = []
    for _ in range(times):
        known, over = session.known, session.run.over
        said = once()
        if over or session.run.over or session.known != known:
            break
    return said


# --- going on -----------------------------------------------------------------------------------------------------------


@command("step", "s", usage="step [N]", about="the agent goes on to its next source line, the others as the schedule says")
def step(session: Session, rest: str) -> list[str]:
    """Runs until the agent comes to its next source line."""
    return repeated(session, number_of(rest), lambda: session.step(lambda agent, at_line: at_line))


@command("next", "n", usage="next [N]", about="like step, but over functions that are called on the line")
def next_(session: Session, rest: str) -> list[str]:
    """Runs until the agent comes to its next line in the kernel itself, past the functions that it calls."""

    def once() -> list[str]:
        agent = session.agent
        before = ("", 0) if agent is None else session.kernel_line(agent)
        return session.step(lambda now, at_line: at_line and (now is not agent or session.kernel_line(now) != before))

    return repeated(session, number_of(rest), once)


@command("instruction", "i", usage="instruction [N]", about="the agent goes on by one instruction of the IR")
def instruction(session: Session, rest: str) -> list[str]:
    """Runs one instruction of the agent."""
    said = repeated(session, number_of(rest), lambda: session.step(lambda agent, at_line: True))
    agent = session.agent
    op = None if agent is None or awaited(agent, session.run) is not None else position_of(agent, session.run).op
    return said if op is None else [*said, f"  next: {op.mnemonic}"]


@command("phase", usage="phase [BARRIER]", about="until a barrier of the agent's CTA (that one) completes its phase")
def phase(session: Session, rest: str) -> list[str]:
    """Runs until a barrier completes its phase."""
    stop = phase_stop(session, rest) if rest else PhaseStop("", None, None)
    if stop.rank is None and session.cta is not None:
        stop.rank = session.cta.rank
    stop.renew(session.run)
    return session.go(lambda agent, at_line: stop.reached(session.run, agent, at_line))


@command("land", usage="land", about="until a copy in flight makes a step: it reads its source, or lands")
def land(session: Session, rest: str) -> list[str]:
    """Runs until a copy in flight reads its source or lands."""

    def landed(agent: object, at_line: bool) -> str:
        now = session.run.now
        return f"{now.op.call} of {now.op.loc.short} makes a step" if isinstance(now, Copy) else ""

    return session.go(landed)


@command("until", "u", usage="until [FILE:]LINE [if EXPR]", about="until some agent comes to that line")
def until(session: Session, rest: str) -> list[str]:
    """Runs until some agent comes to a line."""
    stop = line_stop(session, rest)
    if stop is None:
        raise Error(f"{rest!r} is no line", remedy="until 12, until kernel.py:12")

    def reached(agent: object, at_line: bool) -> str:
        now = session.run.now
        if isinstance(now, Copy) or now is None or not stop.reached(session.run, now, at_line):
            return ""
        session.focus = name_of(now)
        return "here"

    return session.go(reached)


@command("continue", "c", usage="continue", about="until a stop, a finding, a px.breakpoint, or the end")
def continue_(session: Session, rest: str) -> list[str]:
    """Runs until a stop, a finding, a `px.breakpoint` or the end."""
    return session.go(lambda agent, at_line: "")


# --- going back ---------------------------------------------------------------------------------------------------------


@command("back", usage="back [N]", about="back to the line that the agent was at before: the run is replayed from its start")
def back(session: Session, rest: str) -> list[str]:
    """Goes back to the line at which the agent was before, by a replay of the run."""
    seen = session.run.seen.get(session.focus)
    ticks = [] if seen is None else [tick for tick in seen.ticks if tick < session.run.tick]
    count = number_of(rest)
    if not ticks:
        return ["this is where the agent begins", *session.here()]
    return session.go_to(ticks[-min(count, len(ticks))])


@command("goto", usage="goto TICK", about="to any tick of the run, on or back")
def goto(session: Session, rest: str) -> list[str]:
    """Goes on or back to a tick of the run."""
    return session.go_to(number_of(rest))


@command("restart", usage="restart", about="back to the start; stops stay")
def restart(session: Session, rest: str) -> list[str]:
    """Goes back to the first tick; the stops stay."""
    session.focus = (0, 0, 0)
    return session.go_to(1)


# --- stops --------------------------------------------------------------------------------------------------------------


def line_stop(session: Session, text: str) -> LineStop | None:
    """A stop at a line, if that is what the text says."""
    match = LINE.match(text)
    if match is None:
        return None
    return LineStop(match["file"] or "", int(match["line"]), match["condition"] or "", session.evaluate)


def phase_stop(session: Session, text: str) -> PhaseStop:
    """A stop at a phase of a barrier; an error where there is no such barrier."""
    match = PHASE.match(text)
    names = [array.title for array in session.run.function.barriers if not array.exchange]
    known = {name for array in session.run.function.barriers for name in (array.name, array.title)}
    if match is None or match["name"] not in known:
        raise Error(
            f"{text!r} is neither a line nor a barrier",
            remedy=f"break 12, break kernel.py:12 if k == 3; barriers: {', '.join(names) or 'none'}",
        )
    index, rank, number = (None if match[part] is None else int(match[part]) for part in ("index", "rank", "phase"))
    return PhaseStop(match["name"], index, rank, number)


def add(session: Session, stop: Stop) -> list[str]:
    """Adds a stop to the session."""
    stop.renew(session.run)
    session.stops.append(stop)
    return [f"stop {len(session.stops)}: {stop.text}"]


@command("break", "b", usage="break [FILE:]LINE [if EXPR] | BARRIER [phase N]",
         about="stop at a line, or when a barrier completes a phase; alone: list the stops")  # fmt: skip
def break_(session: Session, rest: str) -> list[str]:
    """Adds a stop at a line or at a barrier's phase; lists all stops where nothing is given."""
    if not rest:
        return [f"stop {n}: {stop.text}" for n, stop in enumerate(session.stops, 1)] or ["there are no stops"]
    stop = line_stop(session, rest) or phase_stop(session, rest)
    if isinstance(stop, LineStop):
        lines = {op.loc.line for op in session.run.function.walk() if stop.is_there(op.loc)}
        called = {op.loc.caller.line for op in session.run.function.walk() if op.loc.caller and stop.is_there(op.loc.caller)}
        if not lines | called:
            raise Error(f"no instruction stands on {stop.text}", remedy="'list' shows the lines around the agent")
    return add(session, stop)


@command("watch", usage="watch EXPR", about="stop when the value changes, as the agent sees it now")
def watch(session: Session, rest: str) -> list[str]:
    """Adds a stop that waits for a change of an expression's value."""
    session.evaluate(rest)
    focus = session.focus
    return add(session, Watch(rest, lambda text: session.evaluate(text, session.run.find(focus))))


@command("delete", usage="delete [N]", about="forget a stop, or all")
def delete(session: Session, rest: str) -> list[str]:
    """Removes one stop, or all where no number is given."""
    if not rest:
        session.stops.clear()
        return ["all stops are gone"]
    number = number_of(rest)
    if number > len(session.stops):
        raise Error(f"there is no stop {number}", remedy="'break' lists them")
    return [f"gone: {session.stops.pop(number - 1).text}"]


# --- looking ------------------------------------------------------------------------------------------------------------


@command("where", "w", usage="where", about="where the agent is, and what it waits for")
def where(session: Session, rest: str) -> list[str]:
    """Shows where the agent is, and what it waits for."""
    return session.here()


@command("list", "l", usage="list", about="the source around the agent")
def list_(session: Session, rest: str) -> list[str]:
    """Shows the source around the agent."""
    agent = session.agent
    return session.here() if agent is None else source_text(position_of(agent, session.run).place)


@command("agents", usage="agents [all]", about="the agents of the cluster (of all): where they are, what they wait for")
def agents(session: Session, rest: str) -> list[str]:
    """Lists the agents of the cluster, or of all, with what they wait for."""
    return agents_text(session.run.clusters if rest == "all" else session.cluster, session.agent, session.run)


@command("agent", "a", usage="agent N | [CTA:]ROLE", about="look at another agent: by its number in 'agents', or 1:warp 4")
def agent_(session: Session, rest: str) -> list[str]:
    """Makes another agent the one that commands are about."""
    there = [agent for cluster in session.cluster for agent in cluster.agents()]
    rank, colon, role = rest.partition(":")
    if rest.isdecimal():
        chosen = there[int(rest) : int(rest) + 1]
    else:
        role = role if colon else rest
        rank = rank if colon else str(session.focus[1])
        chosen = [agent for agent in there if role.strip() in (agent.name, agent.role) and rank == str(agent.cta.rank)]
    if not chosen:
        raise Error(f"there is no agent {rest!r}", remedy="'agents' lists them")
    session.focus = name_of(chosen[0])
    return session.here()


@command("print", "p", usage="print EXPR", about="a variable, memory, a barrier: acc[0, 0:4], s.at(1)[0], full[1].pending")
def print_(session: Session, rest: str) -> list[str]:
    """Shows the value of an expression."""
    return value_text(rest, session.evaluate(rest))


@command("variables", "v", usage="variables", about="the variables that the agent sees")
def variables_(session: Session, rest: str) -> list[str]:
    """Lists the constants, arguments and variables that the agent sees."""
    agent = session.agent
    if agent is None:
        return ["no agent is there"]
    given = {param.name: value for param, value in zip(session.run.function.given, session.run.args)}
    found = {**session.constants, **given, **variables(agent, session.run.code)}
    return [short_text(name, value) for name, value in sorted(found.items())] or ["there are no variables here"]


@command("memory", "m", usage="memory [NAME]", about="the buffers of the CTA with their layouts, or what is in one")
def memory(session: Session, rest: str) -> list[str]:
    """Lists the buffers of the CTA, or shows the contents of one."""
    cta = session.cta
    if cta is None:
        return ["no CTA is there"]
    lines = memory_text(cta, session.layout)
    if not rest:
        return lines
    chosen = [(n, buffer) for n, buffer in enumerate(cta.buffers) if buffer.name == rest]
    if not chosen:
        raise Error(f"there is no buffer {rest!r}", remedy="'memory' lists them")
    return [*memory_text_of(lines, rest), *value_text(rest, cta.buffers[chosen[0][1]])[1:]]


def memory_text_of(lines: list[str], name: str) -> list[str]:
    """Picks the lines about one buffer from those that `memory` lists."""
    start = next(n for n, line in enumerate(lines) if line.split(": ")[0].endswith(f" {name}"))
    stop = next((n for n in range(start + 1, len(lines)) if not lines[n].startswith("  ")), len(lines))
    return lines[start:stop]


@command("barriers", usage="barriers [NAME | all]", about="phase, pending arrivals, bytes and waiters of the CTA's barriers")
def barriers(session: Session, rest: str) -> list[str]:
    """Lists the barriers of the CTA, or of all in its cluster."""
    cta = session.cta
    if cta is None:
        return ["no CTA is there"]
    return barriers_text(cta.cluster.ctas if rest == "all" else [cta], "" if rest == "all" else rest)


@command("copies", usage="copies", about="the work of engines in flight, and the barriers that it will tell")
def copies(session: Session, rest: str) -> list[str]:
    """Lists the cluster's copies in flight."""
    return copies_text(session.cluster)


@command("waits", usage="waits [all]", about="who waits for what, what that lacks, and who would bring it")
def waits(session: Session, rest: str) -> list[str]:
    """Lists who waits for what, and who would bring it."""
    return waits_text(session.run.clusters if rest == "all" else session.cluster, session.run)


@command("findings", usage="findings", about="what the checks have found so far")
def findings(session: Session, rest: str) -> list[str]:
    """Lists what the checks have found so far."""
    return [line for text in session.found() for line in [*text.splitlines(), ""]][:-1] or ["nothing is found so far"]


@command("help", "h", "?", usage="help", about="this list")
def help_(session: Session, rest: str) -> list[str]:
    """Lists all commands with their usage."""
    wide = max(len(each.usage) for each in COMMANDS if len(each.usage) < 30)
    lines = []
    for each in COMMANDS:
        short = f" ({', '.join(each.names[1:])})" if len(each.names) > 1 else ""
        head = each.usage.ljust(wide)
        lines.append(f"{head}  {each.about}{short}")
    return lines


@command("quit", "q", usage="quit", about="end the session")
def quit_(session: Session, rest: str) -> list[str]:
    """Ends the session."""
    session.closed = True
    return []
