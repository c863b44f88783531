/** Hostile bytes: small files that ask for a lot get an error, soon and without the memory they asked for. */
import { describe, expect, it } from "vitest";
import { readModel, readTensor } from "../../src/onnx/read.js";
import { expectError } from "./support.js";
import { soak } from "../support/soak.js";

/** Milliseconds; in the tests only a hang takes longer. */
const longest = soak ? 1000 : 60_000;

const varint = (value: number): number[] => {
  const bytes: number[] = [];
  for (; value > 0x7f; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) | 0x80);
  return [...bytes, value];
};
const join = (...parts: readonly ArrayLike<number>[]): Uint8Array => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};
/** A length-delimited field of any message. */
const field = (number: number, ...content: readonly ArrayLike<number>[]): Uint8Array => {
  const body = join(...content);
  return join(varint(number * 8 + 2), varint(body.length), body);
};
const repeat = (unit: readonly number[], length: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => unit[i % unit.length]);
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

const model = (...graph: Uint8Array[]): Uint8Array => field(7, ...graph);
const nodeWith = (...content: Uint8Array[]): Uint8Array => field(1, field(4, text("Op")), ...content);
const attribute = (...content: Uint8Array[]): Uint8Array => field(5, field(1, text("a")), ...content);
const size = 1_200_000;

function nested(levels: number): Uint8Array {
  let graph: Uint8Array = new Uint8Array();
  for (let i = 0; i < levels; i++) graph = nodeWith(attribute(field(6, graph)));
  return model(graph);
}

function nestedType(levels: number): Uint8Array {
  let type: Uint8Array = new Uint8Array();
  for (let i = 0; i < levels; i++) type = field(4, field(1, type));
  return model(field(11, field(1, text("x")), field(2, type)));
}

const cases: readonly [string, () => Uint8Array, RegExp][] = [
  [
    "a length beyond the end",
    () => Uint8Array.of(0x3a, 0xff, 0xff, 0xff, 0x7f),
    /cut off: 268435455 more are needed, 0 are left/,
  ],
  ["a length of 2^63", () => Uint8Array.of(0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), /cut off/],
  ["a message beyond its parent", () => Uint8Array.of(0x3a, 2, 0x0a, 4, 0x22, 2, 0x41, 0x41), /cut off/],
  ["a number without an end", () => repeat([0x80], 20), /more than 10 bytes/],
  ["a number cut off", () => Uint8Array.of(0x08, 0x80), /cut off inside a number/],
  ["field 0", () => Uint8Array.of(0x00, 0x00), /illegal tag 0/],
  ["wire type 7", () => Uint8Array.of(0xff, 0x3e), /illegal wire type 7/],
  ["the end of no group", () => Uint8Array.of(0xfc, 0x3e), /illegal tag/],
  ["a wrong wire type", () => Uint8Array.of(0x38, 1), /ModelProto: field graph has wire type 0, needs 2/],
  ["groups in groups", () => repeat([0xfb, 0x3e], size), /groups are nested deeper than 64/],
  ["graphs in graphs", () => nested(2000), /graphs are nested deeper than 64/],
  ["types in types", () => nestedType(2000), /types are nested deeper than 64/],
  ["names that are not UTF-8", () => model(field(2, [0xc3, 0x28])), /the name of a graph is not valid UTF-8/],
  ["overlong UTF-8", () => model(field(2, [0xc0, 0x80])), /not valid UTF-8/],
  ["surrogates in UTF-8", () => model(field(2, [0xed, 0xa0, 0x80])), /not valid UTF-8/],
  ["two graphs", () => join(model(), model()), /its graph twice/],
  ["nothing but nodes", () => model(repeat([0x0a, 3, 0x22, 1, 65], size)), /more parts than a file of this size/],
  [
    "nothing but graphs",
    () => model(nodeWith(attribute(repeat([0x5a, 0], size)))),
    /more parts than a file of this size/,
  ],
  [
    "nothing but scalars",
    () => model(nodeWith(attribute(repeat([0x52, 8, 16, 1, 0x4a, 4, 0, 0, 0, 0], size)))),
    /more parts than/,
  ],
  ["nothing but broken strings", () => model(nodeWith(attribute(repeat([0x4a, 1, 0xff], size)))), /more parts than/],
  ["nothing but dims", () => model(field(5, repeat([8, 1], size))), /more than 64 dims/],
  [
    "nothing but dimensions",
    () => model(field(11, field(2, field(1, field(2, repeat([0x0a, 0], size)))))),
    /more than 64 dimensions/,
  ],
  ["nameless initializers", () => model(repeat([0x2a, 4, 8, 0, 16, 1], size)), /initializer of a graph has no name/],
];

describe("hostile bytes", () => {
  for (const [what, build, message] of cases) {
    it(what, () => {
      const bytes = build();
      const start = performance.now();
      expectError(() => readModel(bytes, { owned: true }), "invalid-model", message);
      expect(performance.now() - start).toBeLessThan(longest);
    });
  }

  it("does not allocate on the word of dims", () => {
    const before = process.memoryUsage().arrayBuffers;
    for (const dims of [2 ** 28, 2 ** 31, 2 ** 40]) {
      for (const content of [new Uint8Array(), Uint8Array.of(0x4a, 0), Uint8Array.of(0x22, 4, 0, 0, 128, 63)]) {
        expectError(() => readTensor(join([8], varint(dims), [16, 1], content)), "invalid-model", /must have/);
      }
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 24);
  });

  it("allows what is large and honest", () => {
    const many = (count: number): Uint8Array[] =>
      Array.from({ length: count }, (_, i) =>
        nodeWith(
          field(1, text(`value_${i}`)),
          field(2, text(`value_${i + 1}`)),
          attribute(Uint8Array.of(0x18, 1, 0xa0, 1, 2)),
        ),
      );
    const read = readModel(model(Buffer.concat(many(50_000))));
    expect(read.graph.nodes).toHaveLength(50_000);
    expect(readModel(nested(40)).graph.nodes).toHaveLength(1);
    expect(readModel(nestedType(40)).graph.inputs).toHaveLength(1);
    // Unknown fields and groups are skipped and kept.
    expect(readModel(join([0xfb, 0x3e, 0xf8, 0x3e, 1, 0xfc, 0x3e], model())).graph.nodes).toEqual([]);
  });
});
