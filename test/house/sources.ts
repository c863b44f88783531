// The files of the house as a parser sees them: what each imports and exports, and, where a rule asks for it, its syntax tree.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { sourceOf } from "../../scripts/rooms.mjs";
import { type ESTree, parseSync, Visitor, type VisitorObject } from "vite";

export const root: string = fileURLToPath(new URL("../..", import.meta.url));

/** A name of another file: "*" where all of its names may be meant. */
export interface Use {
  /** The file, from the root; `dist/` stands for `src/`, or for `packages/`, `dist/tools/` for `tools/`, and `#insitu/` for a room. */
  readonly file: string;
  readonly name: string;
}

/** A file of the house. */
export class Source {
  /** From the root. */
  readonly path: string;
  readonly text: string;
  readonly #parsed: ReturnType<typeof parseSync>;

  /** The file at a path from the root, with the text that it has there unless another is given. */
  constructor(path: string, text: string = readFileSync(join(root, path), "utf8")) {
    this.path = path;
    this.text = text;
    this.#parsed = parseSync(path, text, { preserveParens: false });
    if (this.#parsed.errors.length > 0) throw new Error(`${path}: ${this.#parsed.errors[0].message}`);
  }

  /** The room of a file in src/ or packages/; undefined for the entry points, and for files elsewhere. */
  get room(): string | undefined {
    const parts = this.path.split("/");
    return ["src", "packages"].includes(parts[0]) && parts.length > 2 ? parts[1] : undefined;
  }

  /** The names that it exports. */
  get exported(): string[] {
    const { staticExports } = this.#parsed.module;
    return staticExports.flatMap(({ entries }) =>
      entries.flatMap(({ exportName: { kind, name } }) => (kind === "Name" ? [name!] : [])),
    );
  }

  /** What it takes from other files of the house: by import, re-export, import when needed, or the URL of a worker. */
  get uses(): Use[] {
    const { module } = this.#parsed;
    const found: Use[] = [];
    const add = (specifier: string, name: string): void => {
      if (!/^(\.|#insitu\/)/.test(specifier)) return;
      const file = specifier.startsWith("#")
        ? sourceOf(specifier)
        : relative(root, join(root, dirname(this.path), specifier));
      const source = file
        .replace(/^dist\/tools\//, "tools/")
        .replace(/^dist\/(\w.*\/.*)$/, (_, path: string) => sourceOf(path));
      found.push({ file: source.replace(/\.js$/, ".ts"), name });
    };
    for (const { moduleRequest, entries } of module.staticImports) {
      if (entries.length === 0) add(moduleRequest.value, "*");
      for (const { importName } of entries) add(moduleRequest.value, importName.name ?? "*");
    }
    for (const { entries } of module.staticExports)
      for (const { moduleRequest, importName } of entries)
        if (moduleRequest) add(moduleRequest.value, importName.name ?? "*");
    for (const { start, moduleRequest } of module.dynamicImports) {
      const specifier = this.text.slice(moduleRequest.start + 1, moduleRequest.end - 1);
      const names = /\{([^{}]*)\}\s*=\s*await\s*$/.exec(this.text.slice(0, start))?.[1] ?? "*";
      for (const name of names.split(",")) add(specifier, name.split(":")[0].trim());
    }
    for (const [, specifier, name] of this.text.matchAll(/\bimport\("([^"]+)"\)\.(\w+)/g)) add(specifier, name);
    for (const [, specifier] of this.text.matchAll(/\bnew URL\(\s*["']([^"']+)["']/g)) add(specifier, "*");
    return found;
  }

  /** Walks its syntax tree. */
  visit(visitor: VisitorObject): void {
    new Visitor(visitor).visit(this.#parsed.program);
  }

  /** `src/plan/plan.ts:12` */
  at({ start }: ESTree.Node | ESTree.Span): string {
    return `${this.path}:${this.text.slice(0, start).split("\n").length}`;
  }
}

/** Every file with code below a folder, generated ones among them. */
export function sourcesBelow(folder: string): Source[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return entry.name === "node_modules" ? [] : sourcesBelow(path);
    return /\.(ts|mjs|js)$/.test(entry.name) ? [new Source(path)] : [];
  });
}

/** True for files that the build writes. */
export const isGenerated = ({ path }: Source): boolean => /_pb\.ts$|\.gen\.ts$/.test(path);
