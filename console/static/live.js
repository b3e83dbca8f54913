// Keeps the page up to date: every two seconds it asks for the page anew and takes its content. It rests while nobody sees the page,
// and while somebody is at work in it. A list of jobs stays as it is: its rows say how they stand by now, and how many newer ones there are.
"use strict";
(() => {
  const every = 2000;
  const answerMax = 30000; // later, none comes
  const edited = (field) => {
    if (!field.options) return field.value !== field.defaultValue;
    const chosen = [...field.options].findIndex((o) => o.defaultSelected);
    return field.selectedIndex !== Math.max(0, chosen); // if the page chooses none, it is the first
  };
  // Links and tables that scroll get the focus back. Buttons and fields do not: somebody is about to use them.
  const kept = "a[href], .wide";
  const like = (main, e) => [...main.querySelectorAll(kept)].filter((o) => o.href === e.href && o.getAttribute("aria-label") === e.getAttribute("aria-label"));
  const inUse = (main) => main.contains(document.activeElement) && !document.activeElement.matches(kept);
  const away = () => document.hidden || document.querySelector("dialog[open]");
  const busy = (main) =>
    away() || inUse(main) || !getSelection().isCollapsed ||
    [...main.querySelectorAll("input, textarea, select")].some(edited);
  const pill = document.getElementById("live");
  let paused = false, heard = Date.now(); // when the page was as it is
  const say = (main) => {
    const old = Math.round((Date.now() - heard) / 1000);
    pill.hidden = false;
    pill.textContent = paused ? "‖ Paused" : main.classList.contains("stale") ? `▲ ${old} s old` : main.classList.contains("rests") ? "‖ Rests" : "● Live";
  };
  const rowsOf = (main) => [...main.querySelectorAll("tr[data-k]")];
  const addressOf = (rows) => {
    const address = new URL(location.href);
    if (rows.length) address.searchParams.set("ids", rows.map((r) => r.dataset.k).join());
    return address;
  };
  const patch = (main, rows, next) => {
    const now = new Map(rowsOf(next).map((r) => [r.dataset.k, r]));
    const take = (to, from) => { if (to && from && to.innerHTML !== from.innerHTML) to.replaceChildren(...from.childNodes); };
    for (const row of rows) {
      const to = now.get(row.dataset.k);
      row.classList.toggle("gone", !to);
      if (to && to.cells.length === row.cells.length) [...row.cells].forEach((cell, i) => { if (!cell.matches(".check")) take(cell, to.cells[i]); });
    }
    for (const part of [".newer", ".age"]) take(main.querySelector(part), next.querySelector(part));
  };
  const look = async () => {
    const main = document.querySelector("main[data-live]");
    if (!main || paused) return;
    const rows = rowsOf(main), rests = () => (rows.length ? away() : busy(main));
    main.classList.toggle("rests", !document.hidden && rests()); // and the page says so
    say(main);
    if (rests()) return;
    const answer = await fetch(addressOf(rows), { redirect: "manual", signal: AbortSignal.timeout(answerMax) });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main#content");
    if (!answer.ok || !next) main.classList.add("stale");
    if (rests() || paused) return;
    if (answer.type === "opaqueredirect") { // to log in, for example: that is a page of its own, perhaps on another site
      clearInterval(looks); // another reload would stop the first
      location.reload();
      return;
    }
    if (!next) return; // the answer is not the console's
    main.classList.toggle("stale", !answer.ok);
    if (answer.ok) heard = Date.now();
    say(main);
    if (rows.length) {
      if (answer.ok) patch(main, rows, next);
      return;
    }
    const wide = [...main.querySelectorAll(".wide")].map((e) => e.scrollLeft);
    const open = [...main.querySelectorAll("details")].map((e) => e.open);
    const focus = main.contains(document.activeElement) && document.activeElement, which = focus && like(main, focus).indexOf(focus);
    main.replaceChildren(...next.childNodes);
    if (focus) like(main, focus)[which]?.focus({ preventScroll: true });
    main.querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = wide[i] || 0; });
    main.querySelectorAll("details").forEach((e, i) => { e.open = open[i] || false; });
    document.dispatchEvent(new Event("renewed"));
  };
  let asking = false; // one request at a time: an older answer does not come after a newer one
  const looks = setInterval(async () => {
    if (asking) return;
    asking = true;
    try {
      await look();
    } catch {
      const main = document.querySelector("main");
      main.classList.add("stale");
      say(main);
    } finally {
      asking = false;
    }
  }, every);
  const live = document.querySelector("main[data-live]");
  if (live) {
    say(live);
    pill.addEventListener("click", () => {
      paused = !paused;
      say(live);
    });
  }
  if (location.search.includes("said=")) {
    const address = new URL(location.href);
    address.searchParams.delete("said");
    setTimeout(() => history.replaceState(null, "", address), 6000); // it was read by then
  }
})();
