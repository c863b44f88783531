/** Any value as messages show it: short, and without ever throwing, whatever a caller handed in. */

/** `"text"`, `3`, `null`, `an object`, `a function`, … */
export function shown(value: unknown): string {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value.length > 100 ? `${value.slice(0, 100)}…` : value);
    case "number":
    case "bigint":
    case "boolean":
    case "undefined":
      return String(value);
    case "symbol":
      return "a symbol";
    case "function":
      return "a function";
    case "object":
      return value === null ? "null" : Array.isArray(value) ? "a list" : `an object (${kindOf(value)})`;
  }
}

/** The name of an object's kind: `ArrayBuffer`, `Map`, `Object`. */
export function kindOf(value: unknown): string {
  try {
    return Object.prototype.toString.call(value).slice(8, -1);
  } catch {
    return "Object"; // one whose own answer throws
  }
}
