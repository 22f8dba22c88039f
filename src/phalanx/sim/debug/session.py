"""A session: where a person is in a run, where the run is to stop, and what has been said so far."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from phalanx.ir.views import Buffer
from phalanx.sim.agents import Agent
from phalanx.sim.debug.commands import carry_out
from phalanx.sim.debug.expressions import evaluate
from phalanx.sim.debug.run import AgentName, Run, name_of, outermost, who
from phalanx.sim.debug.show import agent_text
from phalanx.sim.debug.stops import Stop
from phalanx.sim.machine import Cluster, Cta

Wanted = Callable[[Agent | None, bool], str]
"""Asked at every tick, with the agent that is about to go on and whether it has come to a line: why the run stops there."""


class Session:
    """A simulated run under a person's hands. `do` takes commands; ``do("help")`` lists them.

    `px.debug` makes one. `constants` are the kernel's, `layout` says how a buffer lies in memory on the target.
    """

    def __init__(
        self, run: Run, constants: dict[str, Any] | None = None, layout: Callable[[Buffer], str] = lambda buffer: "",
        write: Callable[[str], object] | None = None,
    ) -> None:
        self.run = run
        self.constants = constants or {}
        self.layout = layout
        self.write = write or (lambda text: sys.stdout.write(text + "\n"))
        self.stops: list[Stop] = []
        self.focus: AgentName = (0, 0, 0)
        self.printed = 0
        self.known = 0
        self.closed = False
        """Somebody has said `quit`."""
        self.running = False
        self.interrupted = False
        """Whoever sets it while the run goes on stops it before the next instruction."""
        self.go(lambda agent, at_line: "the run begins")

    # --- taking commands --------------------------------------------------------------------------------------------

    def do(self, *commands: str) -> None:
        """Carries out commands, one after the other, and prints what they say.

        Anyone may call it; needs no GPU. ``do("help")`` lists the commands. Example::

            session = px.debug(copy[1], x, y)
            session.do("break 12", "continue", "print acc", "waits")
        """
        for command in commands:
            self.say(carry_out(self, command))

    def script(self, lines: Iterable[str]) -> None:
        """Commands of a file, one a line, each printed before what it says; what begins with # is left out."""
        for line in lines:
            command = line.strip()
            if command and not command.startswith("#"):
                self.say([f"(phalanx) {command}"])
                self.do(command)
            if self.closed:
                return

    def interact(self, read: Callable[[str], str] = input) -> None:
        """Asks for commands until `quit`, or until there are no more; an empty line repeats the one before."""
        before = ""
        self.say(self.here())
        while not self.closed:
            try:
                command = read("(phalanx) ").strip() or before
            except (EOFError, KeyboardInterrupt):
                return
            before = command
            self.do(command)

    def say(self, lines: list[str]) -> None:
        """Prints what the kernel printed since the last time, then these lines."""
        text = self.run.out.getvalue()
        told = text[self.printed :].splitlines()
        self.printed = len(text)
        if told or lines:
            self.write("\n".join([*told, *lines]))

    # --- where it is ------------------------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent | None:
        """The agent that commands are about; None where it is not there any more."""
        found = self.run.find(self.focus)
        return found if found is not None and found.alive else None

    @property
    def cta(self) -> Cta | None:
        """The CTA of that agent, or where that is gone, another; once all are over, that which was the last to end."""
        agent = self.agent
        if agent is not None:
            return agent.cta
        clusters = self.run.clusters or self.run.scheduler.free[-1:]
        return clusters[0].ctas[0] if clusters else None

    @property
    def cluster(self) -> list[Cluster]:
        """The cluster of that agent; none where all are over."""
        cta = self.cta
        return [] if cta is None else [cta.cluster]

    def here(self) -> list[str]:
        """Where the agent is."""
        agent = self.agent
        if agent is not None:
            return agent_text(agent, self.run)
        return [f"the run is over (tick {self.run.tick})"] if self.run.over else [f"tick {self.run.tick}"]

    def evaluate(self, text: str, agent: Agent | None = None) -> Any:
        """The value of an expression, as that agent or the one that commands are about sees it."""
        agent = agent or self.agent
        return evaluate(text, self.run, agent, self.cta if agent is None else agent.cta, self.constants)

    def found(self) -> list[str]:
        """Every finding so far; those that are certain, once the run is over."""
        return self.run.started.texts()

    # --- going on ---------------------------------------------------------------------------------------------------

    def go(self, wanted: Wanted) -> list[str]:
        """Runs until `wanted` says why to stop, a stop is reached, something is found, or the run ends; says so."""
        run = self.run
        if run.over:
            return ["the run is over: 'back' goes back, 'restart' begins again"]
        self.running = True
        self.interrupted = False
        try:
            with np.errstate(all="ignore"):
                return self._go(wanted)
        finally:
            self.running = False

    def _go(self, wanted: Wanted) -> list[str]:
        run = self.run
        count = run.started.count
        while run.advance():
            now = run.now
            agent = now if isinstance(now, Agent) else None
            if self.interrupted:
                self._look_at(agent)
                return ["interrupted", *self.here()]
            at_line = run.at_line
            found = count()
            if found > self.known:
                return self._stop_at_findings(found, agent)
            reason = self._reason(agent, at_line)
            if reason:
                self._look_at(agent)
                return [*self._said(reason), *self.here()]
            reason = wanted(agent, at_line)
            if reason:
                return [*self._said(reason), *self.here()]
        return self._end()

    @staticmethod
    def _said(reason: str) -> list[str]:
        return [] if reason == HERE else [reason]

    def _reason(self, agent: Agent | None, at_line: bool) -> str:
        """Why one of the stops holds the run here; "" where none does."""
        current = self.run.current
        if current is not None and current.position.op is not None and current.position.op.stops:
            return "px.breakpoint"
        for number, stop in enumerate(self.stops, 1):
            reason = stop.reached(self.run, agent, at_line)
            if reason:
                return f"stop {number}: {reason}"
        return ""

    def _look_at(self, agent: Agent | None) -> None:
        if agent is not None and agent.alive:
            self.focus = name_of(agent)

    def _stop_at_findings(self, found: int, agent: Agent | None) -> list[str]:
        """What was just found, and the agent whose instruction it was."""
        texts = self.found()[self.known : found]
        self.known = found
        self._look_at(getattr(self.run.started.monitor, "current", None) or agent)
        return [*(line for text in texts for line in [*text.splitlines(), ""]), *self.here()]

    def _end(self) -> list[str]:
        """The run has ended: what is found now, and what stopped it."""
        run = self.run
        texts = self.found()[self.known :]
        self.known = run.started.count()
        lines = [line for text in texts for line in [*text.splitlines(), ""]]
        certain = run.started.finish()
        if run.error is not None and not certain:
            lines += [*str(run.error).splitlines(), ""]
        if run.error is not None:
            self._look_at(getattr(run.started.monitor, "current", None))
        count = f"{len(certain)} finding{'s' * (len(certain) != 1)}"
        stuck = run.error is not None and bool(run.clusters)
        lines.append(f"the run {'can not go on' if stuck else 'is over'} (tick {run.tick}): {count}")
        if stuck and self.agent is None and (others := run.agents()):
            self.focus = name_of(others[0])
        return [*lines, *self.here()] if stuck and self.agent is not None else lines

    # --- going back -------------------------------------------------------------------------------------------------

    def go_to(self, tick: int) -> list[str]:
        """To a tick, by the same order of events; what the kernel prints on the way is not printed again."""
        self.run.replay(tick)
        self.known = self.run.started.count()
        self.printed = len(self.run.out.getvalue())
        for stop in self.stops:
            stop.renew(self.run)
        now = self.run.now
        if self.agent is None and isinstance(now, Agent):
            self._look_at(now)
        return self.here()

    # --- one step of an agent ---------------------------------------------------------------------------------------

    def step(self, arrived: Callable[[Agent, bool], bool]) -> list[str]:
        """Goes on until the agent is where `arrived` says; into its roles where it forks, and until it ends."""
        agent = self.agent
        if agent is None:
            return self.go(self._any_line)
        cluster = agent.cta.cluster

        def wanted(now: Agent | None, at_line: bool) -> str:
            if now is not None and (now is agent or now.parent is agent) and arrived(now, at_line):
                self._look_at(now)
                return HERE
            if not agent.alive or cluster.index != self.focus[0]:
                said = f"{words} has ended"
                self._look_at(now)
                return said
            return ""

        words = who(agent)
        return self.go(wanted)

    def _any_line(self, now: Agent | None, at_line: bool) -> str:
        if not at_line:
            return ""
        self._look_at(now)
        return HERE

    def kernel_line(self, agent: Agent) -> tuple[str, int]:
        """The kernel's own line that an agent is at, also while it is in a function that was inlined there."""
        place = outermost(self.run.seen_place(agent)) if name_of(agent) in self.run.seen else None
        return ("", 0) if place is None else (place.file, place.line)

    def __repr__(self) -> str:
        return f"<Session of {self.run.function.name}: {self.here()[0]}; do('help') lists the commands>"


HERE = "here"
"""The reason of a stop that needs no words: the agent is where it was asked to go."""
