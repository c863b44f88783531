// What a page of the guide does: copies code, switches light and dark, opens the list of pages, and searches. The index is a script that is loaded
// with the first search, so that it works without a server and without a network.
const root = document.currentScript.dataset.root;

const theme = document.documentElement;
const stored = (() => {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
})();
const chosen = stored?.getItem("insitu-guide-theme");
if (chosen) theme.dataset.theme = chosen;
document.querySelector(".theme").addEventListener("click", () => {
  const isDark = theme.dataset.theme
    ? theme.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  theme.dataset.theme = isDark ? "light" : "dark";
  stored?.setItem("insitu-guide-theme", theme.dataset.theme);
});

const menu = document.querySelector(".menu");
menu.addEventListener("click", () => {
  const isOpen = document.body.classList.toggle("with-pages");
  menu.setAttribute("aria-expanded", String(isOpen));
});
document.querySelector('.pages [aria-current="page"]')?.scrollIntoView({ block: "nearest" });

document.addEventListener("click", async ({ target }) => {
  if (!(target instanceof HTMLButtonElement) || !("copy" in target.dataset)) return;
  const code = target.closest("figure").querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(code);
    target.textContent = "Copied";
  } catch {
    target.textContent = "Select and copy";
  }
  setTimeout(() => (target.textContent = "Copy"), 1500);
});

let index;
const loadIndex = () =>
  (index ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${root}search-index.js`;
    script.onload = () => resolve(window.guideIndex);
    script.onerror = reject;
    document.head.append(script);
  }));

/** How well a section fits the words: all must be in it or in its titles. */
function scoreOf(words, title, heading, text, isReference) {
  let score = 0;
  for (const word of words) {
    const starts = (where) =>
      new RegExp(`(?:^|[^\\p{L}\\p{N}])${RegExp.escape?.(word) ?? word.replace(/[^\p{L}\p{N}]/gu, "\\$&")}`, "u").test(
        where,
      );
    if (heading.includes(word)) score += starts(heading) ? 12 : 4;
    else if (title.includes(word)) score += starts(title) ? 6 : 2;
    else if (text.includes(word)) score += starts(text) ? 2 : 0.5;
    else return 0;
  }
  if (heading === words.join(" ")) score += 10;
  return isReference ? score * 0.6 : score;
}

function search(pages, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const found = pages.flatMap(({ title, place, isReference, sections }) =>
    sections.map(([id, heading, text]) => ({
      title,
      heading,
      text,
      href: `${root}${place}#${id}`,
      score: scoreOf(words, title.toLowerCase(), heading.toLowerCase(), text.toLowerCase(), isReference),
    })),
  );
  return found
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, 12);
}

/** The words around the first that was found. */
function excerpt(text, query) {
  const at = Math.max(0, text.toLowerCase().indexOf(query.toLowerCase().split(/\s+/)[0]) - 40);
  return `${at > 0 ? "…" : ""}${text.slice(at, at + 130)}${text.length > at + 130 ? "…" : ""}`;
}

const input = document.querySelector("#find");
const list = document.querySelector("#found");
const shown = () => [...list.querySelectorAll("a")];

async function show() {
  const query = input.value.trim();
  const pages = query === "" ? [] : await loadIndex();
  if (query !== input.value.trim()) return;
  const results = search(pages, query);
  list.replaceChildren(
    ...results.map(({ title, heading, text, href }) => {
      const link = document.createElement("a");
      link.href = href;
      const name = document.createElement("strong");
      name.textContent = heading === title ? title : `${title} › ${heading}`;
      const words = document.createElement("span");
      words.textContent = excerpt(text, query);
      link.append(name, words);
      return link;
    }),
  );
  if (query !== "" && results.length === 0) list.textContent = "Nothing found.";
  list.hidden = query === "";
}

input.addEventListener("input", show);
input.addEventListener("focus", () => input.value !== "" && show());
document.querySelector(".search").addEventListener("keydown", (event) => {
  const links = shown();
  const at = links.indexOf(document.activeElement);
  if (event.key === "Escape") {
    list.hidden = true;
    input.blur();
  } else if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
  else if (event.key === "ArrowUp") (at <= 0 ? input : links[at - 1]).focus();
  else if (event.key === "Enter" && document.activeElement === input) links[0]?.click();
  else return;
  event.preventDefault();
});
document.addEventListener("click", ({ target }) => {
  if (!target.closest(".search") || target.closest("#found a")) list.hidden = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || /^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) return;
  event.preventDefault();
  input.focus();
});
