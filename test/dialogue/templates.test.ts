// Round trips: what a published template writes of calls and thoughts is what the family's reader reads out of it again.
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Dialogue } from "../../packages/dialogue/dialogue.js";
import { familyOf } from "../../packages/dialogue/families.js";
import type { AnyMessage } from "../../packages/dialogue/family.js";
import { ChatTemplate } from "../../packages/text/template/chat-template.js";
import { templateStyles } from "../generate/template-styles.js";
import { became, tools } from "./support.js";

/** The family of each published template: its file's name in test/dialogue/templates. */
const published: Readonly<Record<string, string>> = {
  "Mistral-Small-3.2-24B-Instruct-2506": "mistral",
  "GLM-4.6": "glm",
  "Qwen-Qwen2.5-7B-Instruct": "hermes",
  "Qwen-Qwen3-0.6B": "hermes",
  "Qwen3-Coder": "qwen-coder",
  "Qwen3.5-4B": "qwen-coder",
  "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek",
  "deepseek-ai-DeepSeek-V3.1": "deepseek",
  "deepseek-ai-DeepSeek-V3.2": "deepseek",
  "google-gemma-4-31B-it": "gemma",
  "ibm-granite-granite-3.3-2B-Instruct": "granite",
  "ibm-granite-granite-4.0": "granite",
  "mistralai-Ministral-3-14B-Reasoning-2512": "mistral",
  "mistralai-Mistral-Nemo-Instruct-2407": "mistral",
  "openai-gpt-oss-120b": "harmony",
};

/** Templates of the others, in their manner: they list tools, and leave calls to the conversation's text. */
const inTheManner: Readonly<Record<string, { readonly family: string; readonly source: string }>> = {
  "Llama 3.1": { family: "llama3", source: templateStyles["Llama 3.1"].template },
  "Phi-4-mini": { family: "phi4", source: templateStyles["Phi-4-mini"].template },
  LFM2: {
    family: "lfm2",
    source: `{{- bos_token -}}{%- if tools -%}{{- "<|im_start|>system\\nList of tools: <|tool_list_start|>" + (tools | tojson) + "<|tool_list_end|><|im_end|>\\n" -}}{%- endif -%}
{%- for message in messages -%}{{- "<|im_start|>" + message["role"] + "\\n" + message["content"] + "<|im_end|>\\n" -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|im_start|>assistant\\n" -}}{%- endif -%}`,
  },
  FunctionGemma: {
    family: "function-gemma",
    source: `{%- macro value(of) -%}{%- if of is string -%}{{- "<escape>" + of + "<escape>" -}}{%- elif of is boolean or of is number -%}{{- of | tojson -}}{%- elif of is mapping -%}{{- "{" -}}{%- for k, v in of | items -%}{{- k -}}:{{- value(v) -}}{%- if not loop.last -%},{%- endif -%}{%- endfor -%}{{- "}" -}}{%- else -%}{{- "[" -}}{%- for v in of -%}{{- value(v) -}}{%- if not loop.last -%},{%- endif -%}{%- endfor -%}{{- "]" -}}{%- endif -%}{%- endmacro -%}
{%- for tool in tools or [] -%}{{- "<start_function_declaration>declaration:" + tool.function.name + "<end_function_declaration>" -}}{%- endfor -%}
{%- for message in messages -%}{{- "<start_of_turn>" + ("model" if message.role == "assistant" else message.role) + "\\n" + (message.content or "") -}}
{%- for call in message.tool_calls or [] -%}{{- "<start_function_call>call:" + call.function.name -}}{{- value(call.function.arguments) -}}{{- "<end_function_call>" -}}{%- endfor -%}{{- "<end_of_turn>\\n" -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<start_of_turn>model\\n" -}}{%- endif -%}`,
  },
};

