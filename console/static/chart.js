// Says what a picture of what ran shows below the pointer, on all pictures of the page at once. Whoever drags across a picture gets that
// span; a second click takes it back. The numbers come from data/series, and are asked for when somebody points at a picture.
"use strict";
(() => {
  const askAgain = 10000;
  const known = new Map(); // by address: what was answered last
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true"); // the same stands in a table
  let shown = null; // {figure, part}: where the pointer is
  let dragged = null; // {figure, part}: where it was pressed

  const ask = async (address) => {
    const k = known.get(address) || { at: 0 };
    if (Date.now() - k.at < askAgain) return;
    k.at = Date.now();
    known.set(address, k);
    const answer = await fetch(address, { headers: k.tag ? { "If-None-Match": k.tag } : {} });
    if (answer.status === 200) {
      k.data = await answer.json();
      k.tag = answer.headers.get("ETag");
    }
    draw();
  };
  const pictureOf = (figure) => figure.querySelector(".picture");
  const partOf = (figure, x) => {
    const box = pictureOf(figure).getBoundingClientRect();
    return Math.min(0.999999, Math.max(0, (x - box.left) / box.width));
  };
  const span = (ms) => {
    if (ms === null) return "–";
    if (ms < 1000) return ms < 1 ? "<1 ms" : `${Math.round(ms)} ms`;
    if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
    return ms < 3600000 ? `${(ms / 60000).toFixed(1)} min` : `${(ms / 3600000).toFixed(1)} h`;
  };
  const line = (name, value) => {
    const row = document.createElement("tr");
    row.append(Object.assign(document.createElement("th"), { textContent: name }), Object.assign(document.createElement("td"), { textContent: value }));
    return row;
  };
  const over = (figure, name, from, to) => {
    let e = figure.querySelector("." + name);
    if (from === null) return e && e.remove();
    if (!e) figure.append((e = Object.assign(document.createElement("div"), { className: name })));
    const box = pictureOf(figure).getBoundingClientRect(), at = figure.getBoundingClientRect();
    e.style.left = `${box.left - at.left + from * box.width}px`;
    e.style.top = `${box.top - at.top}px`;
    e.style.height = `${box.height}px`;
    if (to > from) e.style.width = `${(to - from) * box.width}px`;
  };
  const figures = () => [...document.querySelectorAll("figure[data-series]")];
  const clear = () => {
    shown = dragged = null;
    tip.remove();
    figures().forEach((f) => { over(f, "cursor", null); over(f, "brush", null); });
  };
  const draw = () => {
    if (!shown) return;
    for (const s of [shown, dragged]) { // the page may be newer
      if (s && !s.figure.isConnected) s.figure = figures().find((f) => f.dataset.show === s.figure.dataset.show);
      if (s && !s.figure) return clear();
    }
    const k = known.get(shown.figure.dataset.series);
    if (!k || !k.data) return;
    const d = k.data, n = d.t.length, i = Math.floor(shown.part * n);
    const table = document.createElement("table");
    for (const [name, column] of Object.entries(d[shown.figure.dataset.show])) {
      const value = column[i];
      if (shown.figure.dataset.show === "runs") {
        if (value || column.some((v) => v)) table.append(line(name, value.toLocaleString()));
      } else table.append(line(name, span(value)));
    }
    const before = d.before && d.before[shown.figure.dataset.show];
    if (before) table.append(line("before", shown.figure.dataset.show === "runs" && before[i] !== null ? before[i].toLocaleString() : span(before[i])));
    const begin = new Date(d.t[i] * 1000), long = d.step >= 43200;
    const head = document.createElement("strong");
    head.textContent = begin.toLocaleString([], long ? { dateStyle: "medium" } : { dateStyle: "short", timeStyle: "short" }) + ` (${begin.toISOString().slice(11, 16)} UTC)`;
    tip.replaceChildren(head, table);
    const came = d.deploys.filter((m) => m.at >= d.t[i] && m.at < d.t[i] + d.step);
    if (came.length) tip.append(Object.assign(document.createElement("div"), { textContent: "▼ deploy: " + came.flatMap((m) => [m.version, ...m.hosts]).filter(Boolean).slice(0, 3).join(", ") }));
    document.body.append(tip);
    const room = 12, wide = tip.offsetWidth;
    tip.style.left = `${shown.x + room + wide > innerWidth ? Math.max(0, shown.x - room - wide) : shown.x + room}px`;
    tip.style.top = `${Math.min(shown.y + room, innerHeight - tip.offsetHeight)}px`;
    for (const f of figures()) over(f, "cursor", (i + 0.5) / n, 0);
    if (dragged) over(dragged.figure, "brush", Math.min(dragged.part, shown.part), Math.max(dragged.part, shown.part));
  };
  const figureAt = (e) => {
    const figure = e.target.closest && e.target.closest("figure[data-series]");
    return figure && e.clientX >= pictureOf(figure).getBoundingClientRect().left - 4 ? figure : null;
  };
  addEventListener("pointermove", (e) => {
    const figure = figureAt(e);
    if (!figure) return dragged || !shown ? undefined : clear();
    shown = { figure, part: partOf(figure, e.clientX), x: e.clientX, y: e.clientY };
    draw();
    ask(figure.dataset.series).catch(() => {}); // the picture stays
  });
  addEventListener("pointerdown", (e) => {
    const figure = e.button === 0 && e.pointerType === "mouse" && figureAt(e);
    if (!figure) return;
    e.preventDefault(); // no text is selected
    dragged = { figure, part: partOf(figure, e.clientX), x: e.clientX };
  });
  addEventListener("pointerup", (e) => {
    const began = dragged, k = began && known.get(began.figure.dataset.series);
    dragged = null;
    figures().forEach((f) => over(f, "brush", null));
    if (!k || !k.data || Math.abs(e.clientX - began.x) < 8) return;
    const parts = [began.part, partOf(began.figure, e.clientX)].sort((a, b) => a - b);
    const d = k.data, long = d.t.length * d.step;
    const from = d.from + Math.floor(parts[0] * d.t.length) * d.step, to = d.from + Math.ceil(parts[1] * d.t.length) * d.step;
    const address = new URL(location.href);
    address.search = "";
    address.searchParams.set("from", from);
    address.searchParams.set("to", Math.max(to, from + Math.min(long, 300)));
    location.href = address;
  });
  addEventListener("dblclick", (e) => {
    if (figureAt(e) && location.search.includes("from=")) history.back();
  });
  document.addEventListener("pointerleave", clear);
  document.addEventListener("renewed", draw);
})();
