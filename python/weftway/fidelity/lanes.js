"use strict";
// Reads values off the lanes of a run.
(() => {
  const { all } = page;
  const readout = document.getElementById("readout");
  const clock = (ms, end) => end >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(0)} ms`;
  const valueAt = (line, at) => {
    let nearest = null;
    for (const point of line.points) {
      if (!nearest || Math.abs(point.x - at) <= Math.abs(nearest.x - at)) nearest = point;
    }
    const area = line.classList.contains("area");
    if (area && nearest === line.points[line.points.length - 1]) nearest = line.points[line.points.length - 2];
    const value = (1 - nearest.y / 100) * line.closest("[data-top]").dataset.top;
    return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
  };
  const covers = (line, at) => {
    const last = line.points[line.points.length - 1];
    return line.points[0].x - 10 <= at && at <= last.x + 10;
  };
  const read = (run, at) => {
    run.dataset.at = at;
    run.style.setProperty("--at", at / 1000);
    run.classList.add("reading");
    readout.textContent = clock(at / 1000 * run.dataset.end, +run.dataset.end);
    for (const lane of all(".lane", run)) {
      const output = lane.querySelector(".reading-values");
      if (!output) continue;
      const lines = all("polyline", lane).filter((line) => !line.classList.contains("thin"));
      const names = new Set(lines.map((line) => line.dataset.name));
      output.textContent = lines.filter((line) => covers(line, at)).map((line) => {
        const name = names.size > 1 ? `${line.dataset.name} ` : "";
        return `${name}${valueAt(line, at)}`;
      }).join(" · ");
    }
  };
  const still = (run) => {
    run.classList.remove("reading");
    readout.textContent = "";
    for (const output of all(".reading-values", run)) output.textContent = "";
  };
  for (const run of all(".lanes")) {
    run.addEventListener("pointermove", (event) => {
      const plot = run.querySelector(".plot").getBoundingClientRect();
      const at = (event.clientX - plot.left) / plot.width * 1000;
      if (at >= 0 && at <= 1000) read(run, at);
    });
    run.addEventListener("pointerleave", () => still(run));
    run.addEventListener("blur", () => still(run));
    run.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -10, ArrowRight: 10, Home: -1000, End: 1000 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      read(run, Math.min(1000, Math.max(0, (+run.dataset.at || 0) + step)));
    });
  }
})();
