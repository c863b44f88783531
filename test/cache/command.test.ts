// `insitu pages` and `insitu generate --cache paged`, as users call them.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { BlockPool } from "../../src/cache/block-pool.js";
import { poolSvg } from "../../tools/cli/pages-svg.js";
import { poolText } from "../../tools/cli/pages-text.js";
import { viewPool } from "../../tools/cli/pages-view.js";
import { builtCommand } from "../support/built.js";
import { insituHere } from "../support/command-line.js";

const insitu = (...args: string[]): string =>
  execFileSync(process.execPath, [builtCommand, ...args], { encoding: "utf8" });
const printed = async (...args: string[]): Promise<string> => (await insituHere(args)).stdout;
const refused = async (...args: string[]): Promise<string> => (await insituHere(args)).stderr.trim();

interface Pool {
  readonly statistics: { readonly used: number; readonly shared: number; readonly kept: number; readonly free: number };
  readonly texts: readonly { readonly name: string; readonly rows: number; readonly table: readonly number[] }[];
  readonly apart: number;
}

describe("insitu pages", () => {
  test("draws a real pool: text and SVG", () => {
    const folder = mkdtempSync(join(tmpdir(), "insitu-pages-"));
    const file = join(folder, "pool.svg");
    const text = insitu("pages", "--max-tokens", "6", "--svg", file);
    expect(text).toMatch(/48 blocks of 16 rows: \d+ used \(4 of them shared\), 2 kept for what they hold, \d+ free/);
    expect(text).toMatch(/used by kept {2}kept {2}ABCD {2}ABCD {2}ABCD/);
    expect(text).toMatch(/3 shared with B, C, D/);
    const svg = readFileSync(file, "utf8");
    expect(svg).toMatch(/^<svg .*<\/svg>\n$/s);
    expect(svg.match(/<rect/g)!.length).toBeGreaterThan(48);
    rmSync(folder, { recursive: true });
  });

  test("JSON: prompts with a common beginning hold it once", async () => {
    const common =
      "There was once a poor miller who had a beautiful daughter, and he went to the king and said that ".repeat(2);
    const json = await printed(
      "pages",
      `${common}she`,
      `${common}he`,
      "--max-tokens",
      "3",
      "--forks",
      "1",
      "--block-size",
      "8",
      "--json",
    );
    const { statistics, texts, apart } = JSON.parse(json) as Pool;
    expect(texts.map(({ name }) => name)).toEqual(["text 1", "text 2"]);
    expect(statistics.shared).toBeGreaterThan(3);
    expect(apart - statistics.used).toBe(statistics.shared);
    expect(texts[1].table.slice(0, statistics.shared)).toEqual(texts[0].table.slice(0, statistics.shared));
  });

  test("refuses what it cannot do in one sentence", async () => {
    expect(await refused("pages", "--blocks", "2")).toMatch(
      /^insitu: the pool of 2 blocks of 16 rows is full: .* are left; .*larger \(http.*#out-of-memory\)$/,
    );
    expect(await refused("pages", "--forks", "0")).toBe("insitu: --forks must be a whole number from 1 on, got 0");
    expect(await refused("pages", "--cache-type", "int4", "x")).toMatch(/--cache-type must be one of same, int8/);
  });
});

test("insitu generate --cache paged says what it says without", async () => {
  const args = ["generate", "The wolf", "--temperature", "0", "--max-tokens", "24", "--json"];
  const tell = async (...more: string[]): Promise<{ tokens: number[]; stateBytes: number }> =>
    JSON.parse(await printed(...args, ...more)) as { tokens: number[]; stateBytes: number };
  const [linear, paged] = [await tell(), await tell("--cache", "paged")];
  expect(paged.tokens).toEqual(linear.tokens);
  // Two blocks of 16 rows in place of a whole context.
  expect(paged.stateBytes).toBe((linear.stateBytes / 512) * 32);
  expect(await refused("generate", "x", "--cache-type", "int8")).toBe(
    "insitu: --cache-type is for pages: ask for --cache paged",
  );
});

test("pictures of any pool: empty, full, with many owners and odd texts", () => {
  const pool = new BlockPool({ blocks: 6, blockSize: 4 });
  const draw = (): string[] => {
    const view = viewPool(pool, 1024, (name) => `"${name}" <&> \u0007`);
    return [poolText(view, 60), poolSvg(view, "odd <title>")];
  };
  expect(draw()[0]).toContain("6 blocks of 4 rows: 0 used");
  const one = pool.add("one");
  one.append(Array.from({ length: 22 }, (_, at) => at));
  for (let fork = 0; fork < 30; fork++) one.fork();
  const [text, svg] = draw();
  expect(text).toContain("A+30");
  expect(text).toContain("AE  ");
  expect(svg).not.toContain("\u0007");
  expect(svg).toContain("odd &lt;title&gt;");
});
