// Ctrl+K or ⌘K opens a field that leads to any page, queue or job, and changes nothing in the database. It also completes a search. The names
// of queues come from data/names.
"use strict";
(() => {
  const askAgain = 30000, shownMost = 12;
  const palette = document.getElementById("palette"), field = palette.querySelector("input"), list = palette.querySelector("ul");
  const opener = document.getElementById("open-palette"), root = palette.dataset.root;
  let names = { queues: [], terms: [] }, asked = -Infinity, shown = [], at = 0;

  const ask = async (then) => {
    if (performance.now() - asked < askAgain) return;
    asked = performance.now();
    try {
      const answer = await fetch(root + "data/names");
      if (!answer.ok) return;
      names = await answer.json();
      then();
    } catch { /* pages and commands are known without it */ }
  };
  const press = (id) => () => document.getElementById(id).click();
  const link = (text, path) => ({ text, go: () => { location.href = root + path; } });
  const search = (q) => `jobs?q=${encodeURIComponent(q)}`;
  const entries = (q) => [
    ...[...document.querySelectorAll("header nav a")].map((a) => ({ text: a.innerText, of: "page", go: () => a.click() })),
    ...names.queues.flatMap((n) => [
      link(`${n.name || n.type}`, `queues/${n.type}`), // its page has the buttons
      ...(q ? [link(`Failed jobs of ${n.name || n.type}`, search(`${n.term} state:failed`)), link(`Waiting jobs of ${n.name || n.type}`, search(`${n.term} state:queued`)),
        link(`Pause or limit ${n.name || n.type} …`, `queues/${n.type}`), link(`Simulate ${n.name || n.type}`, `queues/${n.type}/simulate`)] : []),
    ].map((e, i) => ({ of: i ? "queue" : `queue ${n.type}`, ...e }))),
    ...[...document.querySelectorAll("form.theme button")].map((b) => ({ text: `Theme: ${b.value}`, of: "command", go: () => b.click() })),
    { text: "Keep this page up to date, or not", of: "command", go: press("live") },
    { text: "Show the keys", of: "command", go: press("help") },
  ];
  const matching = (q) => {
    const parts = q.toLowerCase().split(/\s+/).filter(Boolean);
    const rank = (e) => (e.text.toLowerCase().startsWith(parts[0] || "") ? 0 : 1);
    const found = entries(q).filter((e) => parts.every((p) => `${e.text} ${e.of}`.toLowerCase().includes(p))).sort((a, b) => rank(a) - rank(b)).slice(0, shownMost);
    if (/^\d+$/.test(q)) found.unshift({ ...link(`Job ${q}`, `jobs/${q}`), of: "job" });
    return q ? [...found, { ...link(`Search jobs for “${q}”`, search(q)), of: "search" }] : found;
  };
  const choose = (to) => {
    at = Math.max(0, Math.min(shown.length - 1, to));
    [...list.children].forEach((o, i) => o.setAttribute("aria-selected", i === at));
    const chosen = list.children[at];
    field.setAttribute("aria-activedescendant", chosen ? chosen.id : "");
    chosen?.scrollIntoView({ block: "nearest" });
  };
  const draw = () => {
    shown = matching(field.value.trim());
    list.replaceChildren(...shown.map((e, i) => {
      const option = Object.assign(document.createElement("li"), { id: `palette-${i}` });
      option.setAttribute("role", "option");
      option.append(Object.assign(document.createElement("span"), { textContent: e.text }), Object.assign(document.createElement("span"), { className: "of", textContent: ` ${e.of}` }));
      option.addEventListener("click", () => run(e));
      return option;
    }));
    choose(0);
  };
  const run = (e) => {
    palette.close();
    e?.go();
  };
  const open = () => {
    if (document.querySelector("dialog[open]")) return;
    field.value = "";
    palette.showModal(); // the focus comes back to where it was
    draw();
    ask(draw);
  };
  field.addEventListener("input", draw);
  field.addEventListener("keydown", (e) => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + shownMost, PageUp: at - shownMost }[e.key];
    if (to !== undefined) choose(to);
    else if (e.key === "Enter" && !e.isComposing) run(shown[at]);
    else return;
    e.preventDefault();
  });
  palette.addEventListener("click", (e) => { if (e.target === palette) palette.close(); }); // beside it
  addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && !e.shiftKey && !e.altKey && e.key.toLowerCase() === "k") {
      e.preventDefault();
      if (palette.open) palette.close();
      else open();
    }
  });
  opener.hidden = false;
  opener.addEventListener("click", open);

  // The last word of a search is completed, with what stands before it.
  const terms = Object.assign(document.createElement("datalist"), { id: "terms" });
  document.body.append(terms);
  const complete = (into) => {
    const [, before, last] = into.value.match(/^(.*\s)?(\S*)$/s);
    const known = [...names.queues.map((n) => n.term), ...names.terms].filter((t) => last && t !== last && t.toLowerCase().includes(last.toLowerCase()));
    terms.replaceChildren(...known.slice(0, shownMost).map((t) => Object.assign(document.createElement("option"), { value: (before || "") + t })));
  };
  addEventListener("input", (e) => {
    if (!e.target.matches("[name=q]")) return;
    e.target.setAttribute("list", terms.id);
    complete(e.target);
    ask(() => complete(e.target));
  });
})();
