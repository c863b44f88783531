// `rewrite --check` leaves every window that it can: files that were made wrong by hand are caught, whatever the window; where a window
// cannot be left, it says so. The soak tries every way of being wrong with every window, the tests each way with one of them.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { readArguments } from "../../packages/cli/command.js";
import { rewrite } from "../../tools/cli/rewrite.js";
import type { CheckResult } from "../../tools/rewrite-check/check.js";
import { rewrite as rewriteBytes } from "../../src/entry/node.js";
import { attributes } from "../../src/onnx/build.js";
import type { Model, ModelNode } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { checkRewrite } from "./check.js";
import type { Style } from "./styles/style.js";
import { styledDecoder } from "./styles.js";
import { soak } from "../support/soak.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-check-"));
afterAll(() => rmSync(folder, { recursive: true }));

const sizes = { positions: 400, static: 160 };
const windowed = (window: number, more: Style = {}): Model => styledDecoder({ mask: "window", window, sizes, ...more });

/** Attention nodes changed in a rewritten file. */
function changed(bytes: Uint8Array, change: (node: ModelNode) => ModelNode): Uint8Array {
  const model = readModel(bytes);
  const nodes = model.graph.nodes.map((node) => (node.opType === "Attention" ? change(node) : node));
  expect(nodes.some((node, at) => node !== model.graph.nodes[at])).toBe(true);
  return writeModel({ ...model, graph: { ...model.graph, nodes } });
}

const withWindow =
  (window: number | undefined) =>
  (node: ModelNode): ModelNode => ({
    ...node,
    attributes: new Map([
      ...[...node.attributes].filter(([name]) => name !== "left_window_size"),
      ...(window === undefined ? [] : attributes({ left_window_size: window - 1 })),
    ]),
  });
const withoutMask = (node: ModelNode): ModelNode => ({
  ...node,
  inputs: node.inputs.map((name, at) => (at === 3 ? "" : name)),
});

const check = (model: Model, rewritten: Uint8Array, more: object = {}): Promise<CheckResult> =>
  checkRewrite({ model, original: writeModel(model), rewritten, capacity: undefined, ...more });

const windows = [4, 16, soak ? 100 : 40];

describe.each(windows)("a window of %i", (window) => {
  const all: readonly [string, Style][] = [
    ["a mask", {}],
    ["a mask, logits of the last token", { last: true }],
    ["a static cache", { growth: "scatter-nd", positions: "row" }],
    ["GroupQueryAttention", { growth: "gqa", mask: "none", rotary: true, positions: "none" }],
  ];
  // The others in the long form of the suite.
  const styles = soak ? all : [all[{ 4: 1, 16: 3 }[window] ?? 0]];
  test.each(styles)("%s: what is right passes, and was left", async (_, style) => {
    const model = windowed(window, style);
    for (const opset of [24, 25] as const) {
      const { model: rewritten } = await rewriteBytes(writeModel(model), { opset });
      const { passed, masks, steps } = await check(model, rewritten);
      expect(passed, JSON.stringify(steps)).toBe(true);
      expect(masks).toMatchObject([{ what: `window ${window}`, covered: true, needed: window + 1 }]);
      expect(masks[0].tokens).toBeGreaterThan(window + 7);
    }
  });

  test.each(styles)("%s: off by one, dropped, or without its mask, it is caught", async (_, style) => {
    const model = windowed(window, style);
    const right = (await rewriteBytes(writeModel(model), { opset: 25 })).model;
    const masked = (await rewriteBytes(writeModel(model), { opset: 24 })).model;
    const other = async (wrong: number): Promise<Uint8Array> =>
      (await rewriteBytes(writeModel(windowed(wrong, style)), { opset: 24 })).model;
    const wrong: Record<string, Uint8Array> = {
      "one more": changed(right, withWindow(window + 1)),
      "one fewer": changed(right, withWindow(window - 1)),
      dropped: changed(right, withWindow(undefined)),
      "a mask of one more": await other(window + 1),
      "a mask of one fewer": await other(window - 1),
      "the mask dropped": changed(masked, withoutMask),
    };
    const tried = Object.entries(wrong).filter((_, at) => soak || at % windows.length === windows.indexOf(window));
    for (const [what, bytes] of tried) {
      const { passed, steps } = await check(model, bytes);
      expect(passed, `${what}: ${JSON.stringify(steps)}`).toBe(false);
    }
  });
});

