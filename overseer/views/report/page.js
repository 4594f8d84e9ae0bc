"use strict";
// Draws the charts of a report, from the JSON in the page. Nothing is loaded from anywhere.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => Array.from({ length: 10 }, (_, at) => colour(`--line${at}`));
  const drawn = new Map(); // By the chart's number: the plot, and what its buttons have set.
  const WHOLE = Array.from({ length: 36 }, (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3)); // Of steps.
  const SI = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

  function text(value, unit) {
    if (value == null || !isFinite(value)) return "–";
    const size = Math.abs(value);
    if (unit === "s") {
      const scale = size >= 1 ? [1, " s"] : size >= 1e-3 ? [1e-3, " ms"] : [1e-6, " µs"];
      return +(value / scale[0]).toPrecision(3) + scale[1];
    }
    if (unit.startsWith("B")) {
      let at = 0, left = value;
      while (Math.abs(left) >= 1024 && at < 4) { left /= 1024; at++; }
      return +left.toPrecision(3) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][at] + unit.slice(1);
    }
    const scale = size >= 1e4 && SI.find(([least]) => size >= least);
    const shown = scale ? +(value / scale[0]).toPrecision(3) + scale[1] : String(+value.toPrecision(4));
    return unit === "1" ? shown : `${shown} ${unit}`;
  }

  // A mean over neighbours, weighted less the farther they are, in both directions.
  function smoothed(values, weight) {
    if (!weight) return values;
    const pass = (list) => {
      let mean = null;
      return list.map((value) => {
        if (value == null) return value;
        mean = mean == null ? value : weight * mean + (1 - weight) * value;
        return mean;
      });
    };
    const ahead = pass(values), back = pass([...values].reverse()).reverse();
    return ahead.map((value, at) => (value == null ? value : (value + back[at]) / 2));
  }

  function table(chart, state) {
    const lines = chart.lines.map((line) => [line.x, smoothed(line.y, state.smooth)]);
    const joined = lines.length ? uPlot.join(lines) : [[]];
    if (!chart.stack) return { joined, own: joined };
    const own = joined.map((column) => [...column]);
    for (let at = 2; at < joined.length; at++)
      joined[at] = joined[at].map((value, i) => (value ?? 0) + (joined[at - 1][i] ?? 0));
    return { joined, own };
  }

  // The place of a step in time, and the other way round.
  function across(from, to, value) {
    const [xs, ys] = [data.times[from], data.times[to]];
    if (!xs.length) return null;
    let at = xs.findIndex((x) => x >= value);
    if (at <= 0) return at ? ys[ys.length - 1] : ys[0];
    const share = (value - xs[at - 1]) / (xs[at] - xs[at - 1] || 1);
    return ys[at - 1] + share * (ys[at] - ys[at - 1]);
  }

  let busy = false;
  function others(plot, act) {
    if (busy) return;
    busy = true;
    for (const one of drawn.values())
      if (one.plot !== plot) act(one);
    busy = false;
  }

  function follow(plot, kind) {
    const at = plot.cursor.left < 0 ? null : plot.posToVal(plot.cursor.left, "x");
    others(plot, ({ plot: other, chart }) => {
      let value = at;
      if (at != null && chart.x !== kind)
        value = kind === "round" || chart.x === "round" ? null : across(kind, chart.x, at);
      const left = value == null ? -10 : other.valToPos(value, "x");
      other.setCursor({ left, top: value == null ? -10 : 10 }, false);
      legend(other, chart, value == null ? null : other.posToIdx(left));
    });
  }

  let drawing = 0; // Charts that are being drawn: their first scales are not zooms.
  let origin = null; // The chart that is zoomed by hand; the others only follow.
  function zoom(plot, kind) {
    if (drawing || (origin && origin !== plot)) return;
    origin = plot;
    setTimeout(() => (origin = null), 0);
    const { min, max } = plot.scales.x;
    others(plot, ({ plot: other, chart }) => {
      if (chart.x === kind) other.setScale("x", { min, max });
      else if (kind !== "round" && chart.x !== "round")
        other.setScale("x", { min: across(kind, chart.x, min), max: across(kind, chart.x, max) });
    });
  }

  function whole() {
    drawing++;
    for (const { plot: { data: [x] }, plot } of drawn.values()) plot.setScale("x", { min: x[0], max: x[x.length - 1] });
    setTimeout(() => drawing--, 0);
  }

  function legend(plot, chart, at) {
    const box = document.querySelector(`#chart${chart.number} .legend`);
    const one = drawn.get(chart.number);
    const parts = chart.lines.map((line, n) => {
      let i = at;
      const column = one.own[n + 1];
      if (i != null) while (i > 0 && column[i] == null) i--;
      const key = document.createElement("i"), part = document.createElement("span");
      key.style.background = palette()[n % 10];
      part.append(key, i == null ? line.label : `${line.label} ${text(column[i], chart.unit)}`);
      return part;
    });
    const place = document.createElement("span");
    place.className = "at";
    if (at != null) place.append(`${chart.x} ${text(plot.data[0][at], chart.x === "time" ? "s" : "1")}`);
    box.replaceChildren(...parts, place);
  }

  function marks(chart) {
    return (plot) => {
      const context = plot.ctx, { top, height } = plot.bbox;
      context.save();
      context.fillStyle = colour("--band");
      for (const [step, start, end] of chart.marks ? data.pauses : []) {
        const [from, to] = chart.x === "time" ? [start, end] : [step - 0.5, step - 0.5];
        const left = plot.valToPos(from, "x", true), right = plot.valToPos(to, "x", true);
        const width = Math.max(right - left, 2);
        if (left + width >= plot.bbox.left && left <= plot.bbox.left + plot.bbox.width)
          context.fillRect(left, top, width, height);
      }
      context.restore();
    };
  }

  function draw(chart) {
    const figure = document.getElementById(`chart${chart.number}`);
    const place = figure.querySelector(".plot");
    const before = drawn.get(chart.number);
    const state = before ? before.state : { log: false, smooth: 0 };
    if (before) before.plot.destroy();
    const { joined, own } = table(chart, state), colours = palette();
    const scaled = chart.unit === "s" || chart.unit.startsWith("B"); // Other units stand in the title.
    const faint = (c) => `color-mix(in srgb, ${c} 70%, transparent)`;
    const series = chart.lines.map((line, n) => ({
      label: line.label, stroke: colours[n % 10], width: 1.5, spanGaps: true,
      points: { show: Boolean(chart.points), size: 6, fill: colours[n % 10] },
      ...(chart.points ? { paths: () => null } : {}),
      ...(chart.stack ? { fill: faint(colours[n % 10]), width: 0.5 } : {}),
    }));
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid") } };
    const options = {
      width: Math.max(figure.clientWidth - 2, 200), height: 220, legend: { show: false },
      scales: { x: { time: false }, y: { distr: state.log ? 3 : 1,
        ...(chart.stack ? { range: (u, min, max) => [0, max * 1.05 || 1] } : {}) } },
      axes: [
        { ...axis, ...(chart.x === "time" ? {} : { incrs: WHOLE }), values: (u, splits) => splits.map((v) => text(v, chart.x === "time" ? "s" : "1")) },
        { ...axis, size: 70, ...(chart.unit.startsWith("B") ? { incrs: Array.from({ length: 51 }, (_, n) => 2 ** n) } : {}), values: (u, splits) => splits.map((v) => (v ? text(v, scaled ? chart.unit : "1") : "0")) },
      ],
      series: [{}, ...series],
      bands: chart.stack ? series.slice(1).map((_, n) => ({ series: [n + 2, n + 1] })) : [],
      cursor: { drag: { x: true, y: false }, focus: { prox: 24 }, bind: { dblclick: () => whole } },
      hooks: {
        drawClear: [marks(chart)],
        setCursor: [(plot) => { if (!busy) { legend(plot, chart, plot.cursor.idx); follow(plot, chart.x); } }],
        setScale: [(plot, key) => {
          if (key !== "x") return;
          figure.dataset.shown = `${plot.scales.x.min} ${plot.scales.x.max}`;
          if (drawn.get(chart.number)?.plot === plot) zoom(plot, chart.x);
        }],
      },
    };
    drawing++;
    setTimeout(() => drawing--, 0);
    const shown = { chart, state, own };
    shown.plot = new uPlot(options, state.log ? positive(joined) : joined, place);
    drawn.set(chart.number, shown);
    legend(shown.plot, chart, null);
    shown.plot.over.addEventListener("wheel", (event) => wheel(event, shown.plot), { passive: false });
    shown.plot.over.addEventListener("mousedown", (event) => pan(event, shown.plot), true);
  }

  const positive = (columns) => [columns[0], ...columns.slice(1).map((c) => c.map((v) => (v > 0 ? v : null)))];

  function wheel(event, plot) {
    if (!event.ctrlKey && !event.shiftKey) return; // The page scrolls.
    event.preventDefault();
    const { min, max } = plot.scales.x;
    const middle = plot.posToVal(plot.cursor.left, "x"), factor = event.deltaY + event.deltaX < 0 ? 0.8 : 1.25;
    plot.setScale("x", { min: middle - (middle - min) * factor, max: middle + (max - middle) * factor });
  }

  function pan(event, plot) {
    if (!event.shiftKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const { min, max } = plot.scales.x, from = event.clientX;
    const scale = (max - min) / plot.over.clientWidth;
    const move = (now) => {
      const by = (from - now.clientX) * scale;
      plot.setScale("x", { min: min + by, max: max + by });
    };
    const end = () => { removeEventListener("mousemove", move); removeEventListener("mouseup", end); };
    addEventListener("mousemove", move);
    addEventListener("mouseup", end);
  }

  function controls(chart) {
    const box = document.querySelector(`#chart${chart.number} .controls`);
    const button = (label, means, act, pressed) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = label;
      made.title = means;
      made.setAttribute("aria-label", means);
      if (pressed !== undefined) made.setAttribute("aria-pressed", String(pressed));
      made.addEventListener("click", () => act(made));
      box.append(made);
    };
    const state = () => drawn.get(chart.number).state;
    button("whole", "show the whole", whole);
    const by = (factor, shift) => () => {
      const plot = drawn.get(chart.number).plot, { min, max } = plot.scales.x;
      const middle = (min + max) / 2 + shift * (max - min), half = ((max - min) / 2) * factor;
      plot.setScale("x", { min: middle - half, max: middle + half });
    };
    button("+", "zoom in", by(0.5, 0));
    button("−", "zoom out", by(2, 0));
    button("←", "move left", by(1, -0.25));
    button("→", "move right", by(1, 0.25));
    if (chart.log) button("log", "logarithmic scale", (it) => {
      state().log = !state().log;
      it.setAttribute("aria-pressed", String(state().log));
      draw(chart);
    }, false);
    if (chart.smooth) button("smooth", "smooth the lines: less, more, not", (it) => {
      state().smooth = { 0: 0.8, 0.8: 0.95, 0.95: 0 }[state().smooth];
      it.setAttribute("aria-pressed", String(state().smooth > 0));
      draw(chart);
    }, false);
  }

  for (const chart of data.charts) { draw(chart); controls(chart); }
  const again = () => data.charts.forEach(draw);
  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(again, 150); });
  dark.addEventListener("change", again);
  for (const link of document.querySelectorAll("a[data-step]"))
    link.addEventListener("click", () => {
      const step = Number(link.dataset.step), first = [...drawn.values()].find(({ chart }) => chart.x === "step");
      if (first) first.plot.setScale("x", { min: step - 20, max: step + 20 });
    });
  document.documentElement.dataset.drawn = String(drawn.size);
})();
