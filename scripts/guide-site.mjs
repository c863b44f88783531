// Renders README, docs/ and what they link to as static pages, which lie as the files do in the repository: so the same links work in both. Writes the
// index that the pages search without a server. A link that leads nowhere is an error. scripts/build-site.mjs puts the pages beside the chat.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, extname, join, posix, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { Marked } from "marked";

const root = fileURLToPath(new URL("..", import.meta.url));
const readText = (path) => readFileSync(join(root, path), "utf8");

const escaped = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** Text as readers see it, of Markdown that stands in one line. */
const plain = (text) =>
  text
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[`*]/g, "")
    .replace(/<[^>]+>/g, "");

/** Files that are shown as they are. */
const isPicture = (path) => [".svg", ".png", ".jpg", ".webp"].includes(extname(path));

/** Where a file of the repository lies on the site. */
function placeOf(path) {
  if (path === "README.md") return "index.html";
  if (path.endsWith(".md")) return path.replace(/\.md$/, ".html");
  if (isPicture(path)) return path;
  return statSync(join(root, path)).isDirectory() ? `${path.replace(/\/$/, "")}/index.html` : `${path}.html`;
}

/** The anchors of headings as GitHub names them. */
function slugger() {
  const seen = new Set();
  return (heading) => {
    const slug = plain(heading)
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-");
    let name = slug;
    for (let count = 1; seen.has(name); count++) name = `${slug}-${count}`;
    seen.add(name);
    return name;
  };
}

/** Output in long lines, such as a told tale, is wrapped; programs and drawings are not. */
const isProse = (text, language) => language === "" && /^.{100}/m.test(text);

const codeBlock = (text, language) =>
  `<figure class="code${isProse(text, language) ? " prose" : ""}"><figcaption><span>${escaped(language)}</span><button type="button" data-copy>Copy</button></figcaption><pre tabindex="0"><code>${escaped(text)}</code></pre></figure>\n`;

/** A page of Markdown: its HTML, headings, sections for the index, and what it links to. */
function renderMarkdown(path) {
  const slug = slugger();
  const headings = [];
  const links = [];
  const from = dirname(placeOf(path));
  const address = (href) => {
    if (/^[a-z]+:/i.test(href)) return href;
    const [file, anchor] = href.split("#");
    const target = file === "" ? path : posix.join(posix.dirname(path), file);
    if (!existsSync(join(root, target))) throw new Error(`${path} links to ${href}, which is not there`);
    links.push({ target: target.replace(/\/$/, ""), anchor });
    const place = posix.relative(from, placeOf(target)) || posix.basename(placeOf(target));
    return (file === "" ? "" : place) + (anchor === undefined ? "" : `#${anchor}`);
  };
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const id = slug(text);
        headings.push({ id, depth, text: plain(text) });
        const words = this.parser.parseInline(tokens);
        return `<h${depth} id="${id}"><a class="anchor" href="#${id}">${words.replace(/<a [^>]*>|<\/a>/g, "")}</a></h${depth}>\n`;
      },
      code: ({ text, lang }) => codeBlock(text, (lang ?? "").split(" ")[0]),
      // Names stay in one piece.
      codespan: ({ text }) => `<code${text.length <= 18 ? ' class="short"' : ""}>${escaped(text)}</code>`,
      link({ href, tokens }) {
        return `<a href="${escaped(address(href))}">${this.parser.parseInline(tokens)}</a>`;
      },
      image: ({ href, text }) => `<img src="${escaped(address(href))}" alt="${escaped(text)}" loading="lazy">`,
    },
  });
  const html = marked
    .parse(readText(path))
    .replaceAll("<table>", '<div class="table" tabindex="0"><table>')
    .replaceAll("</table>", "</table></div>");
  return { path, title: headings[0]?.text ?? path, html, headings, links, sections: sectionsOf(path, headings) };
}