test("windows in one layer only, and one where there was none", async () => {
  const model = windowed(30);
  const right = (await rewriteBytes(writeModel(model), { opset: 25 })).model;
  let layer = 0;
  const one = changed(right, (node) => (layer++ === 1 ? withWindow(31)(node) : node));
  expect((await check(model, one)).passed).toBe(false);
  const plain = styledDecoder({ sizes });
  const plainBytes = (await rewriteBytes(writeModel(plain), { opset: 25 })).model;
  const { passed, masks } = await check(plain, changed(plainBytes, withWindow(50)));
  expect(masks).toMatchObject([{ what: "window 50", covered: true }]);
  expect(passed).toBe(false);
});

test("chunks: the distances that a mask holds are gone past", async () => {
  const model = styledDecoder({ mask: "chunk", window: 24, sizes });
  const wrong = styledDecoder({ mask: "chunk", window: 25, sizes });
  const right = await check(model, (await rewriteBytes(writeModel(model))).model);
  expect(right.passed).toBe(true);
  expect(right.masks).toMatchObject([{ covered: true }]);
  expect(right.masks[0].tokens).toBeGreaterThan(25);
  expect((await check(model, (await rewriteBytes(writeModel(wrong))).model)).passed).toBe(false);
});

describe("what cannot be covered is said", () => {
  test("a capacity that is smaller, and positions that end before", async () => {
    const model = windowed(100);
    const { model: rewritten } = await rewriteBytes(writeModel(model), { capacity: 40 });
    const { passed, masks } = await check(model, rewritten, { capacity: 40 });
    expect(passed).toBe(true);
    expect(masks).toEqual([
      { what: "window 100", covered: false, tokens: 37, needed: 101, reason: "the caches hold 40 rows" },
    ]);
    const short = windowed(100, { sizes: { positions: 60 } });
    const found = await check(short, (await rewriteBytes(writeModel(short))).model);
    expect(found.passed).toBe(true);
    expect(found.masks).toMatchObject([
      {
        covered: false,
        needed: 101,
        reason: expect.stringMatching(/^the original takes no more than \d+ tokens: /) as string,
      },
    ]);
  });

  test("a time that is over", async () => {
    const model = windowed(60);
    const { model: rewritten } = await rewriteBytes(writeModel(model));
    const heard: number[] = [];
    const onProgress = (done: number, total: number): void => void heard.push(done, total);
    const { masks } = await check(model, rewritten, { seconds: 0, onProgress });
    expect(masks).toMatchObject([
      { what: "window 60", covered: false, reason: "its 0 seconds were over after 0 tokens" },
    ]);
    await check(model, rewritten, { onProgress });
    expect(heard).toContain(75);
  });

  test("on the command line", async () => {
    const path = join(folder, "windowed.onnx");
    writeFileSync(path, writeModel(windowed(60)));
    const lines: string[] = [];
    const log = vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
    try {
      for (const more of [[], ["--capacity", "40"], ["--check-seconds", "0"]])
        expect(
          await rewrite.run(readArguments(rewrite, [path, "-o", join(folder, "out.onnx"), "--check", ...more])),
        ).toBe(0);
    } finally {
      log.mockRestore();
    }
    const text = lines.join("\n");
    expect(text).toMatch(/prefill of 75 +\d/);
    expect(text).toMatch(/window 60: left behind by a text of 75 tokens/);
    expect(text).toMatch(/window 60: NOT checked from outside, which takes 61 tokens: the caches hold 40 rows/);
    expect(text).toMatch(/window 60: NOT checked from outside, .*: its 0 seconds were over after 0 tokens/);
  });
});
