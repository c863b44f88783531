/** Messages of a conversation in the forms that a template takes: found out by having it write a call. */
import type { AnyMessage, DialogueTemplate, Family, MadeCall, ToolSpec } from "./family.js";

const probe = {
  type: "function",
  function: {
    name: "probe_of_tools",
    description: "probe",
    parameters: { type: "object", properties: { probed_value: { type: "string" } }, required: ["probed_value"] },
  },
} as const;

/** What stands in the probe's call, and nowhere else. */
const probedValue = "value_of_probe";

/** What templates make of calls. */
export class MessageForms {
  readonly #family: Family | undefined;
  readonly #template: DialogueTemplate | undefined;
  #calls: "objects" | "texts" | "content" | undefined;
  #writesTools: boolean | undefined;

  constructor(family: Family | undefined, template: DialogueTemplate | undefined) {
    this.#family = family;
    this.#template = template;
  }

  all(messages: readonly AnyMessage[], tools: readonly ToolSpec[]): readonly AnyMessage[] {
    const names = new Map<unknown, string>();
    const said = tools.length === 0 || this.#knowsTools ? messages : this.#withTools(messages, tools);
    return said.map((message) => {
      if (message.role === "tool") return this.#result(message, names);
      if (message.role !== "assistant") return message;
      for (const { id, name } of callsOf(message)) names.set(id, name);
      return this.#assistant(message);
    });
  }

  /** True if the template writes the tools that it is given. */
  get #knowsTools(): boolean {
    this.#writesTools ??= this.#rendered([]).includes(probe.function.name);
    return this.#writesTools;
  }

  /** The tools in words, at the end of the system's message. */
  #withTools(messages: readonly AnyMessage[], tools: readonly ToolSpec[]): readonly AnyMessage[] {
    const [first] = messages;
    const hasSystem = first?.role === "system" && typeof first.content === "string";
    const others = hasSystem ? messages.slice(1) : messages;
    if (this.#family?.systemTools === true) {
      const content = hasSystem ? first.content : "You are a helpful assistant with some tools.";
      const listed = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
      const system = { ...(hasSystem ? first : {}), role: "system", content, tools: JSON.stringify(listed) };
      return [system, ...others];
    }
    const example = this.#family!.write(
      [{ name: "function_name", arguments: { parameter: "value" } }],
      this.#template!,
    );
    const words = [
      "You may call these functions to answer the user:",
      ...tools.map(({ name, description, parameters }) => JSON.stringify({ name, description, parameters })),
      `To call a function, reply with nothing but its call, in this form:\n${example}`,
    ].join("\n");
    const system = hasSystem
      ? { ...first, content: `${String(first.content)}\n\n${words}` }
      : { role: "system", content: words };
    return [system, ...others];
  }

  /** Results say whose they are: some templates look for the name. */
  #result(message: AnyMessage, names: ReadonlyMap<unknown, string>): AnyMessage {
    const { tool_call_id: id, name } = message;
    const known = names.get(id);
    return {
      ...message,
      ...(typeof id === "string" ? { tool_call_id: this.#id(id) } : {}),
      ...(name === undefined && known !== undefined ? { name: known } : {}),
    };
  }

  #assistant(message: AnyMessage): AnyMessage {
    const { reasoning, tool_calls: _, ...rest } = message;
    const thoughts = message["reasoning_content"] ?? reasoning;
    const field = this.#family?.reasoningField ?? "reasoning_content";
    const told =
      typeof thoughts === "string" && thoughts !== "" ? { reasoning_content: thoughts, [field]: thoughts } : {};
    const calls = callsOf(message);
    if (calls.length === 0) return { ...rest, ...told };
    if (this.#form === "content") {
      const written = this.#family!.write(calls, this.#template!);
      const content = typeof message.content === "string" && message.content !== "" ? `${message.content}\n` : "";
      return { ...rest, ...told, content: content + written };
    }
    // Harmony's template takes thoughts or text beside a call, not both.
    const both = field === "thinking" && "thinking" in told ? { content: "" } : {};
    const empty = message.content === "" && this.#family?.emptyContent === null ? { content: null } : {};
    const given = calls.map(({ id, name, arguments: value }) => ({
      ...(typeof id === "string" ? { id: this.#id(id) } : {}),
      type: "function",
      function: {
        name,
        arguments: this.#form === "texts" && typeof value !== "string" ? JSON.stringify(value) : value,
      },
    }));
    return { ...rest, ...told, ...both, ...empty, tool_calls: given };
  }

  /** How the template takes calls: with arguments as objects or as texts, or not at all. */
  get #form(): "objects" | "texts" | "content" {
    this.#calls ??= this.#writes({ probed_value: probedValue })
      ? "objects"
      : this.#writes(`{"probed_value": "${probedValue}"}`)
        ? "texts"
        : "content";
    return this.#calls;
  }

  #writes(given: unknown): boolean {
    const { name } = probe.function;
    const call = { id: "probe0123", type: "function", function: { name, arguments: given } };
    const written = this.#rendered([
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", content: "y", tool_call_id: "probe0123", name },
    ]);
    return written.includes(probedValue);
  }

  /** A conversation with a tool as the template writes it; nothing where it refuses. */
  #rendered(more: readonly AnyMessage[]): string {
    try {
      return this.#template?.render([{ role: "user", content: "x" }, ...more], { tools: [probe] }) ?? "";
    } catch {
      return "";
    }
  }

  /** Ids of nine letters and digits where the template wants those: the same for the same. */
  #id(id: string): string {
    if (this.#family?.shortIds !== true || /^[A-Za-z0-9]{9}$/.test(id)) return id;
    let [high, low] = [0x811c9dc5, 0x1234567];
    for (let at = 0; at < id.length; at++) {
      high = Math.imul(high ^ id.charCodeAt(at), 0x01000193) >>> 0;
      low = (Math.imul(low, 31) + id.charCodeAt(at)) >>> 0;
    }
    return (high.toString(36) + low.toString(36)).padStart(9, "0").slice(-9);
  }
}

/** The calls of a message, whatever form its sender gave their arguments. */
function callsOf(message: AnyMessage): readonly (MadeCall & { readonly id: unknown })[] {
  const given = message["tool_calls"];
  if (!Array.isArray(given)) return [];
  return (given as readonly unknown[]).flatMap((each) => {
    const { id, function: called } = (each ?? {}) as {
      readonly id?: unknown;
      readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
    };
    if (typeof called?.name !== "string") return [];
    return [{ id, name: called.name, arguments: objectOf(called.arguments) }];
  });
}

function objectOf(given: unknown): unknown {
  if (typeof given !== "string") return given ?? {};
  try {
    return JSON.parse(given) as unknown;
  } catch {
    return given;
  }
}

/** A tool as templates know it. */
export const templateTool = ({ name, description, parameters }: ToolSpec): object => ({
  type: "function",
  function: { name, ...(description === undefined ? {} : { description }), parameters },
});
