// The rules of the rooms, on the house as it is, and on files that break them.
import { describe, expect, test } from "vitest";
import { folderOf, rooms } from "../../scripts/rooms.mjs";
import { backends } from "../../src/entry/backends.js";
import { operators } from "../../src/ops/index.js";
import {
  attributeNames,
  backendNames,
  decodeLoops,
  doubleCasts,
  operatorNames,
  roomProblems,
  type Rooms,
  toolImports,
  unusedExports,
} from "./rules.js";
import { Source, sourcesBelow } from "./sources.js";

const apart = Object.keys(rooms).filter((room) => folderOf(room).startsWith("packages/"));
const sources = [...sourcesBelow("src"), ...apart.flatMap((room) => sourcesBelow(folderOf(room)))];
const tools = sourcesBelow("tools");
const others = ["test", "scripts", "examples", "training"].flatMap(sourcesBelow);
const lists: Rooms = rooms;
const ops = new Set(operators.all.map(({ name }) => name));
const devices = new Set([...backends.map(({ name }) => name), "webgpu"]);

describe("the house", () => {
  test("a room imports only what it lists, and lists nothing else", () => {
    expect(roomProblems(sources, lists)).toEqual([]);
  });

  test("the library takes nothing from tools/", () => {
    expect(tools.length).toBeGreaterThan(200);
    expect(toolImports(sources)).toEqual([]);
  });

  test("a room lists only rooms before it", () => {
    const order = Object.keys(lists);
    order.forEach((room, at) => {
      expect([room, lists[room].imports.filter((each) => order.indexOf(each) >= at)]).toEqual([room, []]);
    });
  });

  test("shared code never asks which operator it is", () => {
    expect(ops.size).toBeGreaterThan(100);
    expect(operatorNames(sources, ops)).toEqual([]);
  });

  test("shared code asks operators for what they declare, not for attributes by name", () => {
    expect(attributeNames(sources)).toEqual([]);
  });

  test("shared rooms name no backend", () => {
    expect(backendNames(sources, devices)).toEqual([]);
  });

  test("one loop drives decoders", () => {
    expect(decodeLoops(sources)).toEqual([]);
  });

  test("no type is claimed by way of unknown", () => {
    expect(doubleCasts([...sources, ...tools, ...others])).toEqual([]);
  });

  test("what is exported is imported somewhere", () => {
    expect(unusedExports([...sources, ...tools], others)).toEqual([]);
  });
});

