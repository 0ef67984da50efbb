"use strict";
// Everything on the page reads without this script; it adds choosing, filtering, reading off and copying.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  const theme = document.getElementById("theme");
  const themes = { auto: "as the system has them", light: "light", dark: "dark" };
  const remember = (key, value) => {
    try {
      if (value === undefined) return localStorage.getItem(key);
      localStorage.setItem(key, value);
    } catch { /* a file opened from disk may have no storage */ }
    return null;
  };
  const setTheme = (name) => {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    theme.textContent = name[0].toUpperCase() + name.slice(1);
    theme.setAttribute("aria-label", `Colours: ${themes[name]}`);
  };
  theme.addEventListener("click", () => {
    const names = Object.keys(themes);
    const now = document.documentElement.dataset.theme || "auto";
    const next = names[(names.indexOf(now) + 1) % names.length];
    setTheme(next);
    remember("weftway-theme", next);
  });
  const asked = new URLSearchParams(location.search).get("theme") || remember("weftway-theme");
  setTheme(asked in themes ? asked : "auto");

  const filters = all("[data-filter]");
  const applyFilters = () => {
    for (const element of all("main [data-cc], main [data-setting]")) {
      element.hidden = filters.some(({ dataset: { filter }, value }) =>
        value !== "*" && filter in element.dataset && element.dataset[filter] !== value);
    }
  };
  filters.forEach((select) => select.addEventListener("change", applyFilters));

  const readout = document.getElementById("readout");
  const choice = document.getElementById("run-choice");
  const choose = () => {
    for (const run of all(".lanes")) run.hidden = run.id !== `run-${choice.value}`;
    readout.textContent = "";
  };
  choice?.addEventListener("change", choose);

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

  for (const link of all(".data a")) {
    link.addEventListener("click", (event) => {
      const file = document.querySelector(link.getAttribute("href"));
      if (!file) return;
      event.preventDefault();
      file.click();
    });
  }
  const copied = async (button) => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  all(".copy").forEach((button) => button.addEventListener("click", () => copied(button)));
})();
