// The kinds of plot, drawn into SVG from the numbers beside each figure.
function linesPlot(spec, box) {
  const series = spec.series.map(s => ({ ...s, x: unpack(s.x), y: unpack(s.y),
    low: s.low && unpack(s.low), high: s.high && unpack(s.high), bandX: s.band_x && unpack(s.band_x) }));
  if (spec.ylog) for (const s of series) for (const a of [s.y, s.low, s.high]) if (a) a.forEach((v, i) => { if (!(v > 0)) a[i] = NaN; });
  const hidden = new Set();
  const sample = (svg, s, i) => add(svg, "path", { class: "line", d: "M1 5H21", stroke: colour(tone(s, i)), "stroke-dasharray": dash(s, tone(s, i)) });
  legend(box, series, hidden, () => draw(), sample);
  const holder = html(box, "div", "canvas"), tip = tooltip(holder);
  function draw() {
    const width = Math.max(260, holder.clientWidth || 900), height = spec.height;
    clear(holder, tip);
    const svg = add(holder, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title });
    const seen = series.map((s, i) => [s, i]).filter(([, i]) => !hidden.has(i));
    let yr = extent(seen.flatMap(([s]) => [s.y, s.low ?? [], s.high ?? []]));
    yr = spec.ylog ? [yr[0] / 1.2, yr[1] * 1.2] : padded(yr, 0.06);
    const xr = spec.span[1] > spec.span[0] ? spec.span : padded(spec.span, 0.1);
    const f = frame(svg, spec, width, height, xr, yr);
    for (const mark of spec.marks) {
      add(f.marks, "line", { class: "mark", x1: f.x(mark.x), x2: f.x(mark.x), y1: f.top, y2: f.bottom });
      const late = f.x(mark.x) + wide(mark.label) > f.right;
      add(f.marks, "text", { x: f.x(mark.x) + (late ? -4 : 4), y: f.top + 10, "text-anchor": late ? "end" : "start" }, mark.label);
    }
    for (const [s, i] of seen) if (s.low) {
      const keep = [...s.bandX.keys()].filter(k => Number.isFinite(s.low[k]) && Number.isFinite(s.high[k]));
      const edge = (side, ks) => ks.map(k => `${f.x(s.bandX[k]).toFixed(1)} ${f.y(side[k]).toFixed(1)}`).join("L");
      if (keep.length) add(f.marks, "path", { d: `M${edge(s.high, keep)}L${edge(s.low, keep.slice().reverse())}Z`, fill: colour(tone(s, i)), opacity: 0.18 });
    }
    for (const [s, i] of seen)
      add(f.marks, "path", { class: "line", d: pathOf(s.x, s.y, f.x, f.y, s.step), stroke: colour(tone(s, i)), "stroke-dasharray": dash(s, tone(s, i)) });
    hover(svg, f, seen, width);
  }
  function hover(svg, f, seen, width) {
    const over = add(svg, "g", { visibility: "hidden" });
    const cursor = add(over, "line", { class: "cursor", y1: f.top, y2: f.bottom });
    const dots = seen.map(([s, i]) => add(over, "circle", { class: "halo", r: 4, fill: colour(tone(s, i)) }));
    const [, name, unit] = (spec.xlabel ?? "").match(/^([^[]*?)\s*(?:\[(.*)\])?$/) ?? ["", "", ""];
    svg.addEventListener("pointermove", event => {
      const rect = svg.getBoundingClientRect(), px = (event.clientX - rect.left) * width / rect.width;
      const wanted = f.x.back(Math.min(Math.max(px, f.left), f.right)), rows = [];
      const candidates = seen.filter(([s]) => !s.step).map(([s]) => s.x[nearest(s.x, wanted)]);
      const at = candidates.reduce((a, b) => Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a, candidates[0] ?? wanted);
      seen.forEach(([s, i], k) => {
        let n = nearest(s.x, at);
        if (s.step && n > 0 && s.x[n] > at) n--;
        const twin = s.thinned ? n ^ 1 : n, v = s.y[n];
        dots[k].setAttribute("visibility", Number.isFinite(v) ? "inherit" : "hidden");
        if (Number.isFinite(v)) { dots[k].setAttribute("cx", f.x(s.step ? at : s.x[n])); dots[k].setAttribute("cy", f.y(v)); }
        const both = [v, s.y[twin]].sort((a, b) => a - b).map(u => show(u));
        rows.push([colour(tone(s, i)), s.label, both[0] === both[1] || !Number.isFinite(s.y[twin]) ? show(v) : `${both[0]} \u2026 ${both[1]}`]);
      });
      cursor.setAttribute("x1", f.x(at)); cursor.setAttribute("x2", f.x(at));
      over.setAttribute("visibility", "visible");
      tip.show(`${name} ${show(at, 5)} ${unit ?? ""}`.trim(), rows.slice(0, 16), px * rect.width / width, (event.clientY - rect.top), rect.width);
    });
    svg.addEventListener("pointerleave", () => { over.setAttribute("visibility", "hidden"); tip.hide(); });
  }
  return draw;
}