const templates = [
  ...Object.entries(published).map(([name, family]) => ({
    name,
    family,
    source: readFileSync(new URL(`templates/${name}.jinja`, import.meta.url), "utf8"),
  })),
  ...Object.entries(inTheManner).map(([name, each]) => ({ name, ...each })),
];

/** Tokens of vocabularies whose templates do not spell them out. */
const vocabulary: Readonly<Record<string, readonly string[]>> = { "Phi-4-mini": ["<|tool_call|>"] };

async function dialogueOf(
  name: string,
  source: string,
): Promise<{
  readonly dialogue: Dialogue;
  readonly render: (messages: readonly AnyMessage[], more: object) => string;
}> {
  const template = await ChatTemplate.read(source);
  const own = { bos_token: "<s>", eos_token: "</s>" };
  const render = (messages: readonly AnyMessage[], more: object): string =>
    template.render({ messages, given: { ...more }, own }).text;
  const hasToken = (spelling: string): boolean => vocabulary[name]?.includes(spelling) === true;
  const written = { source, hasToken, render };
  return { dialogue: new Dialogue(written, familyOf(written)), render };
}

test("every published template is looked at", () => {
  const files = readdirSync(new URL("templates/", import.meta.url)).filter((file) => file.endsWith(".jinja"));
  expect(files.map((file) => file.replace(".jinja", "")).sort()).toEqual(Object.keys(published).sort());
});

const given = [
  { name: "get_weather", arguments: { city: "Köln, am Rhein", days: 3, exact: true, hours: [1, 2] } },
  { name: "search", arguments: { query: 'so "it" {is}', filter: { year: 2024, tags: ["a", "b"] } } },
];
const ends =
  /(<\|im_end\|>|<\/s>|<｜end▁of▁sentence｜>|<\|end_of_text\|>|<turn\|>|<\|eot_id\|>|<\|end\|>(<\/s>)?$|<\|tool_response>|<end_of_turn>|<\|call\|>)[^]*$/;

describe.each(templates)("$name", ({ name, family, source }) => {
  const user = { role: "user", content: "How is the weather?" };
  /** The assistant's turn as the template writes it, behind the prompt. */
  async function turn(message: AnyMessage): Promise<{ readonly written: string; readonly dialogue: Dialogue }> {
    const { dialogue, render } = await dialogueOf(name, source);
    const more = {
      tools: tools.map((tool) => ({ type: "function", function: { description: "", ...tool } })),
      thinking: true,
      enable_thinking: true,
    };
    const prompt = render(dialogue.messages([user], tools), { ...more, add_generation_prompt: true });
    const whole = render(dialogue.messages([user, message], tools), { ...more, add_generation_prompt: false });
    let same = 0;
    while (same < prompt.length && prompt[same] === whole[same]) same++;
    // A prompt opens thoughts that a finished turn may have none of.
    const from = same === prompt.length ? same : prompt.replace(/<think>\s*(<\/think>)?\s*$/, "").length;
    return { written: whole.slice(from).replace(ends, ""), dialogue };
  }
  const read = ({ written, dialogue }: Awaited<ReturnType<typeof turn>>, isOpen: boolean) => {
    const reader = dialogue.reader(isOpen ? "open" : "free", tools);
    return became([...reader.push(written), ...reader.end()]);
  };

  test("is of the family", async () => {
    const { dialogue } = await dialogueOf(name, source);
    expect([dialogue.family?.name, dialogue.hasTools]).toEqual([family, true]);
  });

  test("one call", async () => {
    const calls = given.slice(0, 1).map((call) => ({ id: "abcdefghi", type: "function", function: call }));
    const made = await turn({ role: "assistant", content: "", tool_calls: calls });
    const isOpen = made.written.includes("</think>") && !made.written.includes("<think>");
    const found = read(made, isOpen);
    expect(found.calls.map(([called, text, isDone]) => [called, JSON.parse(text) as unknown, isDone])).toEqual(
      given.slice(0, 1).map((call) => [call.name, call.arguments, true]),
    );
    expect(found.text.trim()).toBe("");
  });

  // Llama's and Harmony's templates take one call a turn.
  test.skipIf(family === "llama3" || family === "harmony")("several calls and text", async () => {
    const calls = given.map((call, at) => ({ id: `abcdefgh${at}`, type: "function", function: call }));
    const made = await turn({ role: "assistant", content: "I look.", tool_calls: calls });
    const isOpen = made.written.includes("</think>") && !made.written.includes("<think>");
    const found = read(made, isOpen);
    expect(found.calls.map(([called, text]) => [called, JSON.parse(text) as unknown])).toEqual(
      given.map((call) => [call.name, call.arguments]),
    );
    // Templates of some say nothing beside calls, or say it behind them.
    expect(["I look.", ""]).toContain(found.text.trim());
  });

  test("a call, its result and the question after it are taken back", async () => {
    const { dialogue, render } = await dialogueOf(name, source);
    const calls = given.slice(0, 1).map((call) => ({
      id: "call_0123456789",
      type: "function",
      function: { ...call, arguments: JSON.stringify(call.arguments) },
    }));
    const said = dialogue.messages(
      [
        user,
        { role: "assistant", content: "", reasoning_content: "Köln, then.", tool_calls: calls },
        { role: "tool", tool_call_id: "call_0123456789", content: "sunny-and-21" },
      ],
      tools,
    );
    const text = render(said, {
      tools: tools.map((tool) => ({ type: "function", function: { description: "", ...tool } })),
      add_generation_prompt: true,
      enable_thinking: true,
      thinking: true,
    });
    for (const part of ["get_weather", "am Rhein", "sunny-and-21"]) expect(text).toContain(part);
    expect(text.indexOf("am Rhein")).toBeLessThan(text.indexOf("sunny-and-21"));
  });
});

