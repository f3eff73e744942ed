// Numbers, elements and axes of the page's plots. Text enters by textContent only.
// page.py joins this file and kinds.js, in this order, in one function.
const SVG = document.querySelector("svg.seed").namespaceURI;
const DASHES = ["", "6 4", "2 3", "9 3 2 3"];
let clips = 0;

// ---- numbers ------------------------------------------------------------------------------------
function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.data), c => c.charCodeAt(0));
  return Float64Array.from(new Float32Array(bytes.buffer), v => v + packed.middle);
}
function extent(arrays) {
  let low = Infinity, high = -Infinity;
  for (const a of arrays) for (const v of a) { if (v < low) low = v; if (v > high) high = v; }
  return low <= high ? [low, high] : [0, 1];
}
function padded([low, high], share) {
  const more = (high - low) * share || Math.abs(high) * 0.1 || 1;
  return [low - more, high + more];
}
function niceStep(span, count) {
  const raw = span / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find(k => k * power >= raw * 0.9999);
}
const minus = text => text.replaceAll("-", "\u2212");
function show(value, digits = 4) {
  if (!Number.isFinite(value)) return "\u2013";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return minus(value.toExponential(digits - 2).replace("e+", "e"));
  return minus(String(Number(value.toPrecision(digits))));
}
function scaleOf(low, high, from, to, log) {
  const f = log ? Math.log10 : v => v, a = f(low), b = f(high);
  const at = v => from + (f(v) - a) / (b - a) * (to - from);
  at.back = p => { const v = a + (p - from) / (to - from) * (b - a); return log ? 10 ** v : v; };
  return at;
}
function ticksOf(low, high, count, log) {
  if (log && high / low > 30) {
    const every = Math.max(1, Math.ceil(Math.log10(high / low) / count)), found = [];
    for (let p = Math.ceil(Math.log10(low)); p <= Math.floor(Math.log10(high)); p += every)
      found.push([10 ** p, p >= -3 && p <= 4 ? String(Number((10 ** p).toPrecision(1))) : minus(`1e${p}`)]);
    if (found.length > 1) return found;
  }
  // One tick alone would tell no scale: the step is made finer until three lie inside.
  const inside = by => Math.floor(high / by + 1e-6) - Math.ceil(low / by - 1e-6) + 1;
  let step = niceStep(high - low, count);
  for (let more = count; more <= 9 && inside(step) < 3; more++) step = niceStep(high - low, more);
  const found = [], decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const big = Math.max(Math.abs(low), Math.abs(high));
  const digits = Math.max(4, Math.floor(Math.log10(big)) - Math.floor(Math.log10(step) + 1e-9) + 2);
  const word = v => (big >= 1e6 && digits <= 6) || decimals > 4 ? show(v, digits) : minus(v.toFixed(decimals));
  for (let k = Math.ceil(low / step - 1e-6); k * step <= high + step * 1e-6; k++) found.push([k * step, word(k * step || 0)]);
  return found;
}
function nearest(xs, x) {
  let a = 0, b = xs.length - 1;
  while (b - a > 1) { const m = (a + b) >> 1; if (xs[m] < x) a = m; else b = m; }
  return Math.abs(xs[a] - x) <= Math.abs(xs[b] - x) ? a : b;
}

// ---- elements -----------------------------------------------------------------------------------
function add(parent, name, attributes = {}, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}
function html(parent, name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}
const colour = index => `var(--c${index % 8})`;
const tone = (series, index) => series.colour ?? index;
const dash = (series, index) => series.dashed ? "6 4" : DASHES[Math.floor(index / 8) % DASHES.length];
const wide = text => text.length * 6.9;

