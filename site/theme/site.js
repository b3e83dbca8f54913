"use strict";

// Search: the parts of all pages that have each word that was typed. Words are looked for anywhere in a text, so Chinese needs no more than that.
const search = document.querySelector("dialog.search");
const field = search.querySelector("input"), list = search.querySelector("ol"), status = search.querySelector("[role=status]");
const opener = document.querySelector(".find");
const most = 20, around = 70; // results; characters on either side of what was found
let index;

async function open() {
  if (search.open) return;
  search.showModal();
  field.select();
  if (index) return;
  try {
    const files = search.dataset.index.split(" ").map((file) => fetch(file).then((answer) => answer.json()));
    index = (await Promise.all(files)).flatMap((pages, rank) => pages.flatMap(([address, title, parts]) =>
      parts.map(([heading, anchor, text]) => ({ address, title, heading, anchor, text, rank, low: [title, heading, text].map((s) => s.toLowerCase()) }))));
    find();
  } catch (error) {
    index = undefined;
    status.textContent = String(error);
  }
}

// score is 0 for a part that lacks a word. A heading says more than a text, and the beginning of a word more than its middle.
function score(part, words, whole) {
  const [title, heading, text] = part.low;
  let sum = words.length < 2 ? 0 : heading.includes(whole) ? 200 : text.includes(whole) ? 20 : 0;
  for (const word of words) {
    const begins = (s) => new RegExp("(^|[^\\p{L}\\p{N}])" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "u").test(s);
    const of = heading === word ? 60 : begins(heading) ? 30 : heading.includes(word) ? 15 : 0;
    const times = Math.min(8, text.split(word).length - 1);
    const one = of + (begins(title) ? 10 : title.includes(word) ? 5 : 0) + times + (times && begins(text) ? 4 : 0);
    if (!one) return 0;
    sum += one;
  }
  return part.rank ? sum / 8 : sum; // the reader's language first
}

function best(words) {
  const whole = words.join(" ");
  return index.map((part) => ({ part, points: score(part, words, whole) })).filter((f) => f.points).sort((a, b) => b.points - a.points).slice(0, most);
}

// wordsOf splits what was typed; apart, it also splits Chinese, where nobody types spaces.
function wordsOf(text, apart) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!apart || !Intl.Segmenter) return words;
  return words.flatMap((word) => [...new Intl.Segmenter("zh", { granularity: "word" }).segment(word)].map((s) => s.segment));
}

function find() {
  if (!index) return;
  let words = wordsOf(field.value, false);
  let found = words.length ? best(words) : [];
  if (words.length && !found.length) found = best((words = wordsOf(field.value, true)));
  list.replaceChildren(...found.map(({ part }) => entry(part, words)));
  status.textContent = words.length && !found.length ? search.dataset.none : "";
}

function entry(part, words) {
  const link = document.createElement("a"), where = document.createElement("b"), of = document.createElement("small"), text = document.createElement("p");
  link.href = search.dataset.root + "/" + part.address + (part.anchor ? "#" + part.anchor : "");
  where.append(...marked(part.heading, words));
  if (part.heading !== part.title) of.textContent = part.title;
  const whole = part.low[2].indexOf(words.join(" "));
  const at = whole >= 0 ? whole : Math.max(0, Math.min(...words.map((w) => part.low[2].indexOf(w)).filter((i) => i >= 0), part.text.length));
  const from = at === part.text.length ? 0 : Math.max(0, at - around);
  text.append(...marked((from ? "…" : "") + part.text.slice(from, from + 2 * around) + "…", words));
  link.append(where, of, text);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

// marked is a text in which the words are marked.
function marked(text, words) {
  const parts = text.split(new RegExp("(" + words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")", "i"));
  return parts.map((part, i) => {
    if (i % 2 === 0) return part;
    const mark = document.createElement("mark");
    mark.textContent = part;
    return mark;
  });
}

opener.hidden = false;
opener.addEventListener("click", open);
field.addEventListener("input", find);
search.addEventListener("click", (e) => { if (e.target === search || e.target.closest("a")) search.close(); });
addEventListener("keydown", (e) => {
  const typing = e.target.matches("input, textarea, select");
  if ((e.key === "/" && !typing && !e.ctrlKey && !e.metaKey) || (e.key === "k" && (e.ctrlKey || e.metaKey))) {
    e.preventDefault();
    open();
  }
});
search.addEventListener("keydown", (e) => {
  const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
  if (e.key === "Enter" && e.target === field) {
    e.preventDefault();
    if (links[0]) links[0].click();
  } else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
    e.preventDefault();
    (links[at + (e.key === "ArrowDown" ? 1 : -1)] || field).focus();
  }
});

// Where the reader is: the last heading above the upper third of the window.
const outline = [...document.querySelectorAll(".outline a")].map((link) => ({ link, heading: document.getElementById(decodeURIComponent(link.hash.slice(1))) }));
function follow() {
  const passed = outline.filter(({ heading }) => heading.getBoundingClientRect().top < innerHeight / 3).pop();
  for (const o of outline) {
    if (o === passed) o.link.setAttribute("aria-current", "location");
    else o.link.removeAttribute("aria-current");
  }
}
if (outline.length) {
  addEventListener("scroll", follow, { passive: true });
  follow();
}

// The way of a job, a step at a time. It moves by itself only while it is seen, and never if the reader wants no motion.
for (const way of document.querySelectorAll(".way")) {
  const drawing = way.querySelector("svg"), steps = [...way.querySelectorAll("ol button")], says = way.querySelector(".says"), play = way.querySelector(".play");
  const still = matchMedia("(prefers-reduced-motion: reduce)"), pace = 3600;
  let at = 0, playing = false, seen = false, timer;
  const show = (step) => {
    at = step;
    drawing.dataset.step = step + 1;
    for (const part of drawing.querySelectorAll("[data-in]")) part.toggleAttribute("data-seen", part.dataset.in.split(" ").includes(String(step + 1)));
    steps.forEach((button, i) => i === step ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current"));
    says.textContent = steps[step].querySelector("span").textContent;
  };
  const wind = () => {
    clearInterval(timer);
    if (playing && seen) timer = setInterval(() => show((at + 1) % steps.length), pace);
    play.textContent = playing ? way.dataset.pause : way.dataset.play;
  };
  steps.forEach((button, i) => button.addEventListener("click", () => { playing = false; show(i); wind(); }));
  play.addEventListener("click", () => { playing = !playing; wind(); });
  still.addEventListener("change", () => { playing = playing && !still.matches; wind(); });
  new IntersectionObserver(([entry]) => { seen = entry.isIntersecting; wind(); }, { threshold: 0.3 }).observe(drawing);
  way.classList.add("lives");
  play.hidden = false;
  playing = !still.matches;
  show(0);
  wind();
}
