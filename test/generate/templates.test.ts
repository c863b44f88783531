// Chat templates: rendered as @huggingface/jinja's own interpreter renders them, and never without end. The library is the oracle for what
// a template writes; for its cost the limits are.
import { Environment, Interpreter, Template } from "@huggingface/jinja";
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { ChatTemplate, type ChatValues } from "../../packages/text/template/chat-template.js";
import { seededRandom } from "../../src/graph/call.js";
import { randomTemplate } from "./random-template.js";
import { templateStyles, tools } from "./template-styles.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 31_337);

const call = {
  id: "c1",
  type: "function",
  function: { name: "get_weather", arguments: { city: "Köln", days: [1, 2] } },
};

/** Conversations of the usual kinds; templates may refuse some. */
const conversations: Readonly<Record<string, readonly object[]>> = {
  "a question": [{ role: "user", content: " Hello there \n" }],
  "a system message": [
    { role: "system", content: "Be brief." },
    { role: "user", content: "What is 1 < 2 && 3?" },
    { role: "assistant", content: "True." },
    { role: "user", content: "Thanks" },
  ],
  "a call of a tool": [
    { role: "user", content: "How warm is it?" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", content: '{"temperature": 21}' },
    { role: "assistant", content: "It is 21 degrees." },
    { role: "user", content: "Thanks" },
  ],
  "an answer with its thoughts": [
    { role: "user", content: "Why?" },
    { role: "assistant", content: "<think>\nbecause\n</think>\n\nSo that." },
    { role: "user", content: "And then?" },
    { role: "assistant", content: "<think>\nmore\n</think>\n\nNothing." },
  ],
  parts: [{ role: "user", content: [{ type: "image" }, { type: "text", text: " what is this? " }] }],
};

describe.each(Object.entries(templateStyles))("%s", (_, { template, special }) => {
  const own = { bos_token: special[0], eos_token: special[1] };
  const variants: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
    plain: { add_generation_prompt: true },
    tools: { add_generation_prompt: true, tools },
    "not thinking": { add_generation_prompt: true, enable_thinking: false },
    finished: { add_generation_prompt: false },
  };
  test("is rendered as the library renders it", async () => {
    const oracle = new Template(template);
    const ours = await ChatTemplate.read(template);
    let rendered = 0;
    for (const [name, messages] of Object.entries(conversations))
      for (const [variant, given] of Object.entries(variants)) {
        const wanted = attempt(() => oracle.render({ ...own, ...given, messages }));
        const found = attempt(() => ours.render({ messages, given, own }).text);
        expect(found, `${name}, ${variant}`).toEqual(wanted);
        if (wanted !== refused) rendered++;
      }
    expect(rendered).toBeGreaterThan(6);
  });
});

const refused = Symbol("refused");
const attempt = (work: () => string): string | typeof refused => {
  try {
    return work();
  } catch {
    return refused;
  }
};

const values: ChatValues = {
  own: { bos_token: "<s>" },
  given: {
    tools: [{ type: "function", function: { name: "get", parameters: { a: [1, 2.5, null, true], "k<": "v" } } }],
    n: 1,
    names: ["b", "a", "B"],
    flag: true,
    empty: "",
  },
  messages: [
    { role: "user", content: "Hello, wörld" },
    { role: "assistant", content: "a<x>,b c" },
    { role: "user", content: " trim me " },
  ],
};

interface LibraryValue {
  readonly type: string;
  readonly value: unknown;
}
const LibraryInterpreter = Interpreter as new (names: object) => {
  evaluate(node: unknown, names: unknown): LibraryValue | undefined;
  run(program: unknown): LibraryValue;
};

/** The library's interpreter, which notes where it falls back on JavaScript's own words for things: there it has no answer. */
class Oracle extends LibraryInterpreter {
  answers = true;

