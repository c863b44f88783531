/** Field tables for walking messages: name and wire type by number, taken from what the build made of the messages. Reads no bytes. */

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

/** A message as the build finds it in proto/onnx.proto. */
export interface MessageSchema<Name extends string> {
  readonly name: string;
  readonly field: Readonly<Record<Name, Omit<Field<Name>, "name">>>;
}

/** The table of a message. */
export function fieldTable<Name extends string>(schema: MessageSchema<Name>): FieldTable<Name> {
  const byNumber: (Field<Name> | undefined)[] = [];
  const byName = {} as Record<Name, Field<Name>>;
  for (const name of Object.keys(schema.field) as Name[]) {
    const entry = { name, ...schema.field[name] };
    byNumber[entry.number] = entry;
    byName[name] = entry;
  }
  return { message: schema.name, byNumber, byName };
}