function scatterPlot(spec, box) {
  const series = spec.series.map(s => ({ ...s, x: unpack(s.x), y: unpack(s.y) }));
  const hidden = new Set();
  legend(box, series, hidden, () => draw(), (svg, s, i) => add(svg, "circle", { cx: 11, cy: 5, r: 4, fill: colour(i) }));
  const holder = html(box, "div", "canvas"), tip = tooltip(holder);
  function draw() {
    const width = Math.max(260, holder.clientWidth || 900), height = spec.height;
    clear(holder, tip);
    const svg = add(holder, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title });
    const seen = series.map((s, i) => [s, i]).filter(([, i]) => !hidden.has(i));
    let xr = padded(extent(seen.map(([s]) => s.x)), 0.05), yr = padded(extent(seen.map(([s]) => s.y)), 0.05);
    if (spec.diagonal) xr = yr = [Math.min(xr[0], yr[0]), Math.max(xr[1], yr[1])];
    const f = frame(svg, spec, width, height, xr, yr);
    if (spec.diagonal) add(f.marks, "line", { class: "mark", x1: f.x(xr[0]), y1: f.y(yr[0]), x2: f.x(xr[1]), y2: f.y(yr[1]) });
    const many = seen.reduce((n, [s]) => n + s.x.length, 0) > 1500;
    for (const [s, i] of seen) {
      let d = "";
      for (let k = 0; k < s.x.length; k++) d += `M${f.x(s.x[k]).toFixed(1)} ${f.y(s.y[k]).toFixed(1)}h0`;
      add(f.marks, "path", { d, stroke: colour(i), "stroke-width": many ? 3 : 6, "stroke-linecap": "round", fill: "none", opacity: many ? 0.55 : 0.75 });
    }
    const ring = add(svg, "circle", { class: "ring", r: 5, visibility: "hidden", style: "fill: none" });
    svg.addEventListener("pointermove", event => {
      const rect = svg.getBoundingClientRect(), k = width / rect.width;
      const px = (event.clientX - rect.left) * k, py = (event.clientY - rect.top) * k;
      let best = 400, hit = null;
      for (const [s, i] of seen) for (let n = 0; n < s.x.length; n++) {
        const far = (f.x(s.x[n]) - px) ** 2 + (f.y(s.y[n]) - py) ** 2;
        if (far < best) { best = far; hit = [s, i, n]; }
      }
      ring.setAttribute("visibility", hit ? "visible" : "hidden");
      if (!hit) return tip.hide();
      const [s, i, n] = hit;
      ring.setAttribute("cx", f.x(s.x[n])); ring.setAttribute("cy", f.y(s.y[n]));
      const rows = [["", spec.xlabel || "x", show(s.x[n])], ["", spec.ylabel || "y", show(s.y[n])]];
      tip.show(s.label, rows, px / k, py / k, rect.width);
    });
    svg.addEventListener("pointerleave", () => { ring.setAttribute("visibility", "hidden"); tip.hide(); });
  }
  return draw;
}

// Rows with a name at the left and a common x axis: bars and intervals.
function rowsFrame(spec, holder, tip, labels, each, xr, right) {
  const width = Math.max(260, holder.clientWidth || 900), top = 10;
  const height = top + labels.length * each + (spec.xlabel ? 44 : 26);
  clear(holder, tip);
  const svg = add(holder, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title });
  const left = Math.min(width * 0.45, Math.max(...labels.map(wide)) + 18);
  const f = frame(svg, { ...spec, rows_: true, ylabel: "", left_: left, right_: right }, width, height, xr, [0, 1]);
  labels.forEach((label, k) => {
    const room = Math.floor((left - 14) / 6.9), short = label.length > room ? `${label.slice(0, room - 1)}\u2026` : label;
    const text = add(svg, "text", { class: "strong", x: left - 10, y: top + (k + 0.5) * each + 4, "text-anchor": "end" }, short);
    if (short !== label) add(text, "title", {}, label);
  });
  return { ...f, svg, width, height, middle: k => top + (k + 0.5) * each };
}
function rowsHover(f, tip, count, each, describe) {
  f.svg.addEventListener("pointermove", event => {
    const rect = f.svg.getBoundingClientRect(), scale = f.width / rect.width;
    const row = Math.floor(((event.clientY - rect.top) * scale - f.top) / each);
    if (row < 0 || row >= count) return tip.hide();
    const [title, rows] = describe(row);
    tip.show(title, rows, event.clientX - rect.left, event.clientY - rect.top, rect.width);
  });
  f.svg.addEventListener("pointerleave", tip.hide);
}
const between = (low, high) => `[${show(low)}, ${show(high)}]`;

