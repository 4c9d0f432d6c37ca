"use strict";
// Draws the page's JSON: a figure when it scrolls into view, a mix when its cell is chosen.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NARROW = 520;

  function source(element) {
    const { figure, mix, part } = element.dataset;
    if (figure !== undefined) return spelledOut(data.figures[figure]);
    return spelledOut({ ...data.mix_specs[part], ...data.mixes[mix][part] });
  }

  // Distinct texts of a column are stored once; rows hold their index.
  function spelledOut(table) {
    const words = table.columns.map((name) => table.words[name]);
    const rows = table.rows.map((row) => row.map((value, i) => (words[i] && value !== null ? words[i][value] : value)));
    return { ...table, rows };
  }

  function objects({ columns, rows }) {
    return rows.map((row) => Object.fromEntries(columns.map((name, place) => [name, row[place]])));
  }

  // Mix and sharing on two lines: truncated after the mix, all lines of a mix would look alike.
  function foldNames(view) {
    let folded = false;
    for (const one of [view, ...(view.layer ?? [])]) {
      const y = one.encoding?.y;
      if (y?.type !== "nominal" || y.axis === null) continue;
      y.axis = { ...y.axis, labelExpr: "split(datum.label, ', ')", labelFontSize: 11, labelLineHeight: 13 };
      folded = true;
    }
    if (folded && view.height?.step) view.height.step = Math.max(view.height.step, 34);
  }

  // Stacked panels can't measure their container: their width is what the labels leave.
  function fitted({ spec, margin }, width) {
    const copy = structuredClone(spec);
    const narrow = width < NARROW;
    const labels = Math.min(margin, Math.round(width * 0.36));
    copy.config.legend.columns = narrow ? 1 : width < 760 ? 2 : 3;
    copy.config.legend.labelLimit = Math.max(120, narrow ? width - 60 : width / 3);
    copy.config.header.labelLimit = width - 20;
    if (copy.facet) {
      copy.spec.width = Math.max(120, width - labels - 26);
      Object.assign(copy.config.axisY, { minExtent: labels, maxExtent: labels, labelLimit: labels - 8 });
      if (narrow) foldNames(copy.spec);
    } else {
      copy.config.axisY.labelLimit = labels;
    }
    return copy;
  }

  async function draw(element) {
    const width = Math.floor(element.clientWidth);
    if (width === 0 || element.dataset.width === String(width)) return;
    element.dataset.width = String(width);
    const figure = source(element);
    if (figure.rows.length === 0) {
      element.textContent = "No data.";
      return;
    }
    const spec = fitted(figure, width);
    spec.data = { name: "rows", values: objects(figure) };
    // The interpreter evaluates expressions without eval, which the page's policy forbids.
    await vegaEmbed(element, spec, { ast: true, actions: false, renderer: "svg", mode: "vega-lite", logLevel: vega.Error });
    // The container is labelled; screen readers would read the marks inside one by one.
    element.querySelector("svg").setAttribute("aria-hidden", "true");
    element.dataset.drawn = "yes";
  }

  function csv({ columns, rows }) {
    const cell = (value) => {
      if (value === null || value === undefined) return "";
      let text = String(value);
      if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
      return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    };
    return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
  }

  function download(button) {
    const { figure, mix, part } = button.dataset;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(source(button))], { type: "text/csv" }));
    link.download = (figure ?? `${mix}-${part}`) + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function choose(key, announce) {
    for (const square of document.querySelectorAll("button[data-mix][aria-pressed]")) {
      square.setAttribute("aria-pressed", String(square.dataset.mix === key));
    }
    for (const detail of document.querySelectorAll(".detail")) detail.hidden = detail.id !== key;
    const detail = document.getElementById(key);
    for (const drawing of detail.querySelectorAll(".drawing")) draw(drawing);
    if (announce) document.getElementById(`${key}-title`).focus();
  }

  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        draw(entry.target);
      }
    },
    { rootMargin: "600px" },
  );
  for (const drawing of document.querySelectorAll(".drawing[data-figure]")) seen.observe(drawing);
  // Printing doesn't wait for drawings, so all of them are drawn as soon as there is time.
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 300));
  const waiting = [...document.querySelectorAll(".drawing[data-figure]")];
  const drawNext = () => {
    const drawing = waiting.shift();
    if (drawing === undefined) return;
    draw(drawing).finally(() => idle(drawNext));
  };
  addEventListener("load", () => idle(drawNext));
  for (const folded of document.querySelectorAll("details")) {
    folded.addEventListener("toggle", () => folded.querySelectorAll(".drawing[data-figure]").forEach(draw));
  }

  for (const button of document.querySelectorAll("button.download")) {
    button.addEventListener("click", () => download(button));
  }
  for (const square of document.querySelectorAll("button[data-mix][aria-pressed]")) {
    square.addEventListener("click", () => choose(square.dataset.mix, true));
  }
  // Start with the recommendation, else the first cell.
  const squares = [...document.querySelectorAll("button[data-mix][aria-pressed]")];
  const first = squares.find((one) => one.dataset.mix === data.chosen) ?? squares[0];
  if (first) choose(first.dataset.mix, false);

  const everyMix = document.getElementById("every-mix");
  const beyond = everyMix ? [...document.querySelectorAll(".matrix tbody tr")].slice(Number(everyMix.dataset.most)) : [];
  const unfold = () => {
    for (const line of beyond) line.classList.remove("beyond");
    if (everyMix) everyMix.hidden = true;
  };
  if (everyMix) {
    for (const line of beyond) line.classList.add("beyond");
    everyMix.hidden = false;
    everyMix.addEventListener("click", unfold);
    addEventListener("beforeprint", unfold);
  }

  const filter = document.getElementById("filter");
  const lines = [...document.querySelectorAll("[data-filtered] tbody tr")];
  if (filter && lines.length > 1) {
    const text = document.getElementById("filter-text");
    const verdict = document.getElementById("filter-verdict");
    const narrow = () => {
      const words = text.value.toLowerCase().split(/\s+/);
      for (const line of lines) {
        const named = words.every((word) => line.dataset.text.toLowerCase().includes(word));
        line.hidden = !named || (verdict?.value && line.dataset.verdict !== verdict.value);
      }
      const left = lines.filter((line) => !line.hidden).length;
      document.getElementById("filter-count").textContent = left === lines.length ? "" : `${left} of ${lines.length}`;
    };
    filter.hidden = false;
    filter.addEventListener("input", () => {
      unfold();
      narrow();
    });
  }

  let settled;
  addEventListener("resize", () => {
    clearTimeout(settled);
    settled = setTimeout(() => document.querySelectorAll(".drawing[data-drawn]").forEach(draw), 200);
  });
  addEventListener("beforeprint", () => document.querySelectorAll(".drawing").forEach(draw));
})();
