/** How a model writes calls of tools: found out by having its own chat template write one. */
import type { CallForm, TextRule } from "../../../engine/constraint.js";
import type { TextTokenizer } from "../../../generate/tokenizer.js";
import type { FunctionTool } from "./tools.js";
import type { CallMarks } from "./call-reader.js";

/** One way of writing calls. */
export interface ToolStyle {
  readonly name: "hermes" | "llama3" | "mistral";
  readonly marks: CallMarks;
  /** A call as the model writes it, around its arguments. */
  form(tool: FunctionTool): CallForm;
  /** What stands between two calls; undefined where a text has room for one. */
  readonly between: string | undefined;
  /** What a call begins with, where text may come before it. */
  readonly trigger: string | undefined;
}

const hermes: ToolStyle = {
  name: "hermes",
  marks: { begin: "<tool_call>", end: "</tool_call>", bare: false },
  form: ({ name, parameters }) => ({
    begin: `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": `,
    schema: parameters,
    end: "}\n</tool_call>",
  }),
  between: "\n",
  trigger: "<tool_call>",
};

const llama3: ToolStyle = {
  name: "llama3",
  marks: { begin: "<|python_tag|>", end: "", bare: true },
  form: ({ name, parameters }) => ({
    begin: `{"name": ${JSON.stringify(name)}, "parameters": `,
    schema: parameters,
    end: "}",
  }),
  between: undefined,
  trigger: undefined,
};

const mistral: ToolStyle = {
  name: "mistral",
  marks: { begin: "[TOOL_CALLS]", end: "", bare: false },
  form: ({ name, parameters }) => ({
    begin: `[TOOL_CALLS][{"name": ${JSON.stringify(name)}, "arguments": `,
    schema: parameters,
    end: "}]",
  }),
  between: undefined,
  trigger: "[TOOL_CALLS]",
};

const probe = {
  type: "function",
  function: {
    name: "probe_of_tools",
    description: "probe",
    parameters: { type: "object", properties: { probed_value: { type: "string" } }, required: ["probed_value"] },
  },
} as const;

/** How the model's template writes calls; undefined where it knows no tools, or writes them in a way that is not known here. */
export function toolStyleOf(tokenizer: TextTokenizer): ToolStyle | undefined {
  const asked = rendered(tokenizer, []);
  if (!asked.includes(probe.function.name)) return undefined;
  const call = { name: probe.function.name, arguments: { probed_value: "x" } };
  const called = rendered(tokenizer, [
    { role: "assistant", content: "", tool_calls: [{ id: "probe0123", type: "function", function: call }] },
    { role: "tool", content: "y", tool_call_id: "probe0123", name: call.name },
  ]);
  const written = asked + called;
  if (written.includes("<tool_call>")) return written.includes("<function=") ? undefined : hermes;
  if (/\[(TOOL_CALLS|AVAILABLE_TOOLS)\]/.test(written)) return mistral;
  if (written.includes("<|python_tag|>") || /"parameters":\s*(\{"probed_value|dictionary of argument)/.test(written))
    return llama3;
  return undefined;
}

/** A conversation with a tool as the template writes it; nothing where it refuses. */
function rendered(tokenizer: TextTokenizer, more: Parameters<TextTokenizer["renderChat"]>[0]): string {
  try {
    return tokenizer.renderChat([{ role: "user", content: "x" }, ...more], { tools: [probe] });
  } catch {
    return "";
  }
}

/** What a text must be in which calls must be made. */
export const mustCall = (style: ToolStyle, tools: readonly FunctionTool[], parallel: boolean): TextRule => ({
  kind: "calls",
  forms: tools.map((tool) => style.form(tool)),
  between: style.between ?? "",
  single: !parallel || style.between === undefined,
});
