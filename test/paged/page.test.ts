// docs/studies/scatter-pa-kv-cache.md: its code runs, its pictures are as drawn, and the operator puts every piece where they show it.
import { readdirSync, readFileSync } from "node:fs";
import { compileFunction } from "node:vm";
import { expect, test } from "vitest";
import { addressOf, pictures, sizes, slots } from "../../scripts/paged-pictures.mjs";
import * as paged from "../../packages/functions/paged.js";
import { operators } from "../../src/ops/index.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { indices } from "./bits.js";

const docs = new URL("../../docs/", import.meta.url);
const page = readFileSync(new URL("studies/scatter-pa-kv-cache.md", docs), "utf8");

test("the pictures are up to date, and the page shows each of them", () => {
  const drawn: Record<string, string> = pictures();
  for (const [name, svg] of Object.entries(drawn)) {
    const committed = readFileSync(new URL(`img/${name}`, docs), "utf8");
    expect(committed === svg, `docs/img/${name}: run node scripts/paged-pictures.mjs`).toBe(true);
    expect(page).toContain(`(../img/${name})`);
  }
  const files = readdirSync(new URL("img/", docs)).filter((name) => name.startsWith("paged-"));
  expect(files.sort()).toEqual(Object.keys(drawn).sort());
});

test("the operator puts the pieces where the pictures show them", () => {
  const { blocks, blockSize, heads, pieces } = sizes;
  const piece = 16; // float16 in 32 bytes
  const size = pieces * piece;
  const key = new Tensor(
    "float16",
    Uint16Array.from({ length: slots.length * heads * size }, (_, i) => 1 + Math.floor(i / piece)), // its number, in each piece
    [slots.length, heads, size],
  );
  const shapes = {
    Norm: [blocks, blockSize, heads, size],
    NHSD: [blocks, heads, blockSize, size],
    PA_NZ: [blocks, heads * pieces, blockSize, piece],
  };
  for (const layout of ["Norm", "NHSD", "PA_NZ"] as const) {
    const empty = new Tensor("float16", new Uint16Array(blocks * blockSize * heads * size), shapes[layout]);
    const { keyCache } = paged.scatterPaKvCache(
      { key, value: key, keyCache: empty, valueCache: empty, slotMapping: indices("int32", [slots.length], slots) },
      { cacheMode: layout === "PA_NZ" ? "PA_NZ" : "Norm", scatterMode: layout === "NHSD" ? "NHSD" : "None" },
    );
    const expected = new Uint16Array(empty.size);
    slots.forEach((slot, token) => {
      for (let head = 0; head < heads; head++)
        for (let at = 0; at < pieces; at++)
          expected.fill(
            1 + (token * heads + head) * pieces + at,
            addressOf(layout, slot, head, at) * piece,
            (addressOf(layout, slot, head, at) + 1) * piece,
          );
    });
    expect(keyCache.data, layout).toEqual(expected);
  }
});

test("the code of the page runs", () => {
  const [, code] = /```ts\n([\s\S]*?)```/.exec(page)!;
  const body = `${code.replace(/^import .*$/m, "")}\nreturn { key, value, keyCache, slotMapping };`;
  const run = compileFunction(body, ["ops", "Tensor"]) as (
    ops: typeof paged,
    tensor: typeof Tensor,
  ) => Record<string, Tensor>;
  const { key, value, keyCache, slotMapping } = run(paged, Tensor);
  expect([key.dims, value.dims]).toEqual([
    [9, 2, 16],
    [9, 2, 16],
  ]);
  expect([...(slotMapping.data as Int32Array)]).toEqual([1, 26]);
  expect((keyCache.data as Uint16Array).filter((bits) => bits === 0x3c00).length).toBe(64);
});

test("the page names every operand, attribute and type of the declarations", () => {
  for (const name of ["ScatterPaKvCache", "GatherPaKvCache"]) {
    const op = operators.find("insitu", name, 1)!;
    for (const word of [...Object.keys(op.inputs), ...Object.keys(op.outputs), ...Object.keys(op.attrs)])
      expect(page, `${name}: ${word}`).toContain(`\`${word}\``);
    for (const type of op.types["K"]) expect(page).toMatch(new RegExp(`\\b${type}\\b`));
  }
});
