"use strict";
// Everything on the page but the runs over time reads without this script. It adds filtering, folding, sorting,
// searching and copying. What is chosen stands in the address, so that a link shows the same.
const page = (() => {
  const TOP = 10; // rows of a group that are shown at first
  const FEW_MORE = 2; // so many beyond them are shown too
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  const hash = location.hash.slice(1);
  const state = new URLSearchParams(hash.includes("=") ? hash : hash && `at=${hash}`);
  let address = location.hash;
  const get = (key) => state.get(key);
  const set = (key, value) => {
    if (value === null || value === "" || value === undefined) state.delete(key);
    else state.set(key, value);
    address = `${state}` && `#${state}`;
    history.replaceState(null, "", address || location.pathname + location.search);
  };
  // Another link to this page, put into the address bar.
  addEventListener("hashchange", () => {
    if (location.hash !== address && location.hash.includes("=")) location.reload();
  });
  for (const link of all("nav a")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const name = link.getAttribute("href").slice(1);
      set("at", name);
      document.getElementById(name)?.scrollIntoView();
    });
  }

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
    theme.textContent = `Colours: ${name}`;
    theme.setAttribute("aria-label", `Colours: ${themes[name]}`);
    dispatchEvent(new Event("recolour"));
  };
  theme.addEventListener("click", () => {
    const names = Object.keys(themes);
    const now = document.documentElement.dataset.theme || "auto";
    const next = names[(names.indexOf(now) + 1) % names.length];
    setTheme(next);
    remember("weftway-theme", next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("recolour")));
  const asked = new URLSearchParams(location.search).get("theme") || remember("weftway-theme");
  setTheme(asked in themes ? asked : "auto");

  const filters = all("[data-filter]");
  const applyFilters = () => {
    for (const element of all("main [data-cc], main [data-setting]")) {
      element.hidden = filters.some(({ dataset: { filter }, value }) =>
        value !== "*" && filter in element.dataset && element.dataset[filter] !== value);
    }
  };
  for (const select of filters) {
    const { filter } = select.dataset;
    if ([...select.options].some(({ value }) => value === get(filter))) select.value = get(filter);
    select.addEventListener("change", () => {
      set(filter, select.value === "*" ? null : select.value);
      applyFilters();
      tidy();
    });
  }
  applyFilters();

  // A group of rows: the lines of one controller in a table, or of one chart.
  const rowsOf = (group) => all(":scope > [data-name]", group);
  const groups = all("main tbody, main .chart").filter((group) => rowsOf(group).length > 1);
  const fold = () => {
    const words = (get("find") || "").toLowerCase().split(/[\s,]+/).filter(Boolean);
    for (const group of groups) {
      const rows = rowsOf(group);
      const others = rows.filter((row) => !("keep" in row.dataset));
      const limit = get("rows") === "all" || others.length <= TOP + FEW_MORE ? rows.length : TOP;
      rows.forEach((row) => {
        const place = others.indexOf(row); // what is kept in sight has none
        const found = words.some((word) => row.dataset.name.toLowerCase().includes(word));
        row.classList.toggle("folded", words.length ? !found : place >= limit);
      });
      group.querySelector(":scope > .more")?.remove();
      if (words.length) continue; // what a search leaves out is no "more": a click could not show it
      const hidden = rows.filter((row) => row.classList.contains("folded")).length;
      if (hidden) rows[rows.length - 1].after(moreRow(group, hidden));
    }
    tidy();
  };
  // What a search or a filter leaves empty goes, and a section that has nothing left says so.
  const tidy = () => {
    for (const group of groups) {
      const bare = rowsOf(group).every((row) => row.classList.contains("folded"));
      const frame = group.closest("figure") || group;
      frame.classList.toggle("bare", bare);
    }
    for (const section of all("main > section")) {
      const parts = all("figure, .results tbody", section);
      const empty = parts.length > 0 && parts.every((part) => part.hidden || part.closest("[hidden], .bare"));
      section.querySelector(":scope > .nothing")?.remove();
      if (!empty) continue;
      const told = "Nothing here for what is chosen at the top of the page.";
      section.append(Object.assign(document.createElement("p"), { className: "nothing", textContent: told }));
    }
  };
  const moreRow = (group, hidden) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: `${hidden} more` });
    button.addEventListener("click", showAll);
    if (group.tagName !== "TBODY") return wrapped("div", "row more", button);
    const cell = wrapped("td", "", button);
    cell.colSpan = 99;
    return wrapped("tr", "more", cell);
  };
  const wrapped = (tag, css, inner) => {
    const outer = Object.assign(document.createElement(tag), { className: css });
    outer.append(inner);
    return outer;
  };

  const tables = all("table.results").filter((table) => table.querySelector("tbody > [data-name]"));
  const heads = tables.length ? all("thead th", tables[0]).map((head) => head.textContent) : [];
  const keyOf = (row, column) => {
    if (column === 0) return row.dataset.name;
    const { value } = row.children[column].dataset;
    return value === undefined ? null : Number(value);
  };
  const sort = () => {
    const asked = get("sort") || "";
    const column = heads.indexOf(asked.replace(/^-/, ""));
    const sign = asked.startsWith("-") ? -1 : 1;
    for (const table of tables) {
      all("thead th", table).forEach((head, place) => {
        if (place === column) head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      for (const body of table.tBodies) {
        const rows = rowsOf(body);
        rows.forEach((row, place) => { row.dataset.place ??= place; });
        rows.sort((a, b) => {
          if (column < 0) return a.dataset.place - b.dataset.place;
          const [x, y] = [keyOf(a, column), keyOf(b, column)];
          if (x === null || y === null) return (x === null) - (y === null);
          return sign * (x < y ? -1 : x > y ? 1 : 0);
        });
        body.append(...rows);
      }
    }
    fold();
  };
  const labelled = (text, control) => {
    const label = Object.assign(document.createElement("label"), { textContent: `${text} ` });
    label.append(control);
    return label;
  };
  const choice = (options) => {
    const select = document.createElement("select");
    options.forEach(([value, text]) => select.add(new Option(text, value)));
    return select;
  };
  const rowChoice = choice([["top", "top ten"], ["all", "all"]]);
  const showAll = () => {
    rowChoice.value = "all";
    set("rows", "all");
    fold();
  };
  const addControls = () => {
    const bar = document.querySelector(".filters");
    if (!bar || !groups.length) return;
    const find = Object.assign(document.createElement("input"), { type: "search", placeholder: "part of a name" });
    find.value = get("find") || "";
    find.addEventListener("input", () => { set("find", find.value); fold(); });
    rowChoice.value = get("rows") === "all" ? "all" : "top";
    rowChoice.addEventListener("change", () => { set("rows", rowChoice.value === "all" ? "all" : null); fold(); });
    bar.append(labelled("Scheduler", find));
    const many = (group) => rowsOf(group).filter((row) => !("keep" in row.dataset)).length > TOP + FEW_MORE;
    if (groups.some(many)) bar.append(labelled("Rows", rowChoice));
    if (!heads.length) return;
    const columns = heads.slice(0, -1).flatMap((head) => [[head, `${head} ↑`], [`-${head}`, `${head} ↓`]]);
    const by = choice([["", "rank"], ...columns]);
    const show = () => { by.value = get("sort") || ""; sort(); };
    by.addEventListener("change", () => { set("sort", by.value); show(); });
    for (const table of tables) {
      all("thead th", table).slice(0, -1).forEach((head) => {
        head.classList.add("sortable");
        head.addEventListener("click", () => {
          const name = head.textContent;
          set("sort", get("sort") === name ? `-${name}` : name);
          show();
        });
      });
    }
    bar.append(labelled("Sort table by", by));
    show();
  };
  addControls();
  fold();

  for (const link of all(".data a")) {
    link.addEventListener("click", (event) => {
      const file = document.querySelector(link.getAttribute("href"));
      if (!file) return;
      event.preventDefault();
      file.click();
    });
  }
  const copy = async (button, text, node) => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      if (node) getSelection().selectAllChildren(node);
      button.textContent = node ? "Selected" : "Copy it from the address bar";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  for (const button of all(".copy")) {
    const code = button.parentElement.querySelector("code");
    button.addEventListener("click", () => copy(button, code.textContent, code));
  }
  const link = document.getElementById("link");
  link?.addEventListener("click", () => copy(link, location.href));
  addEventListener("load", () => document.getElementById(get("at") || "")?.scrollIntoView());
  return { all, get, set, labelled, choice };
})();