test("what was thought is read again while a call's result comes, and dropped from the next turn, as the template has it", async () => {
  const source = readFileSync(new URL("templates/Qwen-Qwen3-0.6B.jinja", import.meta.url), "utf8");
  const { dialogue, render } = await dialogueOf("Qwen 3", source);
  const call = { id: "a", type: "function", function: { name: "now", arguments: {} } };
  const thought = { role: "assistant", content: "", reasoning: "a deep thought", tool_calls: [call] };
  const result = { role: "tool", tool_call_id: "a", content: "noon" };
  const during = render(dialogue.messages([{ role: "user", content: "x" }, thought, result]), {
    add_generation_prompt: true,
  });
  expect(during).toContain("a deep thought");
  const later = render(
    dialogue.messages([
      { role: "user", content: "x" },
      thought,
      result,
      { role: "assistant", content: "Noon.", reasoning_content: "another" },
      { role: "user", content: "y" },
    ]),
    { add_generation_prompt: true },
  );
  expect(later).not.toMatch(/deep thought|another/);
});

test("whether a prompt ends in thoughts", async () => {
  const prompts: Record<string, unknown> = {};
  for (const name of ["Qwen-Qwen3-0.6B", "Qwen3.5-4B", "deepseek-ai-DeepSeek-V3.1"]) {
    const source = readFileSync(new URL(`templates/${name}.jinja`, import.meta.url), "utf8");
    const { dialogue, render } = await dialogueOf(name, source);
    const at = (enabled: boolean): string =>
      dialogue.thoughtsAt(
        render([{ role: "user", content: "x" }], {
          ...dialogue.thinkingOptions({ enabled }),
          add_generation_prompt: true,
        }),
      );
    prompts[name] = [at(true), at(false)];
  }
  expect(prompts).toEqual({
    "Qwen-Qwen3-0.6B": ["free", "closed"],
    "Qwen3.5-4B": ["open", "closed"],
    "deepseek-ai-DeepSeek-V3.1": ["open", "closed"],
  });
});
