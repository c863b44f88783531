/** Tensors: every element type from every field that may hold it, and everything that does not fit refused. */
import { describe, expect, it } from "vitest";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { arrayConstructorOf, elementTypes, storageLengthOf, traitsOf } from "../../src/tensor/element-type.js";
import { tensorView } from "../../src/onnx/model.js";
import { TensorProtoSchema } from "./onnx_pb.js";
import { readTensor } from "../../src/onnx/read.js";
import { writeTensor } from "../../src/onnx/write.js";
import { expectError, withoutSource } from "./support.js";

type Init = MessageInitShape<typeof TensorProtoSchema>;
const encode = (init: Init): Uint8Array => toBinary(TensorProtoSchema, create(TensorProtoSchema, init));

describe("raw_data", () => {
  for (const type of elementTypes) {
    if (type === "string") continue;
    it(`holds ${type}`, () => {
      const count = 6;
      const { code, bits } = traitsOf(type);
      const rawData = Uint8Array.from({ length: Math.ceil((count * bits) / 8) }, (_, i) => (i * 37 + 1) & 0xff);
      const bytes = encode({ name: "t", dims: [2n, 3n], dataType: code, rawData });
      for (const owned of [false, true]) {
        const read = readTensor(bytes.slice(), { owned });
        expect(read).toMatchObject({ name: "t", type, dims: [2, 3] });
        const data = read.data as Exclude<typeof read.data, string[] | undefined>;
        expect(data).toBeInstanceOf(arrayConstructorOf(type));
        expect(data.length).toBe(storageLengthOf(type, count));
        expect(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)).toEqual(rawData);
        expect(writeTensor(read)).toEqual(bytes);
        expect(withoutSource(readTensor(writeTensor(withoutSource(read))))).toEqual(withoutSource(read));
        expect(tensorView(read).toString()).toBe(`${type}[2,3]`);
      }
    });
  }

  it("is shared where it is aligned, and copied where not", () => {
    const build = (length: number) =>
      encode({ dims: [64n], dataType: 1, rawData: new Uint8Array(256), name: "x".repeat(length) });
    const kinds = new Set<boolean>();
    for (let length = 0; length < 4; length++) {
      const bytes = build(length);
      const { data } = readTensor(bytes);
      kinds.add((data as Float32Array).buffer === bytes.buffer);
    }
    expect(kinds).toEqual(new Set([true, false]));
  });
});

describe("alignment in owned bytes", () => {
  // raw_data comes after the name in what the generated encoder writes, so that the name's length moves it.
  const values = Float32Array.from({ length: 64 }, (_, i) => i / 3);
  const build = (name: string, type: number, raw: Uint8Array, dims: bigint[]) =>
    encode({ dims, dataType: type, rawData: raw, name });

  for (let length = 0; length < 8; length++) {
    it(`shares 4-byte elements of 128 bytes and more, name of ${length}`, () => {
      const bytes = build("x".repeat(length), 1, new Uint8Array(values.buffer), [64n]);
      const before = bytes.slice();
      const tensor = readTensor(bytes, { owned: true });
      expect((tensor.data as Float32Array).buffer).toBe(bytes.buffer);
      expect(tensor.data).toEqual(values);
      // The writer gives back the bytes as they were before anything was moved.
      expect(writeTensor(tensor)).toEqual(before);
      expect(writeTensor({ ...tensor, docString: "new" })).toEqual(
        encode({
          name: "x".repeat(length),
          dims: [64n],
          dataType: 1,
          rawData: new Uint8Array(values.buffer),
          docString: "new",
        }),
      );
    });

    it(`reads 8-byte and short ones too, name of ${length}`, () => {
      const wide = BigInt64Array.from({ length: 40 }, (_, i) => BigInt(i) ** 9n);
      const name = "x".repeat(length);
      const tensor = readTensor(build(name, 7, new Uint8Array(wide.buffer), [40n]), { owned: true });
      expect(tensor.data).toEqual(wide);
      const short = readTensor(build(name, 1, new Uint8Array(values.buffer, 0, 8), [2n]), { owned: true });
      expect(short.data).toEqual(values.slice(0, 2));
      const half = readTensor(build(name, 10, new Uint8Array(values.buffer), [128n]), { owned: true });
      expect(half.data).toEqual(new Uint16Array(values.buffer));
    });
  }

  it("leaves bytes alone that are not owned", () => {
    for (let length = 0; length < 4; length++) {
      const bytes = build("x".repeat(length), 1, new Uint8Array(values.buffer), [64n]);
      const before = bytes.slice();
      expect(readTensor(bytes).data).toEqual(values);
      expect(bytes).toEqual(before);
    }
  });

  it("shares a packed float_data run", () => {
    for (let length = 0; length < 4; length++) {
      // In field order the name comes later; its bytes in front are a second, earlier doc_string field.
      const prefix = encode({ docString: "d".repeat(length) });
      const body = encode({ dims: [64n], dataType: 1, floatData: [...values] });
      const bytes = new Uint8Array([...prefix, ...body]);
      const tensor = readTensor(bytes, { owned: true });
      expect((tensor.data as Float32Array).buffer).toBe(bytes.buffer);
      expect(tensor.data).toEqual(values);
      expect(writeTensor(tensor)).toEqual(new Uint8Array([...prefix, ...body]));
    }
  });
});

