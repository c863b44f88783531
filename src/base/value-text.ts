/** Values of any kind as messages show them: what a caller handed in where something else was asked for. Never throws. */

/** Characters of a string and entries of a list that a message shows. */
const mostCharacters = 60;
const mostEntries = 8;

/** `"text"`, `1.5`, `10n`, `null`, `[1,null]`, `a function`, `an object of class Map`. */
export function valueText(value: unknown): string {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value.length > mostCharacters ? `${value.slice(0, mostCharacters)}…` : value);
    case "bigint":
      return `${value}n`;
    case "symbol":
      return value.toString();
    case "function":
      return "a function";
    case "object":
      return value === null ? "null" : objectText(value);
    default:
      return String(value);
  }
}

function objectText(value: object): string {
  try {
    if (Array.isArray(value)) {
      const shown = value.slice(0, mostEntries).map((entry) => (Array.isArray(entry) ? "a list" : valueText(entry)));
      return `[${shown.join(",")}${value.length > mostEntries ? ",…" : ""}]`;
    }
    const name: unknown = value.constructor?.name;
    return typeof name === "string" && name !== "" && name !== "Object" ? `an object of class ${name}` : "an object";
  } catch {
    // A proxy may refuse to be looked at.
    return "an object";
  }
}