/** A page's sections, each with the words under its heading. */
function sectionsOf(path, headings) {
  // Comments of shell programs are no headings.
  const text = readText(path).replace(/^```.*\n([^]*?)^```$/gm, (_, code) => code.replace(/^#/gm, " #"));
  const parts = text.split(/^#+ .*$/m).slice(1);
  return headings.map(({ id, text: heading }, at) => ({
    id,
    heading,
    words: plain(parts[at] ?? "")
      .replace(/[|]|-{3,}/g, " ")
      .replace(/\s+/g, " ")
      .trim(),
  }));
}

/** A file that is no Markdown, as code. */
function renderSource(path) {
  const text = readText(path);
  const title = posix.basename(path);
  const html = `<h1 id="top">${escaped(title)}</h1>\n${codeBlock(text.trimEnd(), extname(path).slice(1))}`;
  return { path, title, html, headings: [], links: [], sections: [{ id: "top", heading: title, words: path }] };
}

/** A folder: its files, of which those of examples/ have pages of their own. */
function renderFolder(path) {
  const names = readdirSync(join(root, path)).filter((name) => !/^(\.|node_modules$)/.test(name));
  const links = [];
  const entries = names.map((name) => {
    const inner = `${path}/${name}`;
    const shown = /^examples\b/.test(path) && (statSync(join(root, inner)).isDirectory() || isText(inner));
    if (!shown) return `<li><code>${escaped(name)}</code></li>`;
    links.push({ target: inner });
    const said = statSync(join(root, inner)).isFile() && !name.endsWith(".md") ? firstComment(inner) : "";
    const place = posix.relative(path, placeOf(inner));
    return `<li><a href="${escaped(place)}">${escaped(name)}</a>${said && `: ${escaped(said)}`}</li>`;
  });
  const title = path === "examples" ? "Examples" : path;
  const html = `<h1 id="top">${escaped(title)}</h1>\n<ul>\n${entries.join("\n")}\n</ul>`;
  return { path, title, html, headings: [], links, sections: [{ id: "top", heading: title, words: names.join(" ") }] };
}

const isText = (path) => /\.(md|m?[jt]sx?|html|css|json|ya?ml|sh|py|svg)$|Dockerfile$/.test(path);

/** What a program says that it is. */
const firstComment = (path) => /^(?:#!.*\n)?\/\/ (.+)/.exec(readText(path))?.[1] ?? "";

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The guides in the order of docs/README.md, by group. */
function navigation() {
  const groups = [{ title: "insitu", entries: [{ title: "Overview", path: "README.md" }] }];
  for (const line of readText("docs/README.md").split("\n")) {
    const group = /^\*\*(.+)\*\*$/.exec(line);
    if (group) groups.push({ title: group[1], entries: [] });
    else if (groups.length > 1 && /^\s*(?:\d+\.|-|\[| {2})/.test(line))
      for (const [, title, href] of line.matchAll(/\[([^\]]+)\]\(([^)#]+)\)/g))
        groups.at(-1).entries.push({ title: capital(plain(title)), path: posix.join("docs", href) });
  }
  const more = [
    { title: "Examples", path: "examples" },
    { title: "Changelog", path: "CHANGELOG.md" },
    { title: "Contributing", path: "CONTRIBUTING.md" },
  ];
  return [...groups, { title: "Project", entries: more }];
}

/** All pages: the guides, and what they link to, from page to page. */
function collect(groups) {
  const pages = new Map();
  const pictures = new Set();
  const waiting = groups.flatMap(({ entries }) => entries.map(({ path }) => path));
  while (waiting.length > 0) {
    const path = waiting.shift();
    if (pages.has(path) || pictures.has(path)) continue;
    if (isPicture(path)) {
      pictures.add(path);
      continue;
    }
    const isFolder = statSync(join(root, path)).isDirectory();
    const page = isFolder ? renderFolder(path) : path.endsWith(".md") ? renderMarkdown(path) : renderSource(path);
    pages.set(path, page);
    waiting.push(...page.links.map(({ target }) => target));
  }
  for (const { path, links } of pages.values())
    for (const { target, anchor } of links) {
      const known = pages.get(target)?.headings.map(({ id }) => id) ?? [];
      if (anchor !== undefined && target.endsWith(".md") && !known.includes(anchor))
        throw new Error(`${path} links to ${target}#${anchor}, which is no heading there`);
    }
  return { pages, pictures };
}

/** One page with its frame. */
function framed(page, groups) {
  const place = placeOf(page.path);
  const from = posix.dirname(place);
  const to = (path) => posix.relative(from, path);
  const order = groups.flatMap(({ entries }) => entries);
  const at = order.findIndex(({ path }) => path === page.path);
  const entry = ({ title, path }) =>
    `<li><a href="${to(placeOf(path))}"${path === page.path ? ' aria-current="page"' : ""}>${escaped(title)}</a></li>`;
  const nav = groups
    .map(({ title, entries }) => `<h2>${escaped(title)}</h2>\n<ul>\n${entries.map(entry).join("\n")}\n</ul>`)
    .join("\n");
  const inner = page.headings.filter(({ depth }) => depth === 2);
  const contents =
    inner.length < 2
      ? ""
      : `<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>${inner.map(({ id, text }) => `<li><a href="#${id}">${escaped(text)}</a></li>`).join("")}</ul></nav>`;
  const turn = (next, rel, label) =>
    next === undefined
      ? "<span></span>"
      : `<a rel="${rel}" href="${to(placeOf(next.path))}"><small>${label}</small>${escaped(next.title)}</a>`;
  const turns =
    at < 0
      ? ""
      : `<nav class="turns" aria-label="Next pages">${turn(order[at - 1], "prev", "Before")}${turn(order[at + 1], "next", "Next")}</nav>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(page.title === "insitu" ? "insitu: language models from JavaScript" : `${page.title} · insitu`)}</title>
<link rel="icon" href="${to("../icon.svg")}" type="image/svg+xml">
<link rel="stylesheet" href="${to("guide.css")}">
<script src="${to("guide.js")}" data-root="${to("index.html").replace("index.html", "") || "./"}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header class="top">
<button type="button" class="menu" aria-expanded="false" aria-controls="pages">Pages</button>
<a class="brand" href="${to("index.html")}">in<em>situ</em></a>
<div class="search" role="search"><input type="search" id="find" placeholder="Search" aria-label="Search the documentation" autocomplete="off" spellcheck="false"><div id="found" hidden></div></div>
<a class="try" href="${to("../index.html")}">Chat</a>
<button type="button" class="theme" aria-label="Light or dark">◐</button>
</header>
<div class="columns">
<nav id="pages" class="pages" aria-label="Pages">
${nav}
</nav>
<main id="content" tabindex="-1">
<article>
${page.html}
</article>
${turns}
</main>
${contents}
</div>
</body>
</html>
`;
}

/** Writes all pages into a folder; how many there are, and the bytes of the index. */
export function buildGuide(folder) {
  const groups = navigation();
  const { pages, pictures } = collect(groups);
  const write = (path, text) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const page of pages.values()) write(placeOf(page.path), framed(page, groups));
  for (const path of pictures) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(root, path), join(folder, path));
  }
  for (const name of ["guide.css", "guide.js"]) cpSync(join(root, "site/guide", name), join(folder, name));
  // A script and no data file: pages that are opened as files may not fetch.
  const index = [...pages.values()].map(({ path, title, sections }) => ({
    title,
    place: placeOf(path),
    isReference:
      path === "docs/api.md" || path === "docs/operators.md" || path.startsWith("examples") || !path.startsWith("docs"),
    sections: sections.map(({ id, heading, words }) => [id, heading, words]),
  }));
  const text = `window.guideIndex = ${JSON.stringify(index)};\n`;
  write("search-index.js", text);
  return { pages: [...pages.keys()], indexBytes: text.length, folder: relative(root, folder) };
}
