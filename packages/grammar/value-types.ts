/** The types of values that JSON Schema tells apart, and which of them a value has. */

/** All types. */
export const types: ReadonlySet<unknown> = new Set([
  "string",
  "integer",
  "number",
  "boolean",
  "null",
  "array",
  "object",
]);

/** True for what has names and values. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** True if a value has a type. */
export const hasType = (value: unknown, type: string): boolean =>
  type === "integer"
    ? Number.isInteger(value)
    : type === "null"
      ? value === null
      : type === "array"
        ? Array.isArray(value)
        : type === "object"
          ? isObject(value)
          : typeof value === type;
