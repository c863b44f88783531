// Writes docs/api.md from the declarations that the build makes: every public name, its members and what their comments say.
//   node scripts/api-page.mjs
// TypeDoc asks for the JavaScript interface of TypeScript 6 or older, which TypeScript 7 does not have; Vite's parser reads declarations as well.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAst } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

/** The sections: their titles, the folders below dist/ that their names are declared in, names from other folders, and names that come first. */
const sections = [
  {
    title: "Text",
    rooms: ["heads", "dialogue", "generate", "embedding", "engine"],
    also: ["CausalLM"],
    first: ["CausalLM", "GenerateOptions", "Generation"],
  },
  { title: "Models by name", rooms: ["hub", "platform"], also: ["models"], first: ["models", "Models"] },
  {
    title: "Sessions, states and tensors",
    rooms: ["entry", "session", "tensor", "backends", "plan", "base"],
    first: ["InferenceSession", "SessionOptions", "Tensor", "State", "InsituError"],
  },
  { title: "Operators as functions", rooms: ["functions"] },
  {
    title: "Pages and eviction",
    rooms: ["cache", "eviction"],
    also: ["CacheType", "PageLayout", "PagesOptions"],
    first: ["PagedState"],
  },
  { title: "Rewriting", rooms: ["rewrite"], also: ["rewrite"], first: ["rewrite"] },
  { title: "AI SDK: insitu/ai", entry: "ai/provider.d.ts", rooms: ["ai"] },
  { title: "Serving: insitu/serve", entry: "serve/server.d.ts", rooms: ["serve"], first: ["createServer"] },
  {
    title: "Names that programs for onnxruntime use",
    rooms: [],
    also: "Env env listSupportedBackends registerBackend InferenceSessionFactory NonTensorType OnnxValue OnnxValueDataLocation TensorConstructor TensorFactory TRACE TRACE_EVENT_BEGIN TRACE_EVENT_END TRACE_FUNC_BEGIN TRACE_FUNC_END".split(
      " ",
    ),
  },
];

const files = new Map();

