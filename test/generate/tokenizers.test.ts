// Tokenizers as the models of the field have them: text streams out of each as it went in, whole characters and leading spaces included.
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { TextStream } from "../../src/engine/text-stream.js";
import { TextTokenizer } from "../../src/generate/tokenizer.js";
import { tokenizerStyles } from "./tokenizer-styles.js";

const texts = [
  "Once upon a time there was a king who had three daughters.",
  "two  spaces,   three, and a line\n\nbetween them\n",
  " begins with a space",
  "Schneewittchen aß den Apfel, naïve café, żółć",
  "昔々、ある所に王様がいました。",
  "😀😀 a family 👨‍👩‍👧 and a flag 🇩🇪!",
  'if (a <= b) { return "\\t"; } // 12345',
];

describe.each(Object.entries(tokenizerStyles))("%s", (_, style) => {
  test.each(texts)("%j", async (text) => {
    const tokenizer = await TextTokenizer.load({ tokenizer: style });
    const tokens = tokenizer.encode(text);
    const whole = tokenizer.decode(tokens);
    // Some styles drop one space at the beginning of a text: that is their decoder's to say.
    expect([text, text.replace(/^ /, "")]).toContain(whole);
    for (let cut = 0; cut <= tokens.length; cut++) {
      const before = tokenizer.decode(tokens.slice(0, cut));
      const stream = new TextStream(tokenizer, tokens.slice(0, cut));
      const pieces = tokens.slice(cut).map((token) => stream.push(token));
      const shown = pieces.join("") + stream.end();
      // A character that the prompt leaves unfinished comes with the text.
      expect(before.replace(/\uFFFD+$/, "") + shown, `cut ${cut}`).toBe(whole);
      for (const piece of pieces) expect(piece, `cut ${cut}`).not.toMatch(/\uFFFD|^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/);
    }
  });

  test("half a surrogate pair is no text", async () => {
    const tokenizer = await TextTokenizer.load({ tokenizer: style });
    expect(() => tokenizer.encode("a\uD83D")).toThrow(/there is half of a surrogate pair at index 1/);
    expect(() => tokenizer.encode("\uDE00")).toThrow(InsituError);
    expect(tokenizer.decode(tokenizer.encode("😀"))).toBe("😀");
  });
});

const gpt2 = tokenizerStyles["GPT-2"];

test("letters that stand for bytes are decoded token by token, as all of them at once", async () => {
  const added = [
    { id: 900, content: "<tool>", special: false },
    { id: 901, content: "<end>", special: true },
  ];
  const tokenizer = await TextTokenizer.load({
    tokenizer: { ...gpt2, added_tokens: added },
  });
  let decoded = 0;
  const watched = {
    decode(tokens: readonly number[]) {
      decoded++;
      return tokenizer.decode(tokens);
    },
    bytesOf: (token: number) => tokenizer.bytesOf(token),
  };
  const tokens = texts.flatMap((text) => [...tokenizer.encode(text), 900, 901]);
  // Half a character before a token that was added, and numbers that are no token.
  const broken = [...tokens, ...tokenizer.encode("😀").slice(0, 1), 900, 123_456, 901, ...tokens.slice(0, 3)];
  for (const all of [tokens, broken]) {
    const stream = new TextStream(watched, []);
    expect(all.map((token) => stream.push(token)).join("") + stream.end()).toBe(tokenizer.decode(all));
  }
  expect(decoded).toBe(0);
  const other = await TextTokenizer.load({
    tokenizer: tokenizerStyles["Llama 2"],
  });
  expect(other.bytesOf(5)).toBeUndefined();
});

/** The shapes of published templates: roles in tags, a system message folded in or refused, tools as JSON. */
const chatMl = `{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- '# Tools\\n<tools>' }}{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}{{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}{{- '<|im_start|>assistant\\n' + message.content }}
{%- for call in message.tool_calls or [] %}{{- '<tool_call>' + (call.function | tojson) + '</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>' + message.content + '</tool_response><|im_end|>\\n' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`;
const llama3 = `{{- bos_token }}{% for message in messages %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}`;
const gemma = `{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}`;

describe("chat templates", () => {
  const system = { role: "system", content: "Be brief." };
  const user = { role: "user", content: "Hello " };
  const load = (chat_template: unknown): Promise<TextTokenizer> =>
    TextTokenizer.load({
      tokenizer: gpt2,
      config: { chat_template, bos_token: "<s>", eos_token: { content: "<|end|>" } },
    });

  test("ChatML with a system message, tools, calls and their answers", async () => {
    const tokenizer = await load(chatMl);
    expect(tokenizer.renderChat([system, user])).toBe(
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello <|im_end|>\n<|im_start|>assistant\n",
    );
    const tools = [{ type: "function", function: { name: "time", parameters: {} } }];
    const called = { role: "assistant", content: "", tool_calls: [{ function: { name: "time", arguments: {} } }] };
    expect(
      tokenizer.renderChat([system, user, called, { role: "tool", content: "noon" }], {
        tools,
        add_generation_prompt: false,
      }),
    ).toBe(
      '<|im_start|>system\nBe brief.\n\n# Tools\n<tools>\n{"type": "function", "function": {"name": "time", "parameters": {}}}\n</tools><|im_end|>\n' +
        "<|im_start|>user\nHello <|im_end|>\n" +
        '<|im_start|>assistant\n<tool_call>{"name": "time", "arguments": {}}</tool_call><|im_end|>\n' +
        "<|im_start|>user\n<tool_response>noon</tool_response><|im_end|>\n",
    );
  });

  test("Llama 3's headers", async () => {
    expect((await load(llama3)).renderChat([system, user])).toBe(
      "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>" +
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    );
  });

  test("Gemma's roles, which are refused in its own words", async () => {
    const tokenizer = await load(gemma);
    expect(tokenizer.renderChat([user, { role: "assistant", content: "Hi" }, user])).toBe(
      "<s><start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\nHi<end_of_turn>\n<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n",
    );
    expect(() => tokenizer.renderChat([system, user])).toThrow(
      /the chat template refuses the messages: .*System role not supported/,
    );
    expect(() => tokenizer.renderChat([user, user])).toThrow(/roles must alternate/);
  });

  test("of several templates the default one", async () => {
    const named = [
      { name: "tool_use", template: "tools" },
      { name: "default", template: "plain" },
    ];
    expect((await load(named)).renderChat([user])).toBe("plain");
  });

  test("none at all: one sentence", async () => {
    const tokenizer = await load(undefined);
    expect(tokenizer.hasChatTemplate).toBe(false);
    expect(tokenizer.endToken).toBe(0);
    expect(() => tokenizer.renderChat([user])).toThrow(/^the model has no chat template: give the prompt as text/);
  });
});