  override evaluate(node: unknown, names: unknown): LibraryValue | undefined {
    const found = super.evaluate(node, names);
    const text = found?.type === "StringValue" ? found.value : "";
    if (found === undefined || typeof text !== "string" || /\[object |=>|undefined/.test(text)) this.answers = false;
    return found;
  }
}

/** What the library writes, or that it refuses, or has no answer. */
function answered(source: string): string | typeof refused {
  return attempt(() => {
    const names = new Environment();
    const range = (start: number, stop?: number, step = 1): number[] => {
      const [from, to] = stop === undefined ? [0, start] : [start, stop];
      return Array.from({ length: Math.max(0, Math.ceil((to - from) / step)) }, (_, at) => from + at * step);
    };
    const globals = { true: true, false: false, none: null, range };
    for (const [name, value] of Object.entries({
      ...globals,
      ...values.own,
      ...values.given,
      messages: values.messages,
    }))
      names.set(name, value);
    const oracle = new Oracle(names);
    const { value } = oracle.run(new Template(source).parsed);
    if (!oracle.answers) throw new Error("no answer");
    return String(value);
  });
}

test("random templates are rendered as the library renders them, every character with its mark", async () => {
  const random = seededRandom(seed);
  const count = soak ? 40_000 : 1_000;
  let same = 0;
  for (let index = 0; index < count; index++) {
    const source = randomTemplate(random);
    const wanted = answered(source);
    if (wanted === refused) continue;
    const { text, marks } = (await ChatTemplate.read(source)).render(values);
    expect(text, `${source}, seed ${seed}`).toBe(wanted);
    expect(marks).toHaveLength(text.length);
    same++;
  }
  expect(same).toBeGreaterThan(count / 4);
});

/** Templates that would hang, or take all memory there is. */
const endless: Readonly<Record<string, string>> = {
  "a long range": "{% for i in range(1000000000) %}{% endfor %}",
  "a range backwards": "{% for i in range(1000000000, 0, -1) %}{% endfor %}",
  "a range in small steps": "{% for i in range(0, 1, 0.000000001) %}{% endfor %}",
  "ranges in ranges":
    "{% for i in range(1000) %}{% for j in range(1000) %}{% for k in range(1000) %}{% endfor %}{% endfor %}{% endfor %}",
  "a text that doubles":
    "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
  "a text that doubles by +":
    "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
  "a text that doubles in a block":
    "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
  "a text that grows by replacements":
    "{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set ns.x = ns.x.replace('a', 'aaaa') %}{% endfor %}",
  "a text that grows between its letters":
    "{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set ns.x = ns.x | replace('', 'a') %}{% endfor %}",
  "a text that grows by joining":
    "{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x, ns.x] | join(ns.x) %}{% endfor %}",
  "a text whose letters are joined":
    "{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set ns.x = ns.x | join(ns.x) %}{% endfor %}",
  "a wide indentation": "{{ 'a\nb' | indent(2000000000) }}",
  "an indentation that grows":
    "{% set ns = namespace(x='a\n') %}{% for i in range(64) %}{% set ns.x = (ns.x ~ ns.x) | indent(4000, true, true) %}{% endfor %}",
  "JSON with wide indentation": "{{ [[1]] | tojson(indent=2000000000) }}",
  "JSON of a list that holds itself twice":
    "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
  "a list that holds itself twice, shown":
    "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
  "a list that holds itself twice, added":
    "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ 'a' ~ ns.x }}",
  "an object that holds itself twice":
    "{% set ns = namespace(x={'a': 1}) %}{% for i in range(64) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x }}",
  "a namespace that holds itself": "{% set ns = namespace(x=1) %}{% set ns.x = ns %}{{ ns | tojson }}",
  "a list that doubles":
    "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
  "a macro that calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
  "a macro that calls itself twice":
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
  "a macro whose default calls it": "{% macro f(a=f()) %}{% endmacro %}{{ f() }}",
  "a call block that calls itself": "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
  "sorting long texts":
    "{% set ns = namespace(x='ab') %}{% for i in range(16) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{% set ys = namespace(x=[ns.x]) %}{% for i in range(14) %}{% set ys.x = ys.x + ys.x %}{% endfor %}{{ ys.x | sort | length }}",
  "searching for long texts":
    "{% set ns = namespace(x='aa') %}{% for i in range(20) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ('b' ~ ns.x) in (ns.x ~ ns.x) }}",
  "looking into a long list again and again":
    "{% set long = range(100000) %}{% for i in long %}{% if 'x' in long %}{% endif %}{% endfor %}",
  "a long list of letters":
    "{% set ns = namespace(x='ab') %}{% for i in range(23) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x.split('a') | length }}",
  "slices of slices":
    "{% set ns = namespace(x=range(100000)) %}{% for i in range(1000) %}{% set ns.x = ns.x[::-1] %}{% endfor %}",
  "texts that are changed again and again":
    "{% set ns = namespace(x='ab') %}{% for i in range(18) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{% for i in range(100000) %}{% set ns.x = ns.x | upper | lower %}{% endfor %}",
  "texts that are trimmed again and again":
    "{% set ns = namespace(x='ab') %}{% for i in range(18) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{% for i in range(100000) %}{% set ns.x = ns.x | trim %}{% endfor %}",
  "a date in many letters":
    "{% set ns = namespace(x='%B') %}{% for i in range(30) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ strftime_now(ns.x) }}",
  "a loop that goes on in its condition": "{% for i in range(100000) if 'x' in range(100000) %}{% endfor %}",
  "filters in filters": `${"{% filter upper %}".repeat(3000)}a${"{% endfilter %}".repeat(3000)}`,
  "parentheses in parentheses": `{{ ${"(".repeat(100_000)}1${")".repeat(100_000)} }}`,
  "a sum of many": `{{ ${"1 + ".repeat(50_000)}1 }}`,
  "ifs in ifs": `${"{% if true %}".repeat(20_000)}${"{% endif %}".repeat(20_000)}`,
  "more white space than a template has": `a${" ".repeat(400_000)}b`,
  "a template without end": "a{{ 1 }}".repeat(100_000),
};

describe("what would take forever is refused by its limit", () => {
  test.each(Object.entries(endless))("%s", async (_, source) => {
    const render = async (): Promise<unknown> => (await ChatTemplate.read(source)).render(values);
    const error = await render().then(
      () => expect.fail("it was rendered"),
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(InsituError);
    expect((error as InsituError).message).toMatch(
      /takes more than \d+ steps|makes more than \d+ characters|nests|has \d+ characters, more than|white space in one piece/,
    );
  });
});

test("a long conversation is far from the limits", async () => {
  const { template } = templateStyles["Qwen 3"];
  const messages = Array.from({ length: 2_000 }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: `${"word ".repeat(100)}${index}`,
  }));
  const { text } = (await ChatTemplate.read(template)).render({
    messages,
    given: { add_generation_prompt: true },
    own: {},
  });
  expect(text.length).toBeGreaterThan(1_000_000);
});