describe("typed fields", () => {
  const text = (value: string): Uint8Array => new TextEncoder().encode(value);
  const cases: readonly [string, Init, ArrayLike<number | bigint | string>][] = [
    ["float32", { dataType: 1, floatData: [1.5, -2] }, Float32Array.of(1.5, -2)],
    ["complex64", { dataType: 14, dims: [1n], floatData: [1.5, -2] }, Float32Array.of(1.5, -2)],
    ["float64", { dataType: 11, doubleData: [1.1, -2] }, Float64Array.of(1.1, -2)],
    ["complex128", { dataType: 15, dims: [1n], doubleData: [1.1, -2] }, Float64Array.of(1.1, -2)],
    [
      "int64",
      { dataType: 7, int64Data: [-(2n ** 63n), 2n ** 63n - 1n] },
      BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n),
    ],
    ["uint64", { dataType: 13, uint64Data: [0n, 2n ** 64n - 1n] }, BigUint64Array.of(0n, 2n ** 64n - 1n)],
    ["uint32", { dataType: 12, uint64Data: [0n, 2n ** 32n - 1n] }, Uint32Array.of(0, 2 ** 32 - 1)],
    ["int32", { dataType: 6, int32Data: [-(2 ** 31), 2 ** 31 - 1] }, Int32Array.of(-(2 ** 31), 2 ** 31 - 1)],
    ["int16", { dataType: 5, int32Data: [-1, 2] }, Int16Array.of(-1, 2)],
    ["uint16", { dataType: 4, int32Data: [65535, 2] }, Uint16Array.of(65535, 2)],
    ["int8", { dataType: 3, int32Data: [-128, 127] }, Int8Array.of(-128, 127)],
    ["uint8", { dataType: 2, int32Data: [255, 0] }, Uint8Array.of(255, 0)],
    ["bool", { dataType: 9, int32Data: [1, 0] }, Uint8Array.of(1, 0)],
    ["float16", { dataType: 10, int32Data: [0x3c00, 0xc000] }, Uint16Array.of(0x3c00, 0xc000)],
    ["bfloat16", { dataType: 16, int32Data: [0x3f80, 0xc000] }, Uint16Array.of(0x3f80, 0xc000)],
    ["float8e4m3fn", { dataType: 17, int32Data: [1, 255] }, Uint8Array.of(1, 255)],
    ["float8e4m3fnuz", { dataType: 18, int32Data: [1, 255] }, Uint8Array.of(1, 255)],
    ["float8e5m2", { dataType: 19, int32Data: [1, 255] }, Uint8Array.of(1, 255)],
    ["float8e5m2fnuz", { dataType: 20, int32Data: [1, 255] }, Uint8Array.of(1, 255)],
    ["float8e8m0", { dataType: 24, int32Data: [1, 255] }, Uint8Array.of(1, 255)],
    ["uint4", { dataType: 21, dims: [3n], int32Data: [0x21, 0x03] }, Uint8Array.of(0x21, 0x03)],
    ["int4", { dataType: 22, dims: [4n], int32Data: [0xf1, -1] }, Uint8Array.of(0xf1, 0xff)],
    ["float4e2m1", { dataType: 23, dims: [4n], int32Data: [0x21, 0x43] }, Uint8Array.of(0x21, 0x43)],
    ["uint2", { dataType: 25, dims: [5n], int32Data: [0xe4, 0x01] }, Uint8Array.of(0xe4, 0x01)],
    ["int2", { dataType: 26, dims: [8n], int32Data: [0xe4, 0x1b] }, Uint8Array.of(0xe4, 0x1b)],
    // What ONNX's own make_tensor and from_array give for 0.5, 1, 1.5, −2, 3, 4: one in each entry, packed in raw bytes.
    [
      "float6e2m3",
      { dataType: 27, dims: [6n], int32Data: [4, 8, 12, 48, 20, 24] },
      Uint8Array.of(0x04, 0xc2, 0xc0, 0x14, 0x06),
    ],
    [
      "float6e3m2",
      { dataType: 28, dims: [6n], int32Data: [8, 12, 14, 48, 18, 20] },
      Uint8Array.of(0x08, 0xe3, 0xc0, 0x12, 0x05),
    ],
    ["string", { dataType: 8, stringData: [text("a"), text("\ufeffß")] }, ["a", "\ufeffß"]],
  ];
  for (const [type, init, expected] of cases) {
    it(`hold ${type}`, () => {
      const bytes = encode({ dims: [2n], ...init });
      const tensor = readTensor(bytes);
      expect(tensor.type).toBe(type);
      expect(tensor.data).toEqual(expected);
      expect(writeTensor(tensor)).toEqual(bytes);
      expect(withoutSource(readTensor(writeTensor(withoutSource(tensor))))).toEqual(withoutSource(tensor));
    });
  }

  it("cover every element type", () => {
    expect(cases.map(([type]) => type).sort()).toEqual([...elementTypes].sort());
  });

  it("may come unpacked, or in several runs", () => {
    // dims [3], int32, then int32_data as: one unpacked, a run of one, one unpacked.
    expect(readTensor(Uint8Array.of(8, 3, 16, 6, 40, 7, 42, 1, 8, 40, 9)).data).toEqual(Int32Array.of(7, 8, 9));
    // dims packed, float_data unpacked.
    expect(readTensor(Uint8Array.of(10, 1, 1, 16, 1, 37, 0, 0, 128, 63)).data).toEqual(Float32Array.of(1));
    const twice = new Uint8Array([
      ...encode({ dims: [4n], dataType: 1, floatData: [1, 2] }),
      ...encode({ floatData: [3, 4] }),
    ]);
    expect(readTensor(twice).data).toEqual(Float32Array.of(1, 2, 3, 4));
    expect(readTensor(encode({ dims: [], dataType: 11, doubleData: [7] })).data).toEqual(Float64Array.of(7));
  });
});