describe("the rules bite", () => {
  const file = (path: string, text: string): Source => new Source(path, text);

  test("an import that a list reaches only through another room", () => {
    const two: Rooms = { base: { imports: [] }, tensor: { imports: ["base"] }, onnx: { imports: ["tensor"] } };
    const files = [
      file("src/tensor/a.ts", 'import { x } from "../base/b.js";'),
      file("src/onnx/c.ts", 'import type { y } from "../tensor/a.js"; export * from "../base/b.js";'),
      file("src/onnx/d.ts", 'const { x } = await import("../base/b.js");'),
      file("src/onnx/e.ts", 'new Worker(new URL("../base/worker.js", import.meta.url));'),
    ];
    expect(roomProblems(files, two)).toEqual([
      "src/onnx/c.ts imports src/base/b.ts",
      "src/onnx/d.ts imports src/base/b.ts",
      "src/onnx/e.ts imports src/base/worker.ts",
    ]);
    expect(roomProblems(files.slice(1, 2), two)).toContain("tensor lists base");
  });

  test("a tool that the library imports, as a type, when needed, or as a worker", () => {
    expect(
      toolImports([
        file("src/session/a.ts", 'import type { Case } from "../../tools/conformance/case.js";'),
        file("packages/cli/b.ts", 'const { bench } = await import("../../tools/cli/bench.js");'),
        file("packages/cli/c.ts", 'new Worker(new URL("../../dist/tools/bench/d.js", import.meta.url));'),
      ]),
    ).toHaveLength(3);
  });

  test.each([
    'if (node.op.name === "TensorScatter") {}',
    'switch (name) { case "Attention": }',
    'const cached = ["Concat", "Pad"].includes(name);',
    'const kinds = new Map([["Concat", 1]]);',
    'const kinds = { "Concat": 1 };',
    "if (name === `Concat`) {}",
  ])("an operator by name: %s", (text) => {
    expect(operatorNames([file("src/session/a.ts", text)], ops).length).toBeGreaterThan(0);
    expect(operatorNames([file("src/passes/a.ts", text)], ops)).toEqual([]);
  });

  test("making a node is no question", () => {
    expect(operatorNames([file("src/graph/a.ts", 'const made = { opType: "Identity" };')], ops)).toEqual([]);
    expect(operatorNames([file("src/cache/a.ts", 'const edit = { operator: "RepackCache" };')], ops)).toEqual([]);
    expect(operatorNames([file("src/graph/a.ts", 'const is = opType === "Identity";')], ops)).toHaveLength(1);
  });

  test.each([
    'const backend = "wasm";',
    'import { WasmEngine } from "../backends/wasm/engine.js";',
    "platform.allowRelaxedSimd();",
    "interface Settings { readonly wasmMemory: number }",
  ])("a backend by name: %s", (text) => {
    expect(backendNames([file("src/session/a.ts", text)], devices).length).toBeGreaterThan(0);
    expect(backendNames([file("src/entry/a.ts", text)], devices)).toEqual([]);
  });

  test("a backend in a comment is none", () => {
    expect(backendNames([file("src/session/a.ts", '/** "wasm" is one. */\nexport {};')], devices)).toEqual([]);
  });

  test("an attribute by name; one that a declaration names is fine", () => {
    const asks = (text: string): string[] => attributeNames([file("src/session/a.ts", text)]);
    expect(asks('node.attrs["mode"] === "circular"')).toEqual(["src/session/a.ts:1"]);
    expect(asks("attrs.mode")).toHaveLength(1);
    expect(asks("node.attrs[op.appends.along]")).toEqual([]);
  });

  test("a second loop; what only names a type of drawing is none", () => {
    const drives = (path: string, text: string): number => decodeLoops([file(path, text)]).length;
    expect(drives("src/generate/a.ts", 'import { Decoder } from "../decoder/decoder.js";')).toBe(1);
    expect(drives("packages/serve/a.ts", 'import type { TokenDrawer } from "#insitu/decoder/token-drawer.js";')).toBe(
      1,
    );
    expect(drives("src/engine/a.ts", "await this.layout.begin(step, 1);")).toBe(1);
    expect(drives("src/generate/a.ts", 'import type { OneDrawing } from "../decoder/token-drawer.js";')).toBe(0);
    expect(drives("src/engine/a.ts", 'import { Decoder } from "../decoder/decoder.js";')).toBe(0);
  });

  test("a cast by way of unknown, in parentheses too; unknown alone is honest", () => {
    const text = "const x = y as unknown as number;\nconst z = (y as\n unknown) as string;\nconst w = y as unknown;";
    expect(doubleCasts([file("src/a.ts", text)])).toEqual(["src/a.ts:1", "src/a.ts:2"]);
  });

  test("an export that nobody imports; a type, a re-export and one that is imported when needed are seen", () => {
    const files = [
      file("src/base/a.ts", "export const a = 1;\nexport interface B {}\nexport function c() {}\nexport const d = 2;"),
      file("src/base/e.ts", 'export { a } from "./a.js";\nconst { c: other } = await import("./a.js");'),
    ];
    const users = [file("test/x.ts", 'import type { B } from "../src/base/a.js";')];
    expect(unusedExports(files, users)).toEqual(["src/base/a.ts exports d", "src/base/e.ts exports a"]);
    expect(
      unusedExports(files, [...users, file("scripts/y.mjs", 'import * as all from "../dist/base/a.js";')]),
    ).toEqual(["src/base/e.ts exports a"]);
  });
});
