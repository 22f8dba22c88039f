"""Loops whose tiles are drawn, by a counter or by cluster launch control: where they are, and which belong together.

Of roles that run at the same time, the first such loops of all of them go through the same tiles, then the second ones.
Every cluster comes to such a loop and goes on to its end: what could keep it from there, or take it out, is refused here.
`passes/tile_draws.py` and `passes/tile_requests.py` write what stands in the place of each.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from phalanx.analysis.ranks import Evaluator
from phalanx.errors import Error
from phalanx.ir.core import MOST_DRAWN, Block, Function, Op, rewrite
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, NextTile, Role, Roles, Scope, While
from phalanx.ir.types import ArrayType, i32
from phalanx.ir.values import Label, Param
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.passes.tile_draws import Draws, Slots
from phalanx.passes.tile_requests import Answers, Requests

STATIC = 'or use schedule="static", which takes it'


def write_draws(function: Function) -> Function:
    """The kernel with its draws written out, and with the runtime's parameter for counters behind the user's.

    Called by `passes.pipeline`, when roles are formed and before barriers are counted.
    """
    _refuse_work_for_others(function)
    groups = _Finder(function).groups()
    if not groups:
        return function
    _check_schedules(function, groups)
    own = function.counters  # that the kernel asks for itself: the others follow
    array = function.params[-1] if own else Param(ArrayType(1, i32), "tile_counters", len(function.params))
    taken = {buffer.name for buffer in function.buffers} | {barrier.name for barrier in function.barriers}
    written: dict[NextTile, Draws | Requests] = {}
    buffers: list[SharedBuffer] = []
    barriers: list[BarrierArray] = []
    counters = own
    for group in groups:
        drawer = min(group, key=lambda site: site.copies > 1)
        agents, loc = sum(site.copies for site in group), group[0].loop.loc
        if drawer.draw.takes_over:
            answers = Answers.of(taken, loc)
            writers: list[Draws | Requests] = [
                Requests(function, answers, site.copies, draws=site is drawer) for site in group
            ]
            buffers.append(answers.responses)
            barriers += [answers.full, answers.empty]
        else:
            slots = Slots.of(function, agents, taken, loc)
            writers = [Draws(function, array, counters, slots, site.copies, draws=site is drawer) for site in group]
            buffers += [] if slots is None else [slots.tiles]
            barriers += [] if slots is None else [slots.full, slots.empty]
            counters += 1
        written |= {site.draw: writer for site, writer in zip(group, writers, strict=True)}

    def visit(op: Op) -> list[Op] | None:
        draw = draw_of(op)
        return None if draw is None or not isinstance(op, While) else written[draw].loop(op, draw)

    return dataclasses.replace(
        function,
        params=(*function.params, array) if counters and not own else function.params,
        counters=counters,
        buffers=(*function.buffers, *buffers),
        barriers=(*function.barriers, *barriers),
        body=rewrite(function.body, visit),
    )


def draw_of(op: Op) -> NextTile | None:
    """What draws the tiles of a loop; None for other instructions."""
    return next((inner.draw for inner in op.test if inner.draw is not None), None) if isinstance(op, While) else None


def call_of(loop: While) -> str:
    """What users wrote for the tiles of a loop."""
    draw = draw_of(loop)
    assert draw is not None
    return f'px.persistent(n, schedule="{draw.schedule}")'


def _check_schedules(function: Function, groups: list[list[Site]]) -> None:
    """There are counters for all, and where clusters take over others no tiles depend on who started."""
    drawn = [group[0] for group in groups if not group[0].draw.takes_over]
    if len(drawn) > MOST_DRAWN:
        raise Error(
            f"kernel '{function.name}' has {len(drawn)} loops over {call_of(drawn[0].loop)}",
            location=drawn[MOST_DRAWN].loop.loc,
            remedy=f"a launch has {MOST_DRAWN} counters: use schedule=\"static\" for some of them",
        )
    taking = next((group for group in groups if group[0].draw.takes_over), None)
    if taking is None:
        return
    own = {site.draw for site in taking}
    other = next((op for op in function.walk() if op.dealt_tiles is not None and op not in own), None)
    if other is not None:
        raise Error(
            f"another loop over px.persistent beside {call_of(taking[0].loop)} at {taking[0].loop.loc.short}",
            location=other.loc,
            remedy="not all clusters start where running ones take them over, and tiles that are theirs would be nobody's: "
            "make one loop of both, or use another schedule",
        )


def _refuse_work_for_others(function: Function) -> None:
    asking = next((op for op in function.walk() if op.asks_for_work), None)
    if asking is not None and any(op.dealt_tiles is not None for op in function.walk()):
        raise Error(
            f"{asking.call} in a kernel with px.persistent",
            location=asking.loc,
            remedy="not all clusters start where running ones take them over, and their tiles would be nobody's: deal "
            "the tiles one way or the other",
        )


@dataclass(frozen=True)
class Site:
    """A loop that draws, and its agent: the role of a group of roles, or None for all warps."""

    loop: While
    draw: NextTile
    roles: Roles | None
    role: Role | None

    @property
    def copies(self) -> int:
        """How many agents of a CTA run it."""
        return 1 if self.role is None else self.role.copies


@dataclass
class _Finder:
    """Looks for loops that draw, in order, and for what would keep a cluster from them."""

    function: Function
    sites: list[Site] = field(default_factory=list)
    left: dict[Label, Op] = field(default_factory=dict)
    """Scopes that something may have left already, with what leaves them."""

    def groups(self) -> list[list[Site]]:
        """Loops that go through the same tiles: of each group of roles the first of every role, the second, and so on."""
        self._block(self.function.body, (), None, None)
        found: dict[tuple[object, int], list[Site]] = {}
        counts: dict[object, int] = {}
        for site in self.sites:
            agent = site.role if site.roles is not None else site.loop
            number = counts[agent] = counts.get(agent, -1) + 1
            found.setdefault((site.roles or site.loop, number), []).append(site)
        groups = list(found.values())
        for group in groups:
            _check_together(self.function, group, counts)
        return groups

    def _block(self, block: Block, around: tuple[Op, ...], roles: Roles | None, role: Role | None) -> None:
        for op in block.ops:
            if isinstance(op, Leave):
                self.left.setdefault(op.label, op)
            draw = draw_of(op)
            if draw is not None:
                assert isinstance(op, While)
                self._check_place(op, around)
                _check_exits(op)
                self.sites.append(Site(op, draw, roles, role))
            if isinstance(op, Roles):
                for region in op.regions:
                    self._block(region.body, (*around, op), op, region)
            else:
                for inner in op.blocks():
                    self._block(inner, (*around, op), roles, role)

    def _check_place(self, loop: While, around: tuple[Op, ...]) -> None:
        """Every cluster comes to the loop, once."""
        for op in around:
            if isinstance(op, (For, While)):
                raise Error(
                    f"{call_of(loop)} inside another loop",
                    location=loop.loc,
                    remedy=f"its counter deals the tiles once in a launch: make one loop of both, {STATIC}",
                )
            if isinstance(op, If):
                raise Error(
                    f"{call_of(loop)} under a condition that only a run knows (at {op.loc.short})",
                    location=loop.loc,
                    remedy=f"the tiles of a cluster that does not come here would be nobody's: put the condition into the "
                    f"loop, {STATIC}",
                )
            if isinstance(op, Scope) and op.label in self.left:
                raise Error(
                    f"return before the loop over {call_of(loop)} at {loop.loc.short}",
                    location=self.left[op.label].loc,
                    remedy=f"the tiles of a cluster that does not come to the loop would be nobody's: give n = 0 instead, "
                    f"{STATIC}",
                )


def _check_exits(loop: While) -> None:
    """Nothing leaves the loop before its tiles are dealt."""
    own = {op.label for op in loop.body.walk() if isinstance(op, (For, While, Scope))}
    for op in loop.body.walk():
        if not isinstance(op, (Break, Continue, Leave)) or op.label in own:
            continue
        if op.label is loop.label and isinstance(op, Continue):
            continue
        word = "return" if isinstance(op, Leave) else "break" if isinstance(op, Break) else "continue"
        raise Error(
            f"{word} leaves a loop over {call_of(loop)}",
            location=op.loc,
            remedy=f"tiles that were drawn would be nobody's, and the other roles would wait for more: put the rest of the "
            f"loop under an if, {STATIC}",
        )


def _check_together(function: Function, group: list[Site], counts: dict[object, int]) -> None:
    """The roles of a group have as many such loops each, over the same number of tiles."""
    first = group[0]
    evaluator = Evaluator(function, 0)
    for site in group[1:]:
        assert first.role is not None and site.role is not None
        if counts[site.role] != counts[first.role]:
            raise Error(
                f"the role {first.role.name} has {counts[first.role] + 1} loops over {call_of(first.loop)}, "
                f"{site.role.name} has {counts[site.role] + 1}",
                location=site.loop.loc,
                remedy="concurrent roles go through the same tiles: give each of them as many such loops",
            )
        if site.draw.schedule != first.draw.schedule:
            raise Error(
                f"the role {site.role.name} draws its tiles in another way than {first.role.name} at {first.loop.loc.short}",
                location=site.loop.loc,
                remedy="concurrent roles go through the same tiles: give their loops one schedule",
            )
        if not evaluator.same(first.draw.n, site.draw.n):
            raise Error(
                f"the role {site.role.name} goes through another number of tiles than {first.role.name} does at "
                f"{first.loop.loc.short}, as far as can be seen",
                location=site.loop.loc,
                remedy="loops of concurrent roles that draw their tiles get the same: compute n once, before the roles",
            )
