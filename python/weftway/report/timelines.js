"use strict";
// Runs over time: two side by side, lane under lane, on one time axis, with one crosshair. uPlot draws.
(() => {
  const source = document.getElementById("runs");
  if (!source) return;
  const told = JSON.parse(source.textContent);
  const own = told.runs.map(([scheduler, cc, setting, seed, blob, equals]) =>
    ({ scheduler, cc, setting, seed: `${seed}`, blob, equals, label: scheduler }));
  // Who has the results of another is looked at in the other's run.
  const runs = [...own, ...own.flatMap((run) => run.equals.map((scheduler) =>
    ({ ...run, scheduler, label: `${scheduler} (= ${run.scheduler})` })))];
  const root = document.getElementById("viewer");
  const readout = document.getElementById("readout");
  const { labelled, choice } = page;
  const KEYS = ["scheduler", "cc", "setting", "seed"];
  const HEADS = { scheduler: "Scheduler", cc: "Controller", setting: "Setting", seed: "Seed" };
  const nameOf = (run) => KEYS.map((key) => run[key]).join("|");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A run is kept as deflated JSON in base64, and unpacked when it is looked at.
  const unpack = async (run) => {
    if (run.data) return run.data;
    const bytes = Uint8Array.from(atob(run.blob), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    run.data = JSON.parse(await new Response(stream).text());
    return run.data;
  };

  // What each lane draws: one line per series; `raw` is what the crosshair reads off.
  const perPath = (data, values, more = {}) =>
    (values || []).map((line, path) => ({ name: data.paths[path], raw: line, line, path, ...more }));
  const stacked = (series) => {
    let below = null;
    for (const one of series) {
      below = one.raw.map((value, step) => value + (below ? below[step] : 0));
      one.line = below;
    }
    return series.reverse(); // the tallest first: the others are drawn over it
  };
  const decisions = (data) => {
    const rate = (counts) => counts.map((count) => count * 1000 / data.step); // the steps of two runs differ
    const sent = perPath(data, data.send?.map(rate), { fill: "b0" });
    const copied = perPath(data, data.copy?.map(rate), { fill: "60" }).filter(({ raw }) => raw.some(Boolean));
    copied.forEach((one) => { one.name = `duplicate on ${one.name}`; });
    const waits = data.wait ? [{ name: "wait", raw: rate(data.wait), colour: "--neutral", fill: "b0" }] : [];
    return stacked([...sent, ...copied, ...waits]);
  };
  const buffer = (data) => [
    data.held && { name: "held", raw: data.held, line: data.held, colour: "--neutral", fill: "40" },
    data.ooo && { name: "out of order", raw: data.ooo, line: data.ooo, colour: "--bad" },
  ].filter(Boolean);
  const LANES = [
    { title: "Rate", unit: "Mbit/s", series: (data) => perPath(data, data.mbps, { fill: "30" }), marks: true },
    { title: "Smoothed RTT", unit: "ms", series: (data) => perPath(data, data.srtt) },
    { title: "Congestion window", unit: "kB", series: (data) => perPath(data, data.cwnd) },
    { title: "In flight", unit: "kB", series: (data) => perPath(data, data.flight) },
    { title: "Receive buffer", unit: "kB", series: buffer },
    { title: "Decisions", unit: "a second", series: decisions, reasons: true },
  ];

  let sides = []; // the chosen runs, with their charts
  let zoom = null;
  let end = 1;
  let settled = false;

  const seconds = (ms) => `${(ms / 1000).toFixed(end >= 10000 ? 2 : 3)} s`;
  const digits = (value) => value === null || value === undefined ? "–"
    : Number.isInteger(value) ? `${value}` : value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
  const charts = () => sides.flatMap((side) => side.lanes);

  const zoomTo = (from, to) => {
    settled = false;
    zoom = from === null || (from <= 0 && to >= end) ? null : [Math.max(from, 0), Math.min(to, end)];
    const [min, max] = zoom || [0, end];
    for (const { plot } of charts()) plot.setScale("x", { min, max });
    page.set("zoom", zoom && zoom.map((ms) => Math.round(ms)).join("-"));
    settled = true;
  };
  const zoomBy = (factor) => {
    const [from, to] = zoom || [0, end];
    const at = charts()[0]?.plot.cursor.idx;
    const centre = at === null || at === undefined ? (from + to) / 2 : charts()[0].plot.data[0][at];
    const half = Math.min((to - from) * factor, end) / 2;
    const start = Math.min(Math.max(centre - half, 0), end - 2 * half);
    zoomTo(start, start + 2 * half);
  };

  const colourOf = (series) => css(series.colour || `--p${series.path % 8}`);
  const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4]];
  const uplotSeries = (series) => {
    const stroke = colourOf(series);
    const look = series.fill ? { fill: stroke + series.fill } : {};
    const dash = series.path && !series.fill ? { dash: DASHES[series.path % DASHES.length] } : {};
    return { label: series.name, stroke, width: 1.5, points: { show: false }, spanGaps: false, ...look, ...dash };
  };

  const reasonsAt = (data, step) => (data.why || []).filter(([at]) => at === step).map(([, kind, path, text]) =>
    `${kind}${path === null ? "" : ` ${data.paths[path]}`}: ${text}`);
  const readLane = (lane, data, step) => {
    const known = step !== null && step !== undefined;
    const inOrder = lane.series.slice().sort((a, b) => (a.path ?? 99) - (b.path ?? 99));
    lane.output.replaceChildren(...inOrder.map((one) => {
      const key = Object.assign(document.createElement("span"), { className: "run-key" });
      const swatch = document.createElement("i");
      swatch.style.background = colourOf(one);
      key.append(swatch, known ? `${one.name} ${digits(one.raw[step])}` : one.name);
      return key;
    }));
    if (!lane.why) return;
    const found = known ? reasonsAt(data, step) : [];
    lane.why.replaceChildren(...found.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
    if (!found.length) lane.why.textContent = !data.why?.length ? "This scheduler states no reasons, or they were not kept."
      : known ? "No decision in this step." : "Point at a step to read the scheduler's reasons there.";
  };

  // Outages as shades behind the lines; losses and timeouts as strokes over them.
  const shade = (data) => (plot) => {
    const { left, top, width, height } = plot.bbox;
    plot.ctx.fillStyle = `${css("--bad")}24`;
    for (const [, from, to] of data.down) {
      const [x, y] = [from, to].map((ms) => Math.min(Math.max(plot.valToPos(ms, "x", true), left), left + width));
      plot.ctx.fillRect(x, top, y - x, height);
    }
  };
  const strokes = (data) => (plot) => {
    const { left, top, width, height } = plot.bbox;
    for (const [ms, path, kind] of data.marks) {
      const x = plot.valToPos(ms, "x", true);
      if (x < left || x > left + width) continue;
      plot.ctx.strokeStyle = kind === "loss" ? css(`--p${path % 8}`) : css("--bad");
      plot.ctx.lineWidth = devicePixelRatio * (kind === "loss" ? 1.25 : 1.5);
      plot.ctx.beginPath();
      plot.ctx.moveTo(x, kind === "loss" ? top + height * .84 : top);
      plot.ctx.lineTo(x, top + height);
      plot.ctx.stroke();
    }
  };

  const axisLook = () => ({ stroke: css("--soft"), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" });
  const options = (side, lane, width, top, last) => ({
    width, height: last ? 132 : 108, legend: { show: false }, padding: [6, 8, last ? null : 8, null],
    scales: { x: { time: false, min: zoom ? zoom[0] : 0, max: zoom ? zoom[1] : end, auto: false }, y: { range: [0, top || 1] } },
    axes: [
      { ...axisLook(), show: last, values: (_, ticks) => ticks.map((ms) => end >= 1000 ? `${+(ms / 1000).toFixed(3)} s` : `${ms} ms`) },
      { ...axisLook(), size: 46, space: 28 },
    ],
    series: [{}, ...lane.series.map(uplotSeries)],
    cursor: {
      y: false, points: { size: 5 }, drag: { x: true, y: false },
      sync: { key: "runs", scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
      bind: { dblclick: () => () => { zoomTo(null); return null; } },
    },
    hooks: {
      drawClear: lane.marks ? [shade(side.data)] : [],
      draw: lane.marks ? [strokes(side.data)] : [],
      setCursor: [(plot) => {
        const step = plot.cursor.left < 0 ? null : plot.cursor.idx;
        readLane(lane, side.data, step);
        if (lane.marks && side === sides[0]) readout.textContent = step === null || step === undefined ? "" : seconds(plot.data[0][step]);
      }],
      setScale: [(plot, key) => {
        if (key === "x" && settled) zoomTo(plot.scales.x.min, plot.scales.x.max);
      }],
    },
  });

  const laneOf = (kind, data) => {
    const series = kind.series(data).filter(({ line }) => line);
    const box = Object.assign(document.createElement("div"), { className: "run-lane" });
    const title = Object.assign(document.createElement("p"), { className: "run-title", textContent: kind.title });
    const unit = Object.assign(document.createElement("small"), { textContent: kind.unit });
    const output = document.createElement("output");
    title.append(" ", unit, output);
    const canvas = document.createElement("div");
    box.append(title, canvas);
    const why = kind.reasons ? Object.assign(document.createElement("ul"), { className: "why" }) : null;
    if (why) box.append(why);
    return { ...kind, series, box, canvas, output, why };
  };
  const topOf = (lanes) => 1.05 * Math.max(0, ...lanes.flatMap(({ series }) =>
    series.map(({ line }) => line.reduce((most, value) => Math.max(most, value ?? 0), 0))));

  let turn = 0;
  const draw = async () => {
    const mine = ++turn;
    const chosen = sides.filter(({ run }) => run);
    const unpacked = await Promise.all(chosen.map(({ run }) => unpack(run)));
    if (mine !== turn) return; // another choice was made meanwhile
    charts().forEach(({ plot }) => plot?.destroy());
    chosen.forEach((side, place) => { side.data = unpacked[place]; });
    end = Math.max(...chosen.map(({ data }) => data.end));
    for (const side of sides) {
      side.lanes = side.run ? LANES.map((kind) => laneOf(kind, side.data)).filter(({ series }) => series.length) : [];
      side.body.replaceChildren(...side.lanes.map(({ box }) => box));
    }
    root.classList.toggle("pair", chosen.length > 1);
    settled = false;
    for (const side of chosen) {
      const steps = side.lanes[0].series[0].line.length;
      const times = Array.from({ length: steps }, (_, step) => (step + .5) * side.data.step);
      side.lanes.forEach((lane, place) => {
        const alike = chosen.flatMap((other) => other.lanes.filter(({ title }) => title === lane.title));
        const wide = options(side, lane, side.body.clientWidth || 300, topOf(alike), place === side.lanes.length - 1);
        lane.plot = new uPlot(wide, [times, ...lane.series.map(({ line }) => line)], lane.canvas);
        readLane(lane, side.data, null);
      });
    }
    zoomTo(...(zoom || [null]));
  };

  // Choosing: the scheduler first; controller, setting and seed stay as they are where there is such a run.
  const near = (wanted, fixed) => {
    const score = (run) => KEYS.filter((key) => run[key] === wanted[key]).length;
    const kept = runs.filter((run) => fixed.every((key) => run[key] === wanted[key]));
    return kept.reduce((best, run) => !best || score(run) > score(best) ? run : best, null);
  };
  const offer = (side, key, fixed) => {
    const kept = runs.filter((run) => fixed.every((one) => run[one] === side.run?.[one]));
    const values = [...new Set(kept.map((run) => run[key]))];
    const text = (value) => key === "scheduler" ? near({ ...side.run, [key]: value }, [key]).label : value;
    const select = choice(values.map((value) => [value, text(value)]));
    if (key === "scheduler" && side.may) select.add(new Option("none", ""), 0);
    select.value = side.run ? side.run[key] : "";
    select.addEventListener("change", () => {
      const wanted = { ...(side.run || sides[0].run), [key]: select.value };
      choose(side, select.value ? near(wanted, [...fixed, key]) : null);
    });
    return values.length > 1 || key === "scheduler" ? labelled(HEADS[key], select) : null;
  };
  const offerAll = (side) => {
    const fixed = side.run ? KEYS : KEYS.slice(0, 1);
    side.head.replaceChildren(...fixed.map((key, place) => offer(side, key, KEYS.slice(0, place))).filter(Boolean));
  };
  const choose = (side, run) => {
    side.run = run;
    page.set(side.key, run ? nameOf(run) : side.may ? "none" : null);
    offerAll(side);
    return draw();
  };
  const chosenBy = (key, place) => {
    const asked = page.get(key);
    if (asked === "none") return null;
    return runs.find((run) => nameOf(run) === asked) || runs[place] || null;
  };

  const build = () => {
    sides = [["a", told.first[0], false], ["b", told.first[1], true]].map(([key, place, may]) => {
      const box = Object.assign(document.createElement("div"), { className: "side" });
      const head = Object.assign(document.createElement("div"), { className: "chooser" });
      const body = document.createElement("div");
      box.append(head, body);
      root.append(box);
      return { key, may, head, body, lanes: [], run: chosenBy(key, place) };
    });
    const asked = (page.get("zoom") || "").match(/^(\d+)-(\d+)$/);
    if (asked && +asked[1] < +asked[2]) zoom = [+asked[1], +asked[2]];
    sides.forEach(offerAll);
  };
  const step = (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const factor = { "+": .5, "-": 2, 0: Infinity }[event.key];
    if (event.target.tagName === "SELECT") return;
    if (factor) zoomBy(factor);
    const plot = charts()[0]?.plot;
    if (!move || !plot) return;
    event.preventDefault();
    const at = Math.min(Math.max((plot.cursor.idx ?? 0) + move, 0), plot.data[0].length - 1);
    plot.setCursor({ left: plot.valToPos(plot.data[0][at], "x"), top: 10 });
  };

  build();
  root.addEventListener("keydown", step);
  document.getElementById("zoom-in").addEventListener("click", () => zoomBy(.5));
  document.getElementById("zoom-out").addEventListener("click", () => zoomBy(2));
  document.getElementById("zoom-all").addEventListener("click", () => zoomTo(null));
  addEventListener("recolour", draw);
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    for (const side of sides) {
      for (const { plot } of side.lanes) plot?.setSize({ width: side.body.clientWidth, height: plot.height });
    }
  }).observe(root);
  draw().then(() => root.setAttribute("data-drawn", ""));
})();
