// The code blocks of the project's pages, and what each of them needs to run beside the package itself.
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Block {
  /** The page's name without its ending: "README", "generate". */
  readonly page: string;
  /** Where it begins in the page. */
  readonly line: number;
  readonly language: string;
  readonly code: string;
  /** What it needs to run: told by its fence, ```ts needs="a GPU", or by its first line, which names a bundler's file. */
  readonly needs: string | undefined;
}

/** Pages whose blocks are checked elsewhere: CONTRIBUTING.md's are parts of files. */
const pages = [
  "README.md",
  ...["docs", "docs/studies"].flatMap((folder) =>
    readdirSync(join(root, folder)).flatMap((name) => (name.endsWith(".md") ? [`${folder}/${name}`] : [])),
  ),
];

const bundlers: Readonly<Record<string, string>> = { "// vite.config.js": "Vite", "// build.mjs": "esbuild" };

function blocksOf(path: string): Block[] {
  const text = readFileSync(join(root, path), "utf8");
  return [...text.matchAll(/^```(\w*)(?: needs="([^"\n]+)")?\n([^]*?)^```$/gm)].map((match) => {
    const [, language, needs, code] = match;
    const bundler = bundlers[code.split("\n", 1)[0]];
    const transformers = /from "@huggingface\/transformers"|import\("@huggingface/.test(code);
    return {
      page: basename(path, ".md"),
      line: text.slice(0, match.index).split("\n").length,
      language,
      code,
      needs: needs ?? bundler ?? (transformers ? "transformers.js" : undefined),
    };
  });
}

export const blocks: readonly Block[] = pages.flatMap(blocksOf);

/** The languages of a page's blocks that are no program. */
/** A component in JSX is the example that test/examples runs. */
export const notPrograms: readonly string[] = ["", "http", "jsx", "tsx"];
