// Keys for whoever does not want to reach for the mouse, and the theme without a new page. No key changes anything in the database.
"use strict";
(() => {
  const field = "input:not([type=checkbox]), textarea, select, [contenteditable]";
  const sheet = document.getElementById("keys"), theme = document.querySelector("form.theme"), help = document.getElementById("help");
  const nextMax = 1500; // milliseconds between g and the letter of a page
  let leaving = 0; // until when a letter leads to a page

  const rows = () => [...document.querySelectorAll("main tbody tr")].filter((r) => r.querySelector("a[href]"));
  const here = (all) => all.findIndex((r) => r.contains(document.activeElement));
  const move = (by) => {
    const all = rows(), at = here(all);
    const to = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by));
    all[to]?.querySelector("a[href]").focus();
  };
  const select = () => {
    const all = rows();
    all[here(all)]?.querySelector("input[type=checkbox]")?.click();
  };
  const nextTheme = () => {
    const buttons = [...theme.querySelectorAll("button")];
    const at = buttons.findIndex((b) => b.getAttribute("aria-pressed") === "true");
    theme.requestSubmit(buttons[(at + 1) % buttons.length]);
  };
  const search = () => {
    const into = document.querySelector("main [name=q]") || document.getElementById("search");
    into.focus();
    into.select();
  };
  const showKeys = () => (sheet.open ? sheet.close() : sheet.showModal());
  const keys = {
    "/": search, j: () => move(1), k: () => move(-1), x: select, t: nextTheme, "?": showKeys,
    r: () => document.getElementById("live").click(),
    g: () => { leaving = Date.now() + nextMax; },
  };
  addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
    if (e.key === "Escape") {
      leaving = 0;
      if (!sheet.open) document.activeElement.blur();
      return;
    }
    if (e.target.closest(field)) return;
    const page = leaving > Date.now() && document.querySelector(`nav [data-go="${CSS.escape(e.key)}"]`);
    leaving = 0;
    if (sheet.open && e.key !== "?") return;
    const act = page ? () => page.click() : Object.hasOwn(keys, e.key) && keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });
  help.hidden = false;
  help.addEventListener("click", showKeys);
  theme.addEventListener("submit", async (e) => {
    const to = e.submitter?.value;
    if (!to) return;
    e.preventDefault();
    document.documentElement.dataset.theme = to;
    document.querySelector("meta[name=color-scheme]").content = to === "system" ? "light dark" : to;
    theme.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", b.value === to));
    try {
      await fetch(theme.action, { method: "POST", body: new URLSearchParams({ theme: to }), redirect: "manual" });
    } catch { /* the page looks so until it is left */ }
  });
})();
