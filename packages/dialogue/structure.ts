/** Pieces that the structures of calls are made of. */
import { InsituError } from "#insitu/base/error.js";
import type { JsonSchema, TextPart } from "#insitu/choice/constraint.js";
import { resolved, typesOf } from "./argument-types.js";
import type { ToolSpec } from "./family.js";

/** Keywords that bound a text, and those that may hold some. */
const limits = ["pattern", "format", "minLength", "maxLength", "anyOf", "oneOf", "allOf", "not", "if", "$ref"];

/** One call, or several with this between them. */
export const several = (call: TextPart, between: string, parallel: boolean): TextPart =>
  parallel ? { repeat: call, between } : call;

/** One of the tools. */
export const eachTool = (tools: readonly ToolSpec[], call: (tool: ToolSpec) => readonly TextPart[]): TextPart => ({
  choice: tools.map((tool) => ({ sequence: call(tool) })),
});

/** `{"name": …, "arguments": {…}}`. */
export const jsonCall = ({ name, parameters }: ToolSpec, key = "arguments"): readonly TextPart[] => [
  `{"name": ${JSON.stringify(name)}, "${key}": `,
  { schema: parameters },
  "}",
];

/** How values stand one by one in a call. */
interface ValueStyle {
  /** What comes before a value. */
  readonly open: (name: string, isText: boolean) => string;
  /** What comes after it. */
  readonly close: string;
  /** What bare texts cannot hold beside what closes them. */
  readonly without?: readonly string[];
  /** What stands between two. */
  readonly between: string;
  /** How texts are written: as they are, up to what closes them; as JSON does; or between marks. */
  readonly texts: "bare" | "json" | { readonly mark: string };
}

/** The arguments of a call that are written one by one: those that must be there first. */
export function namedValues(tool: ToolSpec, style: ValueStyle): TextPart {
  const { properties, required, root } = propertiesOf(tool);
  const parts = Object.entries(properties).map(([name, schema]) => {
    const types = typesOf(tool.parameters, name);
    // What is of one type alone is read as text, and so written without quotes.
    const isText = types.size === 1 && types.has("string");
    const value = valuePart({ tool, name, schema, isText }, root, style);
    return { isNeeded: required.has(name), part: { sequence: [style.open(name, isText), ...value] } };
  });
  const needed = parts.filter(({ isNeeded }) => isNeeded).map(({ part }) => part);
  const optional = parts.filter(({ isNeeded }) => !isNeeded).map(({ part }) => part);
  const after = (part: TextPart): TextPart => ({ choice: ["", { sequence: [style.between, part] }] });
  const first = needed.flatMap((part, at) => (at === 0 ? [part] : [style.between, part]));
  if (first.length > 0 || style.between === "") return { sequence: [...first, ...optional.map((part) => after(part))] };
  const begun = optional.map((part, at) => ({ sequence: [part, ...optional.slice(at + 1).map(after)] }));
  return { choice: ["", ...begun] };
}

interface Value {
  readonly tool: ToolSpec;
  readonly name: string;
  readonly schema: unknown;
  readonly isText: boolean;
}

function valuePart(
  { tool, name, schema, isText }: Value,
  root: Readonly<Record<string, unknown>>,
  { close, texts, without = [] }: ValueStyle,
): readonly TextPart[] {
  const own = resolved(schema, root);
  const values = Array.isArray(own["enum"])
    ? (own["enum"] as readonly unknown[])
    : own["const"] === undefined
      ? []
      : [own["const"]];
  const around = typeof texts === "object" ? texts.mark : "";
  if (texts !== "json" && values.length > 0 && values.every((value) => typeof value === "string"))
    return [{ choice: values.map((value) => `${around}${value}${around}`) }, close];
  if (texts === "json" || !isText) {
    const shared = Object.fromEntries(Object.entries(root).filter(([key]) => key === "$defs" || key === "definitions"));
    return [{ schema: typeof schema === "boolean" ? schema : { ...own, ...shared } }, close];
  }
  const limit = limits.find((key) => own[key] !== undefined);
  if (limit !== undefined && tool.strict === true)
    throw new InsituError(
      "invalid-argument",
      `the function "${tool.name}": ${limit} of the parameter "${name}" cannot be enforced, since this model writes strings without quotes; leave it out, or leave strict out`,
    );
  if (texts !== "bare") return [around, { until: around }, close];
  // Readers look for the mark alone, and leave blanks around it out.
  const mark = close.trim();
  return [{ until: mark, without }, close.slice(close.indexOf(mark) + mark.length)];
}

function propertiesOf({ name, parameters }: ToolSpec): {
  readonly properties: Readonly<Record<string, unknown>>;
  readonly required: ReadonlySet<string>;
  readonly root: Readonly<Record<string, unknown>>;
} {
  const root = (typeof parameters === "object" ? parameters : {}) as Readonly<Record<string, unknown>>;
  const odd = ["anyOf", "oneOf", "allOf", "$ref"].find((key) => root[key] !== undefined);
  if (odd !== undefined)
    throw new InsituError(
      "invalid-argument",
      `the function "${name}": its parameters must be an object that lists its properties, got ${odd}; this model writes them one by one`,
    );
  const { properties = {}, required = [] } = root as {
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
  };
  return { properties, required: new Set(required), root };
}