describe("tensors that are refused", () => {
  const refused: readonly [string, Init, RegExp][] = [
    [
      "int4 of the wrong length",
      { dims: [3n], dataType: 22, rawData: new Uint8Array(3) },
      /tensor "t": raw_data must have 2 bytes for int4\[3\], got 3/,
    ],
    [
      "int4 entries of the wrong number",
      { dims: [3n], dataType: 22, int32Data: [1, 2, 3] },
      /int32_data must have 2 entries for int4\[3\], got 3/,
    ],
    ["a negative dimension", { dims: [-1n, 2n], dataType: 1 }, /tensor "t": dims must not be negative, got \[-1,2\]/],
    ["a negative dimension beside a zero", { dims: [0n, -1n], dataType: 1 }, /must not be negative/],
    ["an overflowing product", { dims: [2n ** 40n, 2n ** 40n], dataType: 1 }, /more elements than can be addressed/],
    [
      "a dimension beyond integers",
      { dims: [2n ** 62n], dataType: 1 },
      /dims entry 4611686018427388000 is out of range/,
    ],
    [
      "dims and no data",
      { dims: [2n ** 40n], dataType: 1 },
      /float_data must have 1099511627776 entries for float32\[1099511627776\], got 0/,
    ],
    [
      "dims and empty raw data",
      { dims: [2n ** 30n], dataType: 1, rawData: new Uint8Array() },
      /raw_data must have 4294967296 bytes for float32\[1073741824\], got 0/,
    ],
    ["no type", { dims: [0n] }, /data_type 0 is not an element type/],
    ["an unknown type", { dims: [0n], dataType: 29 }, /data_type 29/],
    ["strings in raw_data", { dims: [1n], dataType: 8, rawData: new Uint8Array(1) }, /strings must be in string_data/],
    [
      "strings that are not UTF-8",
      { dims: [1n], dataType: 8, stringData: [Uint8Array.of(0xff)] },
      /element 0 is not valid UTF-8/,
    ],
    [
      "elements in the wrong field",
      { dims: [1n], dataType: 1, int32Data: [1] },
      /float32 must be in float_data, got int32_data/,
    ],
    ["two typed fields", { dims: [1n], dataType: 1, int32Data: [1], floatData: [1] }, /both float_data and int32_data/],
    [
      "raw and typed",
      { dims: [1n], dataType: 1, rawData: new Uint8Array(4), floatData: [1] },
      /both raw_data and float_data/,
    ],
    [
      "external and raw",
      {
        dims: [1n],
        dataType: 1,
        dataLocation: 1,
        rawData: new Uint8Array(4),
        externalData: [{ key: "location", value: "a" }],
      },
      /both raw_data and external/,
    ],
    ["external strings", { dims: [1n], dataType: 8, dataLocation: 1 }, /strings cannot be external/],
    ["segments", { dims: [1n], dataType: 1, floatData: [1], segment: { begin: 0n, end: 1n } }, /segmented/],
  ];
  for (const [what, init, message] of refused) {
    it(what, () => expectError(() => readTensor(encode({ name: "t", ...init })), "invalid-model", message));
  }

  const references: readonly [string, Record<string, string>, RegExp][] = [
    ["no location", { offset: "0" }, /"t": external_data has no location/],
    ["a negative offset", { location: "a", offset: "-1" }, /offset must be a non-negative integer, got "-1"/],
    ["a fraction", { location: "a", length: "1.5" }, /length must be a non-negative integer/],
    ["text", { location: "a", offset: "0x10" }, /offset must be/],
    ["too much", { location: "a", length: "99999999999999999999" }, /length must be/],
  ];
  for (const [what, entries, message] of references) {
    it(`external data with ${what}`, () => {
      const externalData = Object.entries(entries).map(([key, value]) => ({ key, value }));
      expectError(
        () => readTensor(encode({ name: "t", dims: [1n], dataType: 1, dataLocation: 1, externalData })),
        "external-data",
        message,
      );
    });
  }

  it("takes tensors without elements in every form", () => {
    for (const init of [{}, { rawData: new Uint8Array() }, { floatData: [] }]) {
      expect(readTensor(encode({ dims: [0n, 2n ** 40n], dataType: 1, ...init })).data).toEqual(new Float32Array(0));
    }
  });
});
