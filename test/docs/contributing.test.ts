// The code of CONTRIBUTING.md is the code of the files it names, shortened: every line stands there, in this order.
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const page = read("CONTRIBUTING.md");
const blocks = [...page.matchAll(/```ts\n\/\/ (\S+)\n([^]*?)```/g)].map(([, path, code]) => ({ path, code }));

test("what is shown of a file stands in it", () => {
  const files = [
    "src/ops/trilu/op.ts",
    "tools/cases/trilu.ts",
    "src/ops/trilu/wasm.ts",
    "kernels/pick.ts",
    "src/ops/cumulative/webgpu.ts",
  ];
  expect(blocks.map(({ path }) => path)).toEqual(files);
  for (const { path, code } of blocks) {
    const lines = read(path).split("\n");
    let from = 0;
    for (const line of code.trimEnd().split("\n")) {
      const at = lines.indexOf(line, from);
      expect(at, `${path} has no line after the ${from}. that says: ${line}`).toBeGreaterThanOrEqual(from);
      from = at + 1;
    }
  }
});

test("files that are named are there", () => {
  const named = [...page.matchAll(/`((?:src|test|scripts)\/[\w/.-]+\.\w+)`/g)].map(([, path]) => path);
  expect(named.length).toBeGreaterThan(2);
  expect(
    named.filter((path) => !path.endsWith(".gen.ts") && !existsSync(new URL(`../../${path}`, import.meta.url))),
  ).toEqual([]);
});
