"use strict";
// Refreshes the rendered page and filters while typing. Without it, everything works on reload.
(() => {
  const rows = document.getElementById("rows");
  const filter = document.getElementById("filter");
  const form = document.getElementById("choose");
  const lost = document.getElementById("lost");
  const chosen = new Set([...document.querySelectorAll("input[name=run]:checked")].map((box) => box.value));
  for (const key of new URLSearchParams(location.search).getAll("run")) chosen.add(key);

  function wanted() {
    if (!filter) return "";
    const fields = new URLSearchParams([...new FormData(filter)].filter(([, value]) => value !== ""));
    const page = new URLSearchParams(location.search).get("page");
    if (page) fields.set("page", page);
    const query = fields.toString();
    return query && `?${query}`;
  }

  async function text(address) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  }

  async function replace(part, address) {
    const fresh = await text(address);
    const focus = document.activeElement?.closest("#rows") && document.activeElement.value;
    part.innerHTML = fresh;
    tick();
    if (focus) part.querySelector(`input[value="${CSS.escape(focus)}"]`)?.focus();
  }

  function tick() {
    for (const box of document.querySelectorAll("input[name=run]")) box.checked = chosen.has(box.value);
    const count = document.getElementById("count");
    if (!count) return;
    const n = chosen.size;
    count.textContent = n === 0 ? "Choose two runs or more to compare them." : n === 1 ? "1 run chosen; one more to compare it with." : `${n} runs chosen.`;
    form.querySelector(".action").disabled = n < 2;
    form.querySelector(".download").disabled = n < 1;
  }

  if (form) {
    form.addEventListener("change", (event) => {
      if (event.target.name !== "run") return;
      if (event.target.checked) chosen.add(event.target.value);
      else chosen.delete(event.target.value);
      tick();
    });
    // Chosen runs still count when filtered out.
    form.addEventListener("formdata", (event) => {
      event.formData.delete("run");
      for (const key of chosen) event.formData.append("run", key);
    });
    tick();
  }

  if (filter && rows) {
    let settled;
    let latest = 0;
    const apply = async () => {
      const turn = ++latest;
      history.replaceState(null, "", "/");
      const query = wanted();
      history.replaceState(null, "", `/${query}`);
      try {
        const fresh = await text(`/rows${query}`);
        if (turn !== latest) return; // superseded by later input
        rows.innerHTML = fresh;
        tick();
      } catch {
        lost.hidden = false;
      }
    };
    filter.querySelector("button").hidden = true;
    filter.addEventListener("input", () => {
      clearTimeout(settled);
      settled = setTimeout(apply, 120);
    });
    filter.addEventListener("submit", (event) => {
      event.preventDefault();
      apply();
    });
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
      event.preventDefault();
      filter.querySelector("input[type=search]").focus();
    });
  }

  for (const part of document.querySelectorAll("[data-live]")) {
    let last = null;
    const look = async () => {
      if (document.visibilityState !== "visible") return;
      const query = part === rows ? wanted() : "";
      try {
        const now = await text(part.dataset.live + query);
        lost.hidden = true;
        if (last !== null && now !== last.now && query === last.query) {
          if (part.dataset.reload) location.reload();
          else await replace(part, part.dataset.part + query);
        }
        last = { now, query };
      } catch {
        lost.hidden = false;
      }
    };
    look();
    setInterval(look, 1000 * Number(part.dataset.every));
  }
})();
