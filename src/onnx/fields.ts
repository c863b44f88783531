/** Field tables for walking messages: name and wire type by number, taken from the generated schema. Reads no bytes. */
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";

/** Protobuf's wire types; groups (3 and 4) are only ever skipped. */
export const Wire = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

/** What a walk needs to know of one field. */
export interface Field<Name extends string> {
  readonly name: Name;
  readonly number: number;
  /** The wire type of one entry. */
  readonly wire: number;
  /** True if entries may also come packed in one length-delimited run. */
  readonly packable: boolean;
}

/** The fields of one message. */
export interface FieldTable<Name extends string> {
  readonly message: string;
  /** By field number, with holes. */
  readonly byNumber: readonly (Field<Name> | undefined)[];
  readonly byName: Readonly<Record<Name, Field<Name>>>;
}

function wireOf(field: DescField): number {
  const scalar =
    field.fieldKind === "scalar" || (field.fieldKind === "list" && field.listKind === "scalar")
      ? field.scalar
      : undefined;
  if (scalar === undefined) return field.enum === undefined ? Wire.bytes : Wire.varint;
  if (scalar === ScalarType.STRING || scalar === ScalarType.BYTES) return Wire.bytes;
  if (scalar === ScalarType.FLOAT) return Wire.fixed32;
  return scalar === ScalarType.DOUBLE ? Wire.fixed64 : Wire.varint;
}

/** The table of a generated message schema. */
export function fieldTable<Name extends string>(
  schema: DescMessage & { readonly field: Record<Name, DescField> },
): FieldTable<Name> {
  const byNumber: (Field<Name> | undefined)[] = [];
  const byName = {} as Record<Name, Field<Name>>;
  for (const name of Object.keys(schema.field) as Name[]) {
    const field: DescField = schema.field[name];
    const wire = wireOf(field);
    const entry = { name, number: field.number, wire, packable: field.fieldKind === "list" && wire !== Wire.bytes };
    byNumber[field.number] = entry;
    byName[name] = entry;
  }
  return { message: schema.name, byNumber, byName };
}
