"""The page of a timeline in a real browser: bars, arrows, search and keys work, nothing is logged; 50,000 events."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from phalanx.runtime.timeline.trace import Trace
from phalanx.runtime.timeline.viewer import data_of, viewer_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = os.environ.get("PHALANX_TEST_BROWSER") or next((name for name in BROWSERS if shutil.which(name)), "")
needs_browser = pytest.mark.skipif(not BROWSER, reason="no Chromium on the path; PHALANX_TEST_BROWSER may name one")
HEAD = """
<script>
window.problems = [];
onerror = (text) => { problems.push(String(text)); };
onunhandledrejection = (event) => { problems.push(String(event.reason)); };
</script>
"""

TAIL = """
<script>
addEventListener("load", () => setTimeout(() => {
  const canvas = document.getElementById("canvas"), out = {};
  const press = (key, target = document) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const colours = () => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, found = new Set();
    for (let i = 0; i < pixels.length; i += 4 * 7) found.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`);
    return found.size;
  };
  const frame = () => new Promise((done) => { requestAnimationFrame(() => setTimeout(done, 0)); setTimeout(done, 200); });
  const tell = () => {
    out.problems = problems;
    document.body.append(Object.assign(document.createElement("pre"), { id: "out", textContent: JSON.stringify(out) }));
  };
  (async () => {
    await frame();
    timeline.draw(); out.count = timeline.count; out.colours = colours();
    const whole = timeline.view.to - timeline.view.from;
    press("+"); await frame(); out.zoomed = (timeline.view.to - timeline.view.from) / whole;
    const from = timeline.view.from; press("ArrowRight"); await frame(); out.moved = timeline.view.from > from;
    press("f"); press("."); await frame(); out.selected = timeline.selected >= 0;
    const before = timeline.selected; press("ArrowDown"); out.otherRow = timeline.selected !== before;
    const box = document.getElementById("search");
    press("/"); out.focused = document.activeElement === box;
    box.value = "wait"; press("Enter", box); await frame();
    out.found = document.getElementById("found").textContent;
    out.detail = document.getElementById("detail").textContent;
    box.blur();
    const wait = timeline.selected; press("g"); out.cause = timeline.selected !== wait;
    const themed = getComputedStyle(document.body).backgroundColor; press("t"); await frame();
    out.theme = getComputedStyle(document.body).backgroundColor !== themed;
    const rows = [...document.querySelectorAll(".row[data-line]")]; rows[0].click(); await frame();
    out.lines = rows.length;
    press("Escape"); press("f");
  })().catch((problem) => problems.push(String(problem))).finally(tell);
}, 50));
</script>
"""
TWO = """
<script>
{
  const out = { count: timeline.count, below: timeline.tall, sums: document.getElementById("summary").textContent };
  const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  timeline.draw();
  press("."); const first = timeline.selected; press("ArrowDown"); out.next = [first, timeline.selected];
  press("o"); timeline.draw(); out.over = timeline.tall; press("o"); out.again = timeline.tall;
  document.getElementById("over").click(); out.clicked = timeline.tall; timeline.draw();
  out.hidden = document.getElementById("over").hidden;
  out.spent = [...document.querySelectorAll(".spent")].map((part) => part.textContent).filter((text) => text.includes("  "));
  out.problems = problems;
  document.body.append(Object.assign(document.createElement("pre"), { id: "out", textContent: JSON.stringify(out) }));
}
</script>
"""
TIMED = """
<script>
{
  const began = performance.now();
  for (let n = 0; n < 40; n++) { timeline.zoom(n % 2 ? 1.7 : 0.6); timeline.draw(); }
  const out = { count: timeline.count, draws: (performance.now() - began) / 40, problems };
  document.body.append(Object.assign(document.createElement("pre"), { id: "out", textContent: JSON.stringify(out) }));
}
</script>
"""
NARROW = """
<script>
{
  const box = (name) => document.getElementById(name).getBoundingClientRect();
  const out = { window: innerWidth, rows: box("stage").width, tall: box("stage").height, problems };
  out.below = box("code").top >= box("stage").bottom; out.over = document.documentElement.scrollWidth - innerWidth;
  document.body.append(Object.assign(document.createElement("pre"), { id: "out", textContent: JSON.stringify(out) }));
}
</script>
"""


@px.kernel(warps=2)
def ring(X, Y, *, STAGES=2, STEPS=8):
    s, full, empty, at = px.shared((STAGES, 8, 32), X.dtype), px.barrier(STAGES), px.barrier(STAGES), px.ring(STAGES)
    with px.warps(0, 1):
        for t in range(STEPS):
            empty[at.stage].wait(at.parity ^ 1)
            with full[at.stage].transaction():
                px.tma.load(X[t * 8 : t * 8 + 8, 0:32], s[at.stage], full[at.stage])
            at.advance()
    with px.warps(1, 1):
        for t in range(STEPS):
            full[at.stage].wait(at.parity)
            px.store(Y[t * 8 : t * 8 + 8, 0:32], px.load(s[at.stage]))
            empty[at.stage].arrive()
            at.advance()


def traced() -> Trace:
    array = px.spec((64, 32), px.f32)
    return px.trace(ring[1], array, array)


def seen(page: str, folder: Path, script: str, *options: str) -> dict[str, Any]:
    """What a browser says of a page, when a script has been run on it."""
    file = folder / "page.html"
    file.write_text(page.replace("<meta charset", HEAD + "<meta charset", 1).replace("</body>", script + "</body>", 1))
    plain = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,800"]
    command = [BROWSER, *plain, *options, f"--user-data-dir={folder / 'profile'}", "--dump-dom", file.as_uri()]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = re.search(r'<pre id="out">(.*?)</pre>', found.stdout, re.DOTALL)
    assert said is not None, found.stderr[-2000:]
    answer: dict[str, Any] = json.loads(said.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return answer


@needs_browser
def test_bars_arrows_search_and_keys(tmp_path: Path) -> None:
    made = traced()
    out = seen(viewer_page(made), tmp_path, TAIL, "--virtual-time-budget=20000")
    assert out["problems"] == [] and out["count"] == len(made.events) and out["colours"] > 6
    assert out["zoomed"] == pytest.approx(0.6) and out["moved"] and out["selected"] and out["otherRow"]
    assert out["focused"] and re.fullmatch(r"1 of \d+", out["found"]) and "wait" in out["detail"]
    assert out["cause"] and out["theme"] and out["lines"] >= 8


@needs_browser
def test_on_a_phone_the_text_stands_below_the_rows(tmp_path: Path) -> None:
    out = seen(viewer_page(traced()), tmp_path, NARROW, "--window-size=500,900")
    assert out["problems"] == [] and out["window"] <= 700 and out["over"] <= 0
    assert out["rows"] == out["window"] and out["tall"] > 200 and out["below"]


@needs_browser
def test_two_timelines_stand_below_each_other_or_lie_over_each_other(tmp_path: Path) -> None:
    array = px.spec((64, 32), px.f32)
    before, after = px.trace(ring[1], array, array, STAGES=1), traced()
    out = seen(viewer_page(before, after), tmp_path, TWO)
    assert out["problems"] == [] and out["count"] == len(before.events) + len(after.events)
    assert out["over"] < out["below"] == out["again"] and out["clicked"] == out["over"] and not out["hidden"]
    assert out["sums"].startswith(f"A: {before.cycles:,.0f} cycles") and f"B: {after.cycles:,.0f} cycles" in out["sums"]
    assert len(out["spent"]) >= 8 and out["next"][0] < len(before.events) <= out["next"][1]


def test_rows_of_an_agent_are_neighbours_and_releases_stay_in_their_timeline() -> None:
    array = px.spec((64, 32), px.f32)
    before, after = px.trace(ring[1], array, array, STAGES=1), traced()
    data = data_of(before, after)
    titles = [(title, side) for _, _, title, _, side in data["lanes"]]
    assert titles[:2] == [("all warps", 0), ("all warps", 1)] or titles[0][0] == titles[1][0]
    count = len(before.events)
    for number, event in enumerate(data["events"]):
        assert all(cause < 0 or (cause < count) == (number < count) for cause in event[6:8])
    assert min(event[2] for event in data["events"][count:]) == 0
    assert all((data["lanes"][event[0]][4] == 1) == (number >= count) for number, event in enumerate(data["events"]))


@pytest.mark.long
@needs_browser
def test_fifty_thousand_events(tmp_path: Path) -> None:
    made = traced()
    copies = 50_000 // len(made.events) + 1
    events = []
    for copy in range(copies):
        first, later = copy * len(made.events), copy * made.span
        for event in made.events:
            moved = dataclasses.replace(event, number=event.number + first, start=event.start + later, end=event.end + later)
            moved.after += first if event.after >= 0 else 0
            moved.released_by += first if event.released_by >= 0 else 0
            events.append(moved)
    out = seen(viewer_page(dataclasses.replace(made, events=events, span=made.span * copies)), tmp_path, TIMED)
    assert out["problems"] == [] and out["count"] == len(events) >= 50_000
    print(f"{out['draws']:.1f} ms for a frame")
    assert out["draws"] < 100  # 16 ms on a machine that does nothing else