function barsPlot(spec, box) {
  const hidden = new Set();
  legend(box, spec.series, hidden, () => draw(), (svg, s, i) => add(svg, "rect", { x: 5, y: 0, width: 12, height: 10, rx: 2, fill: colour(i) }));
  const holder = html(box, "div", "canvas"), tip = tooltip(holder);
  function draw() {
    const seen = spec.series.map((s, i) => [s, i]).filter(([, i]) => !hidden.has(i));
    const thick = seen.length > 1 ? 13 : 17, each = seen.length * thick + 12;
    const [low, high] = extent(seen.map(([s]) => [...s.values, ...(s.low ?? []), ...(s.high ?? [])].filter(v => v !== null)));
    const a = Math.min(0, low), b = Math.max(0, high), more = (b - a || 1) * 0.04;
    const f = rowsFrame(spec, holder, tip, spec.categories, each, [a < 0 ? a - more : 0, b > 0 ? b + more : 0], 58);
    spec.categories.forEach((_, k) => seen.forEach(([s, i], j) => {
      const v = s.values[k], y = f.middle(k) - seen.length * thick / 2 + j * thick + 1;
      const end = s.high?.[k] ?? v ?? 0, x = f.x(v ?? 0), zero = f.x(0);
      add(f.svg, "rect", { x: Math.min(x, zero), y, width: Math.abs(x - zero), height: thick - 2, rx: 2, fill: colour(i), opacity: 0.88 });
      if (s.low && s.low[k] !== null && s.high[k] !== null) {
        const m = y + thick / 2 - 1;
        add(f.svg, "path", { d: `M${f.x(s.low[k])} ${m}H${f.x(s.high[k])}m0 -3v6M${f.x(s.low[k])} ${m - 3}v6`, stroke: "var(--ink)", "stroke-width": 1.3 });
      }
      add(f.svg, "text", { x: Math.max(f.x(end), x, zero) + 6, y: y + thick / 2 + 3, style: "font-size: 11px" }, v === null ? "no value" : show(v, 3));
    }));
    if (a < 0) add(f.svg, "line", { class: "axis", x1: f.x(0), x2: f.x(0), y1: f.top, y2: f.bottom });
    rowsHover(f, tip, spec.categories.length, each, k => [spec.categories[k],
      seen.map(([s, i]) => [colour(i), s.label, show(s.values[k] ?? NaN) + (s.low ? `  ${between(s.low[k], s.high[k])}` : "")])]);
  }
  return draw;
}

