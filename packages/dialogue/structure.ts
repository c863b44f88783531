/** Pieces that the structures of calls are made of. */
import { InsituError } from "#insitu/base/error.js";
import type { JsonSchema, TextPart } from "#insitu/choice/constraint.js";
import type { ToolSpec } from "./family.js";

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
  /** What stands between two. */
  readonly between: string;
  /** How texts are written: as they are, up to what closes them; as JSON does; or between marks. */
  readonly texts: "bare" | "json" | { readonly mark: string };
}

/** The arguments of a call that are written one by one: those that must be there first. */
export function namedValues(tool: ToolSpec, style: ValueStyle): TextPart {
  const { properties, required, root } = propertiesOf(tool);
  const parts = Object.entries(properties).map(([name, schema]) => ({
    isNeeded: required.has(name),
    part: { sequence: [style.open(name, isText(schema)), ...valuePart(tool, name, schema, root, style)] },
  }));
  const needed = parts.filter(({ isNeeded }) => isNeeded).map(({ part }) => part);
  const optional = parts.filter(({ isNeeded }) => !isNeeded).map(({ part }) => part);
  const after = (part: TextPart): TextPart => ({ choice: ["", { sequence: [style.between, part] }] });
  const first = needed.flatMap((part, at) => (at === 0 ? [part] : [style.between, part]));
  if (first.length > 0 || style.between === "") return { sequence: [...first, ...optional.map((part) => after(part))] };
  const begun = optional.map((part, at) => ({ sequence: [part, ...optional.slice(at + 1).map(after)] }));
  return { choice: ["", ...begun] };
}

const isText = (schema: unknown): boolean =>
  typeof schema === "object" && schema !== null && "type" in schema && schema.type === "string";

function valuePart(
  tool: ToolSpec,
  name: string,
  schema: unknown,
  root: Readonly<Record<string, unknown>>,
  { close, texts }: ValueStyle,
): readonly TextPart[] {
  const own = (typeof schema === "object" && schema !== null ? schema : {}) as Readonly<Record<string, unknown>>;
  const values = Array.isArray(own["enum"])
    ? (own["enum"] as readonly unknown[])
    : own["const"] === undefined
      ? []
      : [own["const"]];
  const around = typeof texts === "object" ? texts.mark : "";
  if (texts !== "json" && values.length > 0 && values.every((value) => typeof value === "string"))
    return [{ choice: values.map((value) => `${around}${value}${around}`) }, close];
  if (texts === "json" || own["type"] !== "string") {
    const shared = Object.fromEntries(Object.entries(root).filter(([key]) => key === "$defs" || key === "definitions"));
    return [{ schema: typeof schema === "boolean" ? schema : { ...own, ...shared } }, close];
  }
  const limit = ["pattern", "format", "minLength", "maxLength"].find((key) => own[key] !== undefined);
  if (limit !== undefined && tool.strict === true)
    throw new InsituError(
      "invalid-argument",
      `the function "${tool.name}": ${limit} of the parameter "${name}" cannot be enforced, since this model writes strings without quotes; leave it out, or leave strict out`,
    );
  return texts === "bare" ? [{ until: close }] : [around, { until: around }, close];
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
