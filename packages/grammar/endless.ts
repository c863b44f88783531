/** Schemas that refer to themselves: whether values that obey them can come to an end. */
import { refusal } from "./limits.js";
import type { ReadSchema } from "./read-schema.js";

/** Throws where a value would have to hold itself, and so on without end. */
export function requireEnds(root: ReadSchema): void {
  const all = new Set([root]);
  for (const each of all) for (const part of partsOf(each)) all.add(part);
  const ended = new Set<ReadSchema>();
  for (let before = -1; before < ended.size;) {
    before = ended.size;
    for (const each of all) if (!ended.has(each) && mayEnd(each, ended)) ended.add(each);
  }
  const endless = [...all].find((each) => !ended.has(each));
  if (endless !== undefined)
    throw refusal(endless.kind === "typed" ? endless.path : "", "refers to itself without end: no value obeys it");
}

function partsOf(schema: ReadSchema): readonly ReadSchema[] {
  if (schema.kind === "reference") return [schema.to.schema!];
  if (schema.kind === "choice") return schema.options;
  if (schema.kind !== "typed") return [];
  const { array, object } = schema;
  const members =
    object.kind === "closed"
      ? object.properties.map((each) => each.schema)
      : object.members.flatMap(({ names, values }) => [names, values]);
  return [...array.first, array.others, ...members].filter((each) => each !== false);
}

/** True if a value that obeys a schema may end, by what is known of others. */
function mayEnd(schema: ReadSchema, ended: ReadonlySet<ReadSchema>): boolean {
  if (schema.kind === "reference") return ended.has(schema.to.schema!);
  if (schema.kind === "choice") return schema.options.some((each) => ended.has(each));
  if (schema.kind !== "typed") return true;
  const { types: wanted, array, object } = schema;
  const isEnded = (each: ReadSchema): boolean => ended.has(each);
  const elements = [...array.first, ...(array.least > array.first.length && array.others ? [array.others] : [])];
  return wanted.some((type) => {
    if (type === "array") return array.least === 0 || elements.every(isEnded);
    if (type !== "object") return true;
    if (object.kind === "open") return object.least === 0 || object.members.some(({ values }) => isEnded(values));
    const properties = object.properties.filter((each) => isEnded(each.schema));
    return (
      properties.length >= object.least && object.properties.every((each) => !each.isRequired || isEnded(each.schema))
    );
  });
}