function intervalsPlot(spec, box) {
  if (spec.rows.some(r => r.reference !== null)) {
    const row = html(box, "div", "legend"), key = (d, paint, words) => {
      const entry = html(row, "span");
      add(add(entry, "svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }), "path", { d, fill: "none", stroke: paint, "stroke-width": 2 });
      html(entry, "span", "", words);
    };
    key("M1 6H21M1 2v8M21 2v8M11 3v6M8 6h6M9 4l4 4M13 4l-4 4", colour(0), spec.words[0]);
    key("M11 1l5 5l-5 5l-5 -5z", colour(1), spec.words[1]);
  }
  const holder = html(box, "div", "canvas"), tip = tooltip(holder), each = 28;
  return () => {
    const all = spec.rows.flatMap(r => [r.low, r.high, r.value, r.reference]).filter(v => v !== null);
    const notes = Math.max(0, ...spec.rows.map(r => wide(r.note)));
    const xr = padded(extent([spec.zero ? [...all, 0] : all]), 0.05);
    const f = rowsFrame(spec, holder, tip, spec.rows.map(r => r.label), each, xr, 14 + (notes ? notes + 12 : 0));
    if (spec.zero) add(f.svg, "line", { class: "axis", x1: f.x(0), x2: f.x(0), y1: f.top, y2: f.bottom });
    spec.rows.forEach((r, k) => {
      const y = f.middle(k);
      add(f.svg, "path", { d: `M${f.x(r.low)} ${y}H${f.x(r.high)}m0 -4v8M${f.x(r.low)} ${y - 4}v8`, stroke: colour(0), "stroke-width": 2, fill: "none" });
      if (r.value !== null) add(f.svg, "circle", { class: "halo", cx: f.x(r.value), cy: y, r: 5, fill: colour(0) });
      if (r.reference !== null) add(f.svg, "path", { d: `M${f.x(r.reference)} ${y - 6}l6 6l-6 6l-6 -6z`, fill: "none", stroke: colour(1), "stroke-width": 2 });
      if (r.note) add(f.svg, "text", { x: f.right + 12, y: y + 4 }, r.note);
    });
    rowsHover(f, tip, spec.rows.length, each, k => {
      const r = spec.rows[k], rows = [[colour(0), spec.words[0], show(r.value ?? NaN)], ["", "interval", between(r.low, r.high)]];
      return [r.label, r.reference === null ? rows : [...rows, [colour(1), spec.words[1], show(r.reference)]]];
    });
  };
}

function heatmapPlot(spec, box) {
  const [m, n] = spec.shape, values = unpack(spec.values);
  const holder = html(box, "div", "canvas"), tip = tooltip(holder);
  return () => {
    const width = Math.max(260, holder.clientWidth || 900);
    const rows = spec.rows ?? Array.from({ length: m }, (_, k) => String(k));
    const columns = spec.columns ?? Array.from({ length: n }, (_, k) => String(k));
    const left = Math.min(width * 0.35, Math.max(...rows.map(wide)) + 12 + (spec.ylabel ? 20 : 0)), right = width - 84;
    const each = Math.min(30, Math.max(420 / m, 1), Math.max((right - left) / n, 18)), top = 8, bottom = top + each * m;
    const cell = (right - left) / n, tilt = Math.max(...columns.map(wide)) > cell - 4 && spec.columns && cell > 12;
    const foot = tilt ? Math.max(...columns.map(wide)) * 0.72 + 14 : 20, height = bottom + foot + (spec.xlabel ? 22 : 6);
    clear(holder, tip);
    const svg = add(holder, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title });
    const picture = { preserveAspectRatio: "none", style: "image-rendering: pixelated" };
    add(svg, "image", { ...picture, x: left, y: top, width: right - left, height: bottom - top, href: spec.image });
    add(svg, "rect", { class: "axis", x: left, y: top, width: right - left, height: bottom - top, fill: "none" });
    for (let k = 0; k < m; k += each >= 14 ? 1 : Math.max(1, niceStep(14 / each, 1)))
      add(svg, "text", { class: "strong", x: left - 7, y: top + (k + 0.5) * each + 4, "text-anchor": "end" }, rows[k]);
    const every = tilt ? 1 : Math.max(1, niceStep((Math.max(...columns.map(wide)) + 10) / cell, 1));
    for (let k = 0; k < n; k += every) {
      const x = left + (k + 0.5) * cell, y = bottom + 14;
      const turn = tilt ? { transform: `rotate(-45 ${x} ${y - 4})`, "text-anchor": "end" } : { "text-anchor": "middle" };
      add(svg, "text", { class: "strong", x, y, ...turn }, columns[k]);
    }
    if (spec.xlabel) add(svg, "text", { class: "strong", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, spec.xlabel);
    if (spec.ylabel) add(svg, "text", { class: "strong", transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, spec.ylabel);
    add(svg, "image", { ...picture, x: right + 16, y: top, width: 12, height: bottom - top, href: spec.scale });
    const s = scaleOf(spec.range[0], spec.range[1], bottom, top);
    for (const [v, word] of ticksOf(spec.range[0], spec.range[1], Math.max(2, (bottom - top) / 40)))
      add(svg, "text", { x: right + 33, y: Math.min(bottom, Math.max(top + 8, s(v) + 4)) }, word);
    if (spec.unit) add(svg, "text", { x: right + 16, y: bottom + 16 }, spec.unit);
    svg.addEventListener("pointermove", event => {
      const rect = svg.getBoundingClientRect(), k = width / rect.width;
      const j = Math.floor(((event.clientX - rect.left) * k - left) / cell), i = Math.floor(((event.clientY - rect.top) * k - top) / each);
      if (i < 0 || j < 0 || i >= m || j >= n) return tip.hide();
      tip.show("", [["", `${rows[i]}, ${columns[j]}`, `${show(values[i * n + j])} ${spec.unit}`]], event.clientX - rect.left, event.clientY - rect.top, rect.width);
    });
    svg.addEventListener("pointerleave", tip.hide);
  };
}

// ---- the page -----------------------------------------------------------------------------------
const KINDS = { lines: linesPlot, scatter: scatterPlot, bars: barsPlot, intervals: intervalsPlot, heatmap: heatmapPlot };
const draws = new Map();
for (const figure of document.querySelectorAll("figure.plot")) {
  const box = figure.querySelector(".canvas");
  box.replaceChildren();
  const spec = JSON.parse(figure.querySelector("script").textContent);
  draws.set(box, { draw: KINDS[spec.kind](spec, box), width: 0 });
}
const watch = new ResizeObserver(entries => {
  for (const entry of entries) {
    const known = draws.get(entry.target), width = Math.round(entry.contentRect.width);
    if (known && width && width !== known.width) { known.width = width; known.draw(); }
  }
});
for (const [box, known] of draws) {
  known.width = Math.round(box.getBoundingClientRect().width);
  known.draw();
  watch.observe(box);
}
document.documentElement.dataset.drawn = String(draws.size);
