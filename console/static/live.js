// Keeps the page up to date: every two seconds it asks for the page anew and takes its content. It rests while nobody sees the page,
// and while somebody is at work in it.
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
  const busy = (main) =>
    document.hidden || inUse(main) || !getSelection().isCollapsed ||
    [...main.querySelectorAll("input, textarea, select")].some(edited);
  const look = async () => {
    const main = document.querySelector("main[data-live]");
    if (!main) return;
    main.classList.toggle("rests", !document.hidden && busy(main)); // and the page says so
    if (busy(main)) return;
    const answer = await fetch(location.href, { redirect: "manual", signal: AbortSignal.timeout(answerMax) });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main#content");
    if (!answer.ok || !next) main.classList.add("stale");
    if (busy(main)) return;
    if (answer.type === "opaqueredirect") { // to log in, for example: that is a page of its own, perhaps on another site
      clearInterval(looks); // another reload would stop the first
      location.reload();
      return;
    }
    if (!next) return; // the answer is not the console's
    const wide = [...main.querySelectorAll(".wide")].map((e) => e.scrollLeft);
    const open = [...main.querySelectorAll("details")].map((e) => e.open);
    const focus = main.contains(document.activeElement) && document.activeElement, which = focus && like(main, focus).indexOf(focus);
    main.replaceChildren(...next.childNodes);
    if (focus) like(main, focus)[which]?.focus({ preventScroll: true });
    main.querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = wide[i] || 0; });
    main.querySelectorAll("details").forEach((e, i) => { e.open = open[i] || false; });
    main.classList.toggle("stale", !answer.ok);
    document.dispatchEvent(new Event("renewed"));
  };
  let asking = false; // one request at a time: an older answer does not come after a newer one
  const looks = setInterval(async () => {
    if (asking) return;
    asking = true;
    try {
      await look();
    } catch {
      document.querySelector("main").classList.add("stale");
    } finally {
      asking = false;
    }
  }, every);
  if (location.search.includes("said=")) {
    const address = new URL(location.href);
    address.searchParams.delete("said");
    setTimeout(() => history.replaceState(null, "", address), 6000); // it was read by then
  }
})();
