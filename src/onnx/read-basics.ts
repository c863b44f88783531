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

/** Reads one key-value entry into `into`, or into a new map; of equal keys the last counts. */
export function readEntries(
  cursor: Cursor,
  into: ReadonlyMap<string, string> | undefined,
): ReadonlyMap<string, string> {
  const map = (into ?? new Map<string, string>()) as Map<string, string>;
  let key = "";
  let value = "";
  const outer = cursor.enter();
  for (let field = cursor.next(entryFields); field !== undefined; field = cursor.next(entryFields)) {
    if (field === "key") key = cursor.string("the key of an entry");
    else value = cursor.string(`the value of entry ${quote(key)}`);
  }
  cursor.leave(outer);
  return map.set(key, value);
}

/** The domain as insitu writes it: `""` for ai.onnx. */
export const normalDomain = (domain: string): string => (domain === "ai.onnx" ? "" : domain);

/** Reads one opset import into `opsets`; of several versions of a domain the highest counts, as ONNX says. */
export function readOpset(cursor: Cursor, opsets: Map<string, number>): void {
  let domain = "";
  let version = 0;
  const outer = cursor.enter();
  for (let field = cursor.next(opsetFields); field !== undefined; field = cursor.next(opsetFields)) {
    if (field === "domain") domain = normalDomain(cursor.string("the domain of an opset import"));
    else version = cursor.integer(`the version of opset ${quote(domain)}`);
  }
  cursor.leave(outer);
  opsets.set(domain, Math.max(version, opsets.get(domain) ?? version));
}
