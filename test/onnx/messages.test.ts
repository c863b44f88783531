// The field tables that the build makes of proto/onnx.proto are those that protobuf's own compiler makes of it.
import { type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { messageTables } from "../../scripts/message-tables.mjs";
import { fieldTable, type MessageSchema, Wire } from "../../src/onnx/fields.js";
import * as tables from "../../src/onnx/messages.gen.js";
import * as generated from "./onnx_pb.js";

const wires: Partial<Record<ScalarType, number>> = {
  [ScalarType.STRING]: Wire.bytes,
  [ScalarType.BYTES]: Wire.bytes,
  [ScalarType.FLOAT]: Wire.fixed32,
  [ScalarType.DOUBLE]: Wire.fixed64,
};

const ours = new Map<string, unknown>(Object.entries(tables));

const isSchema = (value: unknown): value is DescMessage =>
  typeof value === "object" && value !== null && "kind" in value && value.kind === "message";

test("every message has the fields, numbers and wire types of the compiler's", () => {
  const schemas = Object.entries<unknown>(generated).filter((entry): entry is [string, DescMessage] =>
    isSchema(entry[1]),
  );
  expect(schemas.length).toBeGreaterThan(20);
  for (const [name, schema] of schemas) {
    const table = fieldTable(ours.get(name) as MessageSchema<string>);
    expect(table.message).toBe(schema.name);
    expect(
      Object.values(table.byName).toSorted((a, b) => a.number - b.number),
      name,
    ).toEqual(
      schema.fields
        .map((field) => {
          const isList = field.fieldKind === "list";
          const scalar = field.fieldKind === "scalar" || isList ? field.scalar : undefined;
          const isMessage = field.fieldKind === "message" || (isList && field.listKind === "message");
          const wire = isMessage ? Wire.bytes : ((scalar === undefined ? undefined : wires[scalar]) ?? Wire.varint);
          return { name: field.localName, number: field.number, wire, packable: isList && wire !== Wire.bytes };
        })
        .toSorted((a, b) => a.number - b.number),
    );
  }
});

test("the codes of attributes are the compiler's", () => {
  for (const [name, code] of Object.entries(tables.AttributeProto_AttributeType))
    expect([name, generated.AttributeProto_AttributeType[code]]).toEqual([name, name]);
});

test("a line that is not understood is refused by its number", () => {
  expect(() => messageTables("message A {\n  map<string, int32> b = 1;\n}")).toThrow("proto/onnx.proto:2:");
});
