// Links between the project's pages lead somewhere: files are there, and headings are spelled as GitHub names them.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const pagesIn = (folder: string): string[] =>
  readdirSync(join(root, folder)).flatMap((name) => (name.endsWith(".md") ? [join(folder, name)] : []));
const pages = [
  ...[".", "docs", "docs/studies", "tools/bench", "examples/kubernetes"].flatMap(pagesIn),
  "models/embedded/README.md",
];

/** The anchors of a page's headings. */
function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading] of text.replace(/^```[^]*?^```$/gm, "").matchAll(/^#+ (.+)$/gm)) {
    const slug = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-");
    let name = slug;
    for (let count = 1; anchors.has(name); count++) name = `${slug}-${count}`;
    anchors.add(name);
  }
  return anchors;
}

const textOf = (path: string): string => readFileSync(join(root, path), "utf8");

test("every link leads to a file, and to a heading where it names one", () => {
  const broken: string[] = [];
  for (const page of pages) {
    const text = textOf(page).replace(/^```[^]*?^```$/gm, "");
    for (const [, link] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      const [path, anchor] = link.split("#");
      const target = path === "" ? page : join(dirname(page), path);
      if (!existsSync(join(root, target))) broken.push(`${page}: ${link}`);
      else if (anchor !== undefined && statSync(join(root, target)).isFile() && !anchorsOf(textOf(target)).has(anchor))
        broken.push(`${page}: ${link}`);
    }
  }
  expect(broken).toEqual([]);
});

test("every page of docs/ is in the index", () => {
  const index = textOf("docs/README.md");
  for (const page of [...pagesIn("docs"), ...pagesIn("docs/studies")])
    if (page !== "docs/README.md") expect(index).toContain(`(${page.slice("docs/".length)})`);
});
