/** The small pieces that several messages share: key-value entries, opset imports, and names in messages. */
import type { Cursor } from "./cursor.js";
import { fieldTable } from "./fields.js";
import { OperatorSetIdProtoSchema, StringStringEntryProtoSchema } from "./messages.gen.js";

const entryFields = fieldTable(StringStringEntryProtoSchema);
const opsetFields = fieldTable(OperatorSetIdProtoSchema);

/** What most parts have for metadata. */
export const noEntries: ReadonlyMap<string, string> = new Map();

/** A name as messages show it: quoted, and cut short where it is very long. */
export const quote = (name: string): string => JSON.stringify(name.length > 100 ? `${name.slice(0, 100)}…` : name);

/** Reads one key-value entry into `into`, or into a new map where that is `noEntries`; of equal keys the last counts. */
export function readEntries(cursor: Cursor, into: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const map = (into === noEntries ? new Map<string, string>() : into) as Map<string, string>;
  const entry = { key: "", value: "" };
  cursor.message(() =>
    cursor.fields(entryFields, {
      key: () => (entry.key = cursor.string("the key of an entry")),
      value: () => (entry.value = cursor.string(`the value of entry ${quote(entry.key)}`)),
    }),
  );
  return map.set(entry.key, entry.value);
}

/** The domain as insitu writes it: `""` for ai.onnx. */
export const normalDomain = (domain: string): string => (domain === "ai.onnx" ? "" : domain);

/** Reads one opset import into `opsets`; of several versions of a domain the highest counts, as ONNX says. */
export function readOpset(cursor: Cursor, opsets: Map<string, number>): void {
  const made = { domain: "", version: 0 };
  cursor.message(() =>
    cursor.fields(opsetFields, {
      domain: () => (made.domain = normalDomain(cursor.string("the domain of an opset import"))),
      version: () => (made.version = cursor.integer(`the version of opset ${quote(made.domain)}`)),
    }),
  );
  opsets.set(made.domain, Math.max(made.version, opsets.get(made.domain) ?? made.version));
}
