// The words of the guides: terms that people search for stand where they look for them, old habits do not come back, the guides stay short and read
// easily.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { readingEase, wordsOf } from "./reading.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const textOf = (path: string): string => readFileSync(join(root, path), "utf8");
const pagesIn = (folder: string): string[] =>
  readdirSync(join(root, folder)).flatMap((name) => (name.endsWith(".md") ? [`${folder}/${name}`] : []));

/** Pages that programs write, of names and figures. */
const generated = ["docs/api.md", "docs/operators.md", "docs/models.md"];
const guides = pagesIn("docs").filter((page) => !generated.includes(page));

/** Terms, and the pages they must stand on: README is the project's, the others are in docs/. */
const terms: readonly (readonly [term: string, ...pages: string[]])[] = [
  ["streaming", "README", "docs/README", "getting-started", "chat-and-streaming", "serve", "faq", "glossary"],
  ["structured output", "README", "docs/README", "structured-output", "chat-and-streaming", "serve", "faq", "glossary"],
  ["function calling", "docs/README", "structured-output", "recipes", "glossary"],
  ["tool call", "README", "structured-output", "serve", "glossary"],
  ["continuous batching", "README", "docs/README", "serve", "pages", "faq", "glossary"],
  ["prefix cache", "README", "docs/README", "serve", "pages", "scale", "faq", "glossary"],
  ["prefix caching", "glossary"],
  ["speculative decoding", "README", "chat-and-streaming", "glossary"],
  ["context window", "chat-and-streaming", "troubleshooting", "glossary"],
  ["KV cache", "README", "in-place", "onnxruntime", "webgpu", "faq", "glossary"],
  ["prefill", "sessions", "serve", "rewrite", "glossary"],
  ["quantization", "choosing-a-model", "glossary"],
  ["tutorial", "docs/README", "getting-started"],
  ["FAQ", "README", "docs/README"],
  ["frequently asked questions", "docs/README", "faq"],
  ["troubleshooting", "README", "docs/README", "troubleshooting", "faq"],
  ["migrate", "coming-from"],
  ["coming from", "README", "docs/README", "coming-from"],
  ["transformers.js", "README", "docs/README", "coming-from", "onnxruntime"],
  ["Ollama", "docs/README", "coming-from", "serve"],
  ["GGUF", "faq", "coming-from"],
  ["offline", "README", "docs/README", "getting-started", "browsers", "faq"],
  ["React", "README", "docs/README", "getting-started", "browsers", "recipes"],
  ["Next.js", "README", "docs/README", "browsers", "recipes"],
  ["Vite", "README", "docs/README", "getting-started", "browsers"],
  ["Docker", "recipes", "faq"],
  ["Kubernetes", "docs/README", "scale"],
  ["OpenAI", "README", "docs/README", "serve", "getting-started"],
  ["AI SDK", "serve", "structured-output", "faq"],
  ["LangChain", "serve", "faq"],
  ["JSON Schema", "docs/README", "structured-output", "glossary"],
  ["zod", "README", "structured-output", "recipes"],
  ["embeddings", "docs/README", "embeddings", "serve"],
  ["rerank", "embeddings", "serve"],
  ["PagedAttention", "docs/README", "pages", "paged-operators"],
  ["beam search", "README", "chat-and-streaming"],
  ["qwen3-0.6b", "README", "choosing-a-model", "getting-started"],
];

const pathOf = (page: string): string => (page === "README" ? "README.md" : `docs/${page.replace(/^docs\//, "")}.md`);

test.each(terms)("%s stands where people look for it", (term, ...pages) => {
  const missing = pages.filter((page) => !textOf(pathOf(page)).toLowerCase().includes(term.toLowerCase()));
  expect(missing, `pages without "${term}"`).toEqual([]);
});

const habits = ["tells of", "stands in the way", "where it is left out", "where left out", "may not ask", "nobody"];

test("habits that were dropped stay away", () => {
  const found = ["README.md", ...guides, ...pagesIn("docs/studies")].flatMap((page) =>
    textOf(page)
      .split("\n")
      .flatMap((line, at) =>
        habits.flatMap((habit) =>
          new RegExp(String.raw`\b${habit}\b`, "i").test(line) ? [`${page}:${at + 1}: ${habit}`] : [],
        ),
      ),
  );
  expect(found).toEqual([]);
});

/** Files of what programs print, without their comments. */
const printedBy = ["src", "packages", "site/src", "tools/cli", "tools/pictures"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).flatMap((name) =>
    /\.tsx?$/.test(name) && !/(^|\/)node_modules\//.test(name) ? [join(folder, name)] : [],
  ),
);
const withoutComments = (code: string): string =>
  code.replace(/\/\*[^]*?\*\//g, (comment) => comment.replace(/[^\n]/g, "")).replace(/(^|\s)\/\/.*$/gm, "");

test("nor do they in messages, in the command line's help and on the page", () => {
  expect(printedBy.length).toBeGreaterThan(500);
  const said = new RegExp(String.raw`["'\`>][^"'\`]*\b(?:${habits.join("|")})\b`, "i");
  const found = printedBy.flatMap((path) =>
    withoutComments(textOf(path))
      .split("\n")
      .flatMap((line, at) => (said.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});

describe("reading ease", () => {
  test.each(["README.md", ...guides])("%s is easy enough to read: Flesch, 50 or more", (page) => {
    expect(readingEase(textOf(page))).toBeGreaterThanOrEqual(50);
  });

  test("it is Flesch's", () => {
    // 37.5 with 24 syllables, of which programs count some more; and 116, the most that a sentence of six words has.
    const hard = "The Australian platypus is seemingly a hybrid of a mammal and reptilian creature.";
    expect(readingEase(hard)).toBeLessThan(40);
    expect(readingEase("The cat sat on the mat.")).toBeCloseTo(116, 0);
  });
});

/** Words of docs/ besides the generated pages and tables. */
const mostWords = 25_000;

test("the guides stay short", () => {
  const counted = [...guides, ...pagesIn("docs/studies")].map((page) => [page, wordsOf(textOf(page))] as const);
  // Of the catalogue's page the tables are generated, and the sentences are not.
  counted.push(["docs/models.md", wordsOf(textOf("docs/models.md").replace(/^\|.*$/gm, ""))]);
  const total = counted.reduce((sum, [, words]) => sum + words, 0);
  const longest = counted.toSorted((a, b) => b[1] - a[1]).slice(0, 6);
  expect(total, `words in docs; the longest pages: ${longest.join("; ")}`).toBeLessThanOrEqual(mostWords);
});
