"""The table that messages about arrival counts show: site, arriver, whose barrier, arrivals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phalanx.errors import columns_text
from phalanx.ir.views import BarrierArray
from phalanx.passes.rounds import Row

RUN_TIME = "run-time"


def spans(ranks: Iterable[int]) -> str:
    """`0-2, 5`: ranks in short."""
    parts: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def render(barrier: BarrierArray, rows: Sequence[Row], cluster_size: int) -> str:
    """The rows as text. Ranks that do the same share a line; a cluster of one has no rank columns."""
    header = ["site", "arriver"]
    clustered = cluster_size > 1
    if clustered:
        header += ["of CTA", "on CTA"]
    if barrier.n > 1:
        header.append("index")
    header.append("arrivals")
    lines = [header]
    for row, sources, ranks in _grouped(rows):
        cells = [row.site.short, str(row.agent)]
        if clustered:
            cells += [sources, ranks]
        if barrier.n > 1:
            cells.append(RUN_TIME if row.element is None else str(row.element))
        arrivals = "?" if row.arrivals is None else str(row.arrivals)
        cells.append(f"{arrivals}, if its branch is taken" if row.conditional else arrivals)
        lines.append(cells)
    return columns_text(lines)


def _grouped(rows: Sequence[Row]) -> Iterable[tuple[Row, str, str]]:
    """A row of each group, with the arrivers' and the barriers' ranks.

    Rows that differ only in ranks are one line if every arriver reaches the same CTAs or each only its own,
    else one line per CTA reached.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row.site, row.agent, row.element, row.arrivals, row.conditional, row.rank is None)
        if row not in groups.setdefault(key, []):
            groups[key].append(row)
    for group in groups.values():
        first = group[0]
        sources: dict[int, set[int]] = {}
        for row in group:
            if row.rank is not None:
                sources.setdefault(row.rank, set()).add(row.source)
        everyone = spans(row.source for row in group)
        if not sources:
            yield first, everyone, RUN_TIME
        elif all(members == {rank} for rank, members in sources.items()):
            yield first, everyone, "its own"
        elif len({frozenset(members) for members in sources.values()}) == 1:
            yield first, everyone, spans(sources)
        else:
            for rank in sorted(sources):
                yield first, spans(sources[rank]), str(rank)
