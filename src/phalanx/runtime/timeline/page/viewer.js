"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [LANE, KIND, START, END, LINE, TEXT, AFTER, BY, BYTES, PHASE] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const WAIT = data.kinds.indexOf("wait");
  const events = data.events;
  const canvas = document.getElementById("canvas");
  const stage = document.getElementById("stage");
  const tip = document.getElementById("tip");
  const detail = document.getElementById("detail");
  const pen = canvas.getContext("2d");
  const GUTTER = 190, TOP = 26, BAR = 15, GAP = 6;

  // --- rows: an engine does several things at once, so that its events take several bars below each other ---
  const two = data.sides.length > 1;
  const rows = data.lanes.map(([place, cta, title, engine, side]) => ({ place, cta, title, engine, side, list: [], depth: 1, y: 0 }));
  const depthOf = new Int32Array(events.length);
  for (let i = 0; i < events.length; i++) rows[events[i][LANE]].list.push(i);
  for (const row of rows) {
    row.list.sort((a, b) => events[a][START] - events[b][START] || a - b);
    const ends = [];
    row.longest = 0;
    for (const i of row.list) {
      let depth = ends.findIndex((end) => end <= events[i][START]);
      if (depth < 0) depth = ends.length < 6 ? ends.push(0) - 1 : ends.indexOf(Math.min(...ends));
      ends[depth] = Math.max(ends[depth], events[i][END]);
      depthOf[i] = depth;
      row.longest = Math.max(row.longest, events[i][END] - events[i][START]);
    }
    row.depth = Math.max(1, ends.length);
  }
  const several = new Set(data.lanes.map(([place, cta]) => place * 16 + cta)).size > 1;
  let height = TOP, over = false;
  // Of two timelines the rows of an agent stand below each other, or lie in one place, the second one's bars as outlines.
  function layOut() {
    height = TOP;
    let group = null, former = null;
    for (const row of rows) {
      const own = row.place * 16 + row.cta;
      row.head = "";
      if (several && own !== group) { height += 16; group = own; row.head = `CTA ${row.cta}${row.place ? `, place ${row.place}` : ""}`; }
      row.below = over && former !== null && former.side !== row.side && former.title === row.title && former.place * 16 + former.cta === own;
      if (row.below) { row.y = former.y; row.depth = row.own; height = Math.max(height, row.y + row.depth * (row.engine ? BAR - 5 : BAR) + GAP); former = null; continue; }
      row.y = height;
      height += row.depth * (row.engine ? BAR - 5 : BAR) + GAP;
      former = row;
    }
  }
  for (const row of rows) row.own = row.depth;
  layOut();
  let last = 1;
  for (const event of events) last = Math.max(last, event[END]);
  const first = events.reduce((least, event) => Math.min(least, event[START]), last);

  // --- what is shown ---
  const view = { from: first, to: last, scroll: 0 };
  let selected = -1, arrows = true, matches = [], matched = null, at = -1, lineOn = -1, asked = false;
  let width = 0, tall = 0, colours = {};

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function readColours() {
    colours = { paper: css("--paper"), ink: css("--ink"), faint: css("--faint"), soft: css("--soft"), quiet: css("--quiet"), mark: css("--mark") };
    colours.kinds = data.kinds.map((kind) => css(`--${kind}`));
  }
  const x = (time) => GUTTER + ((time - view.from) / (view.to - view.from)) * (width - GUTTER);
  const time = (pixel) => view.from + ((pixel - GUTTER) / (width - GUTTER)) * (view.to - view.from);
  const barHeight = (row) => (row.engine ? BAR - 5 : BAR);
  const barTop = (i) => { const row = rows[events[i][LANE]]; return row.y + depthOf[i] * barHeight(row) - view.scroll; };

  function ask() { if (!asked) { asked = true; requestAnimationFrame(draw); } }
  function resize() {
    const box = stage.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    width = Math.max(GUTTER + 50, box.width); tall = Math.max(60, box.height);
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(tall * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    ask();
  }

  function firstAfter(row, when) {
    let low = 0, high = row.list.length;
    while (low < high) { const middle = (low + high) >> 1; if (events[row.list[middle]][START] < when) low = middle + 1; else high = middle; }
    return low;
  }

  function draw() {
    asked = false;
    pen.fillStyle = colours.paper; pen.fillRect(0, 0, width, tall);
    ruler();
    pen.save(); pen.beginPath(); pen.rect(0, TOP, width, tall - TOP); pen.clip();
    for (const row of rows) drawRow(row);
    if (arrows) drawArrows();
    if (selected >= 0) outline(selected);
    pen.restore();
  }

  function ruler() {
    const span = view.to - view.from, rough = span / Math.max(2, (width - GUTTER) / 110);
    const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    pen.font = "11px ui-sans-serif, system-ui, sans-serif"; pen.fillStyle = colours.quiet; pen.strokeStyle = colours.faint; pen.lineWidth = 1;
    for (let mark = Math.ceil(view.from / step) * step; mark <= view.to; mark += step) {
      const left = Math.round(x(mark)) + 0.5;
      pen.beginPath(); pen.moveTo(left, TOP - 6); pen.lineTo(left, tall); pen.stroke();
      pen.fillText(step < 1 ? mark.toFixed(2) : Math.round(mark).toLocaleString("en"), left + 3, 12);
    }
    pen.fillText(`cycles; ${((view.to - view.from) / data.clock).toFixed(2)} us shown`, 6, 12);
  }

  function drawRow(row) {
    const top = row.y - view.scroll, bar = barHeight(row);
    if (two && row.side && !row.below) { pen.fillStyle = colours.soft; pen.fillRect(0, top - 2, width, row.depth * bar + 4); }
    if (row.head) { pen.fillStyle = colours.quiet; pen.fillText(row.head, 6, top - 4); }
    if (top > tall || top + row.depth * bar < TOP) return;
    pen.strokeStyle = colours.faint; pen.beginPath(); pen.moveTo(0, Math.round(top + row.depth * bar + 2) + 0.5);
    pen.lineTo(width, Math.round(top + row.depth * bar + 2) + 0.5); pen.stroke();
    const reached = new Float64Array(row.depth).fill(-1), scale = (width - GUTTER) / (view.to - view.from);
    let brush = "";
    for (let n = firstAfter(row, view.from - row.longest); n < row.list.length; n++) {
      const i = row.list[n], event = events[i];
      if (event[START] > view.to) break;
      if (event[END] < view.from) continue;
      const left = Math.max(GUTTER, GUTTER + (event[START] - view.from) * scale);
      const right = Math.min(width, GUTTER + (event[END] - view.from) * scale);
      const depth = depthOf[i], shown = (matched === null || matched.has(i)) && (lineOn < 0 || event[LINE] === lineOn);
      if (right <= reached[depth] && !(shown && matched !== null)) continue;  // behind a pixel that is drawn
      reached[depth] = Math.max(left + 1, right);
      if (matched !== null || lineOn >= 0) pen.globalAlpha = shown ? 1 : 0.16;
      if (brush !== colours.kinds[event[KIND]]) { brush = colours.kinds[event[KIND]]; pen.fillStyle = brush; }
      const wait = event[KIND] === WAIT;
      const y = top + depth * bar + (wait ? bar / 3 : 1), high = wait ? bar / 3 : bar - 2;
      if (row.below) { pen.strokeStyle = wait ? colours.mark : colours.ink; pen.lineWidth = 1; pen.strokeRect(left + 0.5, y + 0.5, Math.max(1, right - left - 1), high - 1); continue; }
      pen.fillRect(left, y, Math.max(1, right - left - (right - left > 4 ? 0.6 : 0)), high);
      if (right - left > 60 && !wait && bar > 11) {
        pen.save(); pen.beginPath(); pen.rect(left, y, right - left, high); pen.clip();
        pen.fillStyle = "#10151b"; pen.fillText(nameOf(i), left + 3, y + high - 3); pen.restore(); brush = "";
      }
    }
    pen.globalAlpha = 1;
    if (row.below) return;
    pen.fillStyle = two && row.side ? colours.soft : colours.paper; pen.fillRect(0, top - 1, GUTTER - 4, row.depth * bar + 3);
    pen.fillStyle = row.engine ? colours.quiet : colours.ink;
    const title = two && !over ? `${"AB"[row.side]}  ${row.title}` : row.title;
    pen.fillText(title.length > 29 ? `${title.slice(0, 28)}…` : title, row.engine ? 18 : 6, top + bar - 4);
  }

  function drawArrows() {
    const visible = [];
    if (selected >= 0) {
      visible.push(selected);
      for (const i of releasedBy(selected)) visible.push(i);
    } else if (view.to - view.from < 24000) {
      for (const row of rows) {
        if (row.engine) continue;
        for (let n = firstAfter(row, view.from - row.longest); n < row.list.length && visible.length < 600; n++) {
          const event = events[row.list[n]];
          if (event[START] > view.to) break;
          if (event[KIND] === WAIT && event[END] >= view.from && event[BY] >= 0) visible.push(row.list[n]);
        }
      }
    }
    pen.strokeStyle = colours.mark; pen.fillStyle = colours.mark; pen.lineWidth = 1;
    for (const i of visible) {
      const event = events[i], by = event[BY] >= 0 ? event[BY] : event[AFTER];
      if (by < 0) continue;
      pen.globalAlpha = selected >= 0 ? 0.95 : 0.4;
      arrow(x(Math.min(events[by][END], event[END])), barTop(by) + 6, x(event[BY] >= 0 ? event[END] : event[START]), barTop(i) + 7);
    }
    pen.globalAlpha = 1;
  }
  const releases = new Map();
  events.forEach((event, i) => { if (event[BY] >= 0) { const list = releases.get(event[BY]); if (list) list.push(i); else releases.set(event[BY], [i]); } });
  const releasedBy = (i) => (releases.get(i) || []).slice(0, 64);

  function arrow(x0, y0, x1, y1) {
    const bend = Math.max(12, Math.min(60, Math.abs(x1 - x0) / 2));
    pen.beginPath(); pen.moveTo(x0, y0); pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1); pen.stroke();
    pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x1 - 6, y1 - 3); pen.lineTo(x1 - 6, y1 + 3); pen.fill();
  }
  function outline(i) {
    const event = events[i], row = rows[event[LANE]];
    pen.strokeStyle = colours.mark; pen.lineWidth = 2;
    pen.strokeRect(Math.max(GUTTER, x(event[START])), barTop(i), Math.max(2, Math.min(width, x(event[END])) - Math.max(GUTTER, x(event[START]))), barHeight(row));
  }

  // --- words ---
  const nameOf = (i) => data.texts[events[i][TEXT]].split("\n")[0];
  const lineOf = (i) => { const [file, line] = data.lines[events[i][LINE]]; return file ? `${file.split(/[\\/]/).pop()}:${line}` : ""; };
  const sourceOf = (i) => {
    const [path, line] = data.lines[events[i][LINE]], file = data.files.find((each) => each.path === path);
    return file ? (file.lines[line - file.first] || "").trim() : "";
  };
  const cycles = (number) => Math.round(number).toLocaleString("en");
  function told(i, long) {
    const event = events[i], barrier = data.texts[event[TEXT]].split("\n")[1];
    const parts = [`${data.kinds[event[KIND]]}: ${nameOf(i)}   ${cycles(event[END] - event[START])} cycles`, `${lineOf(i)}  ${sourceOf(i)}`];
    if (event[BYTES]) parts.push(`${event[BYTES].toLocaleString("en")} bytes, ${(event[BYTES] / Math.max(1, event[END] - event[START])).toFixed(1)} a cycle`);
    if (barrier) parts.push(`${barrier}${event[PHASE] >= 0 ? `, phase ${event[PHASE]}` : ""}`);
    if (event[BY] >= 0) parts.push(`released by ${nameOf(event[BY])} at ${lineOf(event[BY])} (${rows[events[event[BY]][LANE]].title})`);
    if (long) {
      parts.push(`${rows[event[LANE]].title}, CTA ${rows[event[LANE]].cta}: ${cycles(event[START])} to ${cycles(event[END])}`);
      const count = (releases.get(i) || []).length;
      if (count) parts.push(`${count} wait${count > 1 ? "s" : ""} ended with it`);
    }
    return parts.join("\n");
  }

  // --- moving, choosing ---
  function clampView() {
    const least = 8, most = (last - first) * 1.15 + least;
    let span = Math.min(most, Math.max(least, view.to - view.from));
    const middle = (view.from + view.to) / 2;
    view.from = middle - span / 2; view.to = middle + span / 2;
    const slack = span * 0.5;
    if (view.from < first - slack) { view.from = first - slack; view.to = view.from + span; }
    if (view.to > last + slack) { view.to = last + slack; view.from = view.to - span; }
    view.scroll = Math.max(0, Math.min(view.scroll, Math.max(0, height + 20 - tall)));
    ask();
  }
  function zoom(factor, pixel) {
    const centre = time(pixel === undefined ? (GUTTER + width) / 2 : Math.max(GUTTER, pixel));
    view.from = centre - (centre - view.from) * factor; view.to = centre + (view.to - centre) * factor;
    clampView();
  }
  function move(share) { const by = (view.to - view.from) * share; view.from += by; view.to += by; clampView(); }
  function fit() { const slack = (last - first) * 0.01; view.from = first - slack; view.to = last + slack; view.scroll = 0; clampView(); }
  function show(i, close) {
    const event = events[i], length = event[END] - event[START];
    if (close) { view.from = event[START] - Math.max(10, length * 2); view.to = event[END] + Math.max(10, length * 2); }
    else if (event[END] < view.from || event[START] > view.to) { const half = (view.to - view.from) / 2, middle = (event[START] + event[END]) / 2; view.from = middle - half; view.to = middle + half; }
    const y = rows[event[LANE]].y;
    if (y - view.scroll < TOP || y - view.scroll > tall - 30) view.scroll = y - tall / 2;
    clampView();
  }
  function select(i, reveal) {
    selected = i;
    detail.textContent = i < 0 ? "Click a bar, or use the arrow keys." : told(i, true);
    for (const element of document.querySelectorAll(".row.on")) element.classList.remove("on");
    if (i >= 0) {
      const element = document.querySelector(`.row[data-line="${events[i][LINE]}"]`);
      if (element) { element.classList.add("on"); element.scrollIntoView({ block: "nearest" }); }
      if (reveal) show(i);
    }
    ask();
  }
  function hit(pixelX, pixelY) {
    if (pixelX < GUTTER || pixelY < TOP) return -1;
    const when = time(pixelX), slack = (3 * (view.to - view.from)) / width;
    for (const row of rows) {
      const bar = barHeight(row), depth = Math.floor((pixelY + view.scroll - row.y) / bar);
      if (depth < 0 || depth >= row.depth) continue;
      let best = -1, distance = slack;
      for (let n = firstAfter(row, when - row.longest - slack); n < row.list.length; n++) {
        const i = row.list[n];
        if (events[i][START] > when + slack) break;
        const away = Math.max(0, events[i][START] - when, when - events[i][END]);
        if (depthOf[i] === depth && away <= distance) { best = i; distance = away; }
      }
      if (best >= 0 || !over) return best;
    }
    return -1;
  }
  function neighbour(by) {
    if (selected < 0) { select(rows.length && rows[0].list.length ? rows[0].list[0] : -1, true); return; }
    const list = rows[events[selected][LANE]].list, n = list.indexOf(selected) + by;
    if (n >= 0 && n < list.length) select(list[n], true);
  }
  function otherRow(by) {
    if (selected < 0) { neighbour(0); return; }
    const event = events[selected], when = (event[START] + event[END]) / 2;
    for (let lane = event[LANE] + by; lane >= 0 && lane < rows.length; lane += by) {
      const list = rows[lane].list;
      if (!list.length) continue;
      const n = Math.min(list.length - 1, firstAfter(rows[lane], when));
      select(n > 0 && events[list[n - 1]][END] >= when ? list[n - 1] : list[n], true);
      return;
    }
  }
  function cause() {
    if (selected < 0) return;
    const event = events[selected], next = event[BY] >= 0 ? event[BY] : event[AFTER];
    if (next >= 0) select(next, true);
  }

  // --- searching ---
  const searchBox = document.getElementById("search"), found = document.getElementById("found");
  function search() {
    const words = searchBox.value.trim().toLowerCase();
    matches = []; matched = null; at = -1;
    if (words) {
      const said = data.texts.map((text) => text.toLowerCase());
      const where = data.lines.map(([file, line]) => {
        const source = data.files.find((each) => each.path === file);
        return `${file.split(/[\\/]/).pop()}:${line} ${source ? source.lines[line - source.first] || "" : ""}`.toLowerCase();
      });
      const titles = rows.map((row) => row.title.toLowerCase());
      for (let i = 0; i < events.length; i++) {
        const event = events[i];
        if (said[event[TEXT]].includes(words) || where[event[LINE]].includes(words) || titles[event[LANE]].includes(words)
            || data.kinds[event[KIND]] === words) matches.push(i);
      }
      matches.sort((a, b) => events[a][START] - events[b][START]);
      matched = new Set(matches);
    }
    found.textContent = words ? `${matches.length.toLocaleString("en")} events` : "";
    ask();
  }
  function nextMatch(by) {
    if (!matches.length) return;
    at = (at + by + matches.length) % matches.length;
    found.textContent = `${at + 1} of ${matches.length.toLocaleString("en")}`;
    select(matches[at], true);
  }
  let waiting = 0;
  searchBox.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 120); });
  searchBox.addEventListener("keydown", (key) => {
    if (key.key === "Enter") { clearTimeout(waiting); search(); nextMatch(key.shiftKey ? -1 : 1); }
    if (key.key === "Escape") { searchBox.value = ""; search(); canvas.focus(); }
    key.stopPropagation();
  });

  // --- hands ---
  let drag = null;
  canvas.addEventListener("pointerdown", (press) => {
    canvas.focus(); canvas.setPointerCapture(press.pointerId);
    drag = { x: press.offsetX, y: press.offsetY, from: view.from, to: view.to, scroll: view.scroll, moved: false };
  });
  canvas.addEventListener("pointermove", (press) => {
    if (drag) {
      const dx = press.offsetX - drag.x, dy = press.offsetY - drag.y;
      if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
      if (drag.moved) {
        const by = (dx / (width - GUTTER)) * (drag.to - drag.from);
        view.from = drag.from - by; view.to = drag.to - by; view.scroll = drag.scroll - dy; clampView();
      }
      tip.hidden = true; return;
    }
    const i = hit(press.offsetX, press.offsetY);
    tip.hidden = i < 0;
    if (i >= 0) {
      tip.textContent = told(i, false);
      tip.style.left = `${Math.max(0, Math.min(press.offsetX + 14, width - 430))}px`;
      tip.style.top = `${Math.min(press.offsetY + 16, tall - 90)}px`;
    }
  });
  canvas.addEventListener("pointerup", (press) => { if (drag && !drag.moved) select(hit(press.offsetX, press.offsetY)); drag = null; });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", (press) => { const i = hit(press.offsetX, press.offsetY); if (i >= 0) { select(i); show(i, true); } });
  canvas.addEventListener("wheel", (wheel) => {
    wheel.preventDefault();
    if (wheel.ctrlKey || wheel.metaKey) zoom(Math.exp(wheel.deltaY * 0.004), wheel.offsetX);
    else if (wheel.shiftKey || Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY)) move((wheel.deltaX || wheel.deltaY) / width);
    else { view.scroll += wheel.deltaY; clampView(); }
  }, { passive: false });
  const keys = {
    "+": () => zoom(0.6), "=": () => zoom(0.6), w: () => zoom(0.6), "-": () => zoom(1.6), s: () => zoom(1.6),
    a: () => move(-0.2), d: () => move(0.2), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
    ArrowUp: () => otherRow(-1), ArrowDown: () => otherRow(1), ",": () => neighbour(-1), ".": () => neighbour(1),
    Enter: () => selected >= 0 && show(selected, true), g: cause, n: () => nextMatch(1), p: () => nextMatch(-1),
    o: () => toggleOver(), f: fit, r: () => toggleArrows(), t: () => toggleTheme(), "?": () => document.getElementById("keys").showModal(),
    "/": () => searchBox.focus(), Escape: () => { lineOn = -1; select(-1); },
  };
  document.addEventListener("keydown", (key) => {
    if (key.ctrlKey || key.metaKey || key.altKey || document.getElementById("keys").open) return;
    if (key.target instanceof HTMLElement && ["INPUT", "BUTTON"].includes(key.target.tagName)) return;
    const act = keys[key.key];
    if (act) { key.preventDefault(); act(); }
  });
  function toggleArrows() { arrows = !arrows; document.getElementById("arrows").setAttribute("aria-pressed", String(arrows)); ask(); }
  function toggleOver() {
    if (!two) return;
    over = !over; document.getElementById("over").setAttribute("aria-pressed", String(over)); layOut(); clampView();
  }
  function toggleTheme() {
    const root = document.documentElement, now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark"; readColours(); ask();
  }
  document.getElementById("arrows").addEventListener("click", toggleArrows);
  document.getElementById("over").addEventListener("click", toggleOver);
  document.getElementById("over").hidden = !two;
  document.getElementById("fit").addEventListener("click", fit);
  document.getElementById("theme").addEventListener("click", toggleTheme);
  document.getElementById("help").addEventListener("click", keys["?"]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); ask(); });
  const divider = document.getElementById("divider"), aside = document.querySelector("aside");
  divider.addEventListener("pointerdown", (press) => {
    divider.setPointerCapture(press.pointerId);
    divider.onpointermove = (moved) => { aside.style.width = `${Math.max(180, innerWidth - moved.clientX - 3)}px`; resize(); };
    divider.onpointerup = () => { divider.onpointermove = null; };
  });

  // --- the text beside it ---
  function code() {
    const sides = data.sides.map(() => [new Float64Array(data.lines.length), new Float64Array(data.lines.length)]);
    for (const event of events) {
      const row = rows[event[LANE]];
      if (!row.engine) sides[row.side][event[KIND] === WAIT ? 1 : 0][event[LINE]] += event[END] - event[START];
    }
    const total = (line, side) => sides[side][0][line] + sides[side][1][line];
    const most = sides.map((_, side) => Math.max(1, ...data.lines.map((_line, n) => total(n, side))));
    document.body.classList.toggle("two", two);
    const box = document.getElementById("code");
    for (const file of data.files) {
      const head = document.createElement("h3");
      head.textContent = `${file.name}: cycles of all agents at each line`;
      box.append(head);
      file.lines.forEach((text, offset) => {
        const number = file.first + offset, line = data.lines.findIndex(([path, n]) => path === file.path && n === number);
        const row = document.createElement("div");
        row.className = "row";
        const time = document.createElement("span");
        time.className = "spent";
        if (line >= 0) {
          row.dataset.line = String(line);
          const bar = document.createElement("span"), later = data.sides.length - 1;
          bar.className = "bar"; bar.style.width = `${(56 * total(line, later)) / most[later]}px`;
          time.append(bar, document.createTextNode(sides.map((_, side) => cycles(total(line, side))).join("  ")));
          row.title = sides.map(([spent, waited]) => `${cycles(spent[line])} at work, ${cycles(waited[line])} waiting`).join("; then ");
          row.addEventListener("click", () => { lineOn = lineOn === line ? -1 : line; row.classList.toggle("on", lineOn === line); ask(); });
        }
        const place = document.createElement("span");
        place.className = "number"; place.textContent = String(number);
        const source = document.createElement("span");
        source.textContent = text;
        row.append(time, place, source);
        box.append(row);
      });
    }
  }
  function busy() {
    const table = document.getElementById("busy");
    for (const [unit, share] of data.busy) {
      if (share < 0.005) continue;
      const row = table.insertRow(), meter = document.createElement("meter");
      meter.value = Math.min(1, share); row.insertCell().textContent = unit; row.insertCell().append(meter);
      row.insertCell().textContent = `${Math.round(100 * share)}% busy`;
    }
  }

  document.getElementById("kernel").textContent = data.kernel;
  const summed = data.sides.map(({ source, cycles: length, clock }, side) =>
    `${two ? `${"AB"[side]}: ` : ""}${cycles(length)} cycles, ${(length / clock).toFixed(1)} us, by ${source}`);
  document.getElementById("summary").textContent = summed.join("; ") + (data.bound ? `; limited by ${data.bound}` : "");
  code(); busy(); readColours(); select(-1);
  new ResizeObserver(resize).observe(stage);
  resize(); fit();
  window.timeline = { view, select, search, zoom, draw, get selected() { return selected; }, get count() { return events.length; }, get tall() { return height; } };
})();