function legend(box, series, hidden, redraw, sample) {
  if (series.length < 2) return;
  const row = html(box, "div", "legend");
  series.forEach((one, index) => {
    const button = html(row, "button");
    button.type = "button";
    button.title = "click: show or hide; double-click: this one alone, or all";
    const swatch = add(button, "svg", { viewBox: "0 0 22 10", "aria-hidden": "true" });
    sample(swatch, one, index);
    html(button, "span", "", one.label);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", event => {
      if (event.altKey || event.detail === 2) {
        const alone = series.every((_, k) => k === index || hidden.has(k));
        series.forEach((_, k) => alone || k === index ? hidden.delete(k) : hidden.add(k));
      } else if (hidden.has(index)) hidden.delete(index); else hidden.add(index);
      row.querySelectorAll("button").forEach((b, k) => b.setAttribute("aria-pressed", String(!hidden.has(k))));
      redraw();
    });
  });
}
function tooltip(box) {
  const tip = html(box, "div", "tip");
  tip.hidden = true;
  return {
    hide() { tip.hidden = true; },
    show(title, rows, x, y, width) {
      tip.replaceChildren();
      if (title) html(tip, "b", "", title);
      for (const [paint, label, value] of rows) {
        const line = html(tip, "div"), name = html(line, "span");
        if (paint) html(name, "i").style.background = paint;
        name.append(label);
        html(line, "span", "", value);
      }
      tip.hidden = false;
      const w = tip.offsetWidth, h = tip.offsetHeight;
      tip.style.left = `${x + 14 + w > width ? Math.max(0, x - 14 - w) : x + 14}px`;
      tip.style.top = `${Math.max(0, y - h / 2)}px`;
    },
  };
}
function clear(holder, tip) {
  tip.hide();
  holder.querySelector("svg")?.remove();
}
// A frame with axes: returns the scales and the group, clipped to the frame, that marks are drawn into.
function frame(svg, spec, width, height, xr, yr) {
  const yticks = spec.rows_ ? [] : ticksOf(yr[0], yr[1], Math.max(2, (height - 50) / 48), spec.ylog);
  const left = spec.left_ ?? Math.ceil(Math.max(...yticks.map(t => wide(t[1])), 10)) + 14 + (spec.ylabel ? 18 : 0);
  const right = width - (spec.right_ ?? 14), top = 10, bottom = height - (spec.xlabel ? 44 : 26);
  const x = scaleOf(xr[0], xr[1], left, right, spec.xlog), y = scaleOf(yr[0], yr[1], bottom, top, spec.ylog);
  for (const [v, word] of yticks) {
    add(svg, "line", { class: "grid", x1: left, x2: right, y1: y(v), y2: y(v) });
    add(svg, "text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, word);
  }
  const vertical = spec.rows_ ? "grid" : "axis";
  for (const [v, word] of ticksOf(xr[0], xr[1], Math.max(2, (right - left) / 72), spec.xlog)) {
    add(svg, "line", { class: vertical, x1: x(v), x2: x(v), y1: spec.rows_ ? top : bottom, y2: bottom + 4 });
    add(svg, "text", { x: x(v), y: bottom + 18, "text-anchor": "middle" }, word);
  }
  add(svg, "line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
  if (spec.xlabel) add(svg, "text", { class: "strong", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, spec.xlabel);
  if (spec.ylabel) {
    const at = `translate(12 ${(top + bottom) / 2}) rotate(-90)`;
    add(svg, "text", { class: "strong", transform: at, "text-anchor": "middle" }, spec.ylabel);
  }
  const id = `clip${++clips}`;
  const clip = add(add(svg, "clipPath", { id }), "rect", { x: left, y: top - 2, width: Math.max(0, right - left), height: bottom - top + 4 });
  return { x, y, left, right, top, bottom, clip, marks: add(svg, "g", { "clip-path": `url(#${id})` }) };
}
function pathOf(xs, ys, x, y, step) {
  let text = "", pen = false;
  for (let i = 0; i < xs.length; i++) {
    if (!Number.isFinite(ys[i])) { pen = false; continue; }
    const px = x(xs[i]).toFixed(1), py = y(ys[i]).toFixed(1);
    text += !pen ? `M${px} ${py}` : step ? `H${px}V${py}` : `L${px} ${py}`;
    if (!pen && !Number.isFinite(ys[i + 1])) text += "h0.01";
    pen = true;
  }
  return text;
}