/** A declaration file: its text, its statements, the names it declares and those it takes from other files. */
function read(path) {
  const known = files.get(path);
  if (known !== undefined) return known;
  const text = readFileSync(path, "utf8");
  const file = { path, text, declared: new Map(), imported: new Map(), exported: new Map(), stars: [] };
  files.set(path, file);
  const target = ({ value }) =>
    /^(\.|#insitu\/)/.test(value)
      ? join(value.startsWith("#") ? dist : dirname(path), value.replace("#insitu/", "").replace(/\.js$/, ".d.ts"))
      : undefined;
  const nameOf = (node) => node.name ?? node.value;
  const declare = (node, start) => {
    const names =
      node.type === "VariableDeclaration" ? node.declarations.map(({ id }) => id.name) : [nameOf(node.id ?? {})];
    const said = commentBefore(text, start);
    for (const name of names) file.declared.set(name, [...(file.declared.get(name) ?? []), { node, ...said, file }]);
    return names;
  };
  for (const node of parseAst(text, { lang: "ts" }).body) {
    if (node.type === "ImportDeclaration")
      for (const { local, imported } of node.specifiers)
        file.imported.set(local.name, { from: target(node.source), name: imported && nameOf(imported) });
    else if (node.type === "ExportAllDeclaration") {
      if (node.exported === null) file.stars.push(target(node.source));
    } else if (node.type === "ExportNamedDeclaration") {
      if (node.declaration)
        for (const name of declare(node.declaration, node.start)) file.exported.set(name, { from: path, name });
      for (const { local, exported } of node.specifiers)
        file.exported.set(nameOf(exported), { from: node.source ? target(node.source) : path, name: nameOf(local) });
    } else if (node.id !== undefined || node.declarations !== undefined) declare(node, node.start);
  }
  return file;
}

/** Words on one line, but for the breaks between paragraphs. */
const flowing = (text) => text.trim().replace(/\n\n+/g, "\u0000").replace(/\s+/g, " ").replaceAll("\u0000", "\n\n");

/** The comment that ends right before a place: its words, and its tags by name. */
function commentBefore(text, start) {
  const before = text.slice(0, start).trimEnd();
  if (!before.endsWith("*/")) return { comment: "", tags: {} };
  const lines = before.slice(before.lastIndexOf("/**") + 3, -2).split("\n");
  const said = lines.map((line) => line.replace(/^\s*\*? ?/, "").trimEnd()).join("\n");
  const [words, ...tagged] = said.split(/^\s*@(?=(?:default|throws|example|deprecated)\b)/m);
  const tags = {};
  for (const each of tagged) {
    const [, name, rest] = /^(\w+)([^]*)$/.exec(each);
    tags[name] = name === "example" ? /```ts\n([^]*?)\n```/.exec(rest)[1] : flowing(rest);
  }
  return { comment: flowing(words), tags };
}

/** What tags say, behind a comment's words. */
const tagWords = ({ default: fallback, throws, deprecated }) =>
  [
    deprecated && ` **Deprecated.** ${deprecated}`,
    fallback &&
      ` **Default:** ${fallback.replace(/^(\[.*\]|\{.*\}|".*"|true|false|\d+)(?=$|[,;])/, (value) => (value.includes("`") ? value : `\`${value}\``))}${/[.)]$/.test(fallback) ? "" : "."}`,
    throws && ` **Throws** ${throws}`,
  ]
    .filter(Boolean)
    .join("");

/** The names that a file exports, each with its declarations. */
function exportsOf(path) {
  const { exported, stars } = read(path);
  const all = new Map();
  for (const star of stars) for (const [name, found] of exportsOf(star)) all.set(name, found);
  for (const [name, { from, name: local }] of exported) all.set(name, declarationsOf(from, local));
  return all;
}

/** The declarations of a name in a file, or in the file that it comes from. */
function declarationsOf(path, name) {
  const { declared, imported, exported, stars } = read(path);
  if (declared.has(name)) return declared.get(name);
  const via = imported.get(name) ?? exported.get(name);
  if (via?.from !== undefined && (via.from !== path || via.name !== name)) return declarationsOf(via.from, via.name);
  for (const star of stars) {
    const found = exportsOf(star).get(name);
    if (found !== undefined) return found;
  }
  return [];
}

/** Code on one line. What a session is made of is known by the name of the class that users have. */
const oneLine = (text) =>
  text
    .replace(/\/\*\*[^]*?\*\//g, "")
    .replace(/\s+/g, " ")
    .replace(/;$/, "")
    .replace(/\bSession\b/g, "InferenceSession")
    .trim();

/** What is for other rooms, and no part of what users rely on. */
const isInside = ({ comment, node }) =>
  /^For [a-z][\w -]*:/.test(comment) || node.accessibility === "private" || node.accessibility === "protected";

/** What a class or an interface extends, by name. */
const parentsOf = ({ superClass, extends: others = [] }) =>
  [superClass, ...others.map(({ expression }) => expression)].flatMap((parent) => parent?.name ?? []);

/** The members of a class or an interface, with those of what it extends where that is not public itself. */
function membersOf({ node, file }, publicNames) {
  const { text, path } = file;
  const own = node.body.body
    .filter(({ key }) => key?.type !== "PrivateIdentifier")
    .map((member) => ({
      node: member,
      name: member.key?.name ?? "",
      ...commentBefore(text, member.start),
      text: oneLine(text.slice(member.start, member.end)),
    }))
    .filter((member) => !isInside(member) && (member.name !== "constructor" || member.comment !== ""));
  const taken = new Set(own.map(({ name }) => name));
  const inherited = parentsOf(node)
    .filter((parent) => !publicNames.has(parent))
    .flatMap((parent) => declarationsOf(path, parent))
    .flatMap((parent) => membersOf(parent, publicNames))
    .filter(({ name }) => !taken.has(name));
  return [...own, ...inherited];
}

const kindOf = (node) =>
  ({
    ClassDeclaration: "class",
    TSInterfaceDeclaration: "interface",
    TSTypeAliasDeclaration: "type",
    TSDeclareFunction: "function",
    FunctionDeclaration: "function",
    VariableDeclaration: "const",
    TSModuleDeclaration: "namespace",
  })[node.type] ?? node.type;

/** Code between marks that it does not hold itself. */
const code = (text) => (text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``);

/** The lines about one name; `bare` gets the names without a comment, `told` every name with its members, words and tags. */
function describe(name, declarations, { publicNames, anchors, bare, told: all }) {
  const [{ node, comment, tags, file }] = declarations;
  if (comment === "") bare.push(name);
  const parents = parentsOf(node).filter((parent) => publicNames.has(parent));
  const beyond = parents.map((parent) => `[${parent}](#${anchors.get(parent)})`).join(" and ");
  const lines = [
    `### ${name}`,
    "",
    `*${kindOf(node)}${beyond && `, with all of ${beyond}`}*. ${comment}${tagWords(tags)}`.trimEnd(),
    "",
  ];
  const declared = declarations.filter(({ node: each }) => kindOf(each) !== "namespace");
  const shown = (each) =>
    code(oneLine(each.file.text.slice(each.node.start, each.node.end)).replace(/^declare (function )?/, ""));
  if (node.body?.body === undefined) {
    // A list of functions is shown as what each of them is.
    const listed = [...file.text.slice(node.start, node.end).matchAll(/^ {4}(?:readonly )?\w+: typeof (\w+);$/gm)];
    for (const [, local] of listed)
      for (const each of declarationsOf(file.path, local))
        lines.push(`- ${shown(each)}: ${each.comment}${tagWords(each.tags)}`);
    if (listed.length === 0) for (const each of declared) lines.push(`- ${shown(each)}`);
  }
  const members = [];
  all.push({ name, kind: kindOf(node), comment, tags, members });
  const told = new Set();
  const examples = [[name, tags.example]];
  for (const member of declared.flatMap((each) => (each.node.body?.body ? membersOf(each, publicNames) : []))) {
    // What follows a name of the same spelling is another way to call it.
    if (member.comment === "" && member.name !== "" && !told.has(member.name)) bare.push(`${name}.${member.name}`);
    told.add(member.name);
    members.push({
      name: member.name,
      comment: member.comment,
      tags: member.tags,
      text: member.text,
      isOptional: member.node.optional === true,
    });
    const words = member.comment.replaceAll("\n\n", " ") + tagWords(member.tags);
    lines.push(`- ${code(member.text)}${words && `: ${words.trim()}`}`);
    examples.push([`${name}.${member.name}`, member.tags.example]);
  }
  for (const [of, example] of examples)
    if (example) lines.push("", `Example: \`${of}\``, "", '```ts needs="files of its own"', example, "```");
  return [...lines, ""];
}

/** The whole page, the names that have no comment, and all names with what is said about them. */
export function apiPage() {
  const main = "index.node.d.ts";
  const placed = new Set(sections.flatMap(({ also = [] }) => also));
  const told = sections.map(({ title, entry = main, rooms, also = [], first = [] }) => {
    const all = exportsOf(join(dist, entry));
    const roomOf = ([found]) => relative(dist, found.file.path).split("/")[0];
    const isHere = (name, found) => also.includes(name) || (!placed.has(name) && rooms.includes(roomOf(found)));
    const here = [...all].filter(([name, found]) => found.length > 0 && isHere(name, found));
    const rank = (name) => (first.includes(name) ? first.indexOf(name) : first.length);
    here.sort(([a], [b]) => rank(a) - rank(b) || (a.toLowerCase() < b.toLowerCase() ? -1 : 1));
    return { title, here, publicNames: new Set(all.keys()) };
  });
  const names = told.flatMap(({ here }) => here.map(([name]) => name));
  const missing = [...exportsOf(join(dist, main)).keys()].filter((name) => name !== "default" && !names.includes(name));
  if (missing.length > 0) throw new Error(`scripts/api-page.mjs has no section for ${missing.join(", ")}`);
  // As GitHub names them: a second heading of the same letters has a number.
  const anchors = new Map();
  for (const name of names) {
    const before = [...anchors.keys()].filter((other) => other.toLowerCase() === name.toLowerCase()).length;
    anchors.set(name, name.toLowerCase() + (before === 0 ? "" : `-${before}`));
  }
  const bare = [];
  const all = [];
  const lines = [
    "# API reference",
    "",
    "Every public name, with its comment in the source. [The guides](README.md)",
    "show how things are used. `insitu/onnxruntime` has onnxruntime's names alone; `insitu/browser` is `insitu` in one file, for pages.",
    "",
    ...told.map(
      ({ title, here }) => `- **${title}**: ${here.map(([name]) => `[${name}](#${anchors.get(name)})`).join(", ")}`,
    ),
    "",
  ];
  for (const { title, here, publicNames } of told) {
    lines.push(`## ${title}`, "");
    for (const [name, found] of here) lines.push(...describe(name, found, { publicNames, anchors, bare, told: all }));
  }
  return { text: `${lines.join("\n").trimEnd()}\n`, bare, names: all };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { text, bare } = apiPage();
  writeFileSync(join(root, "docs/api.md"), text);
  if (bare.length > 0) console.log(`without a comment: ${bare.join(", ")}`);
}
