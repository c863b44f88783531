// Texts by regular expressions and by grammars in GBNF, as llama.cpp and vLLM take them: RegExp, and a recursive reader written here, are the oracles.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CausalLM } from "../../src/entry/node.js";
import type { TextRule } from "../../packages/choice/constraint.js";
import { createServer } from "../../packages/serve/server.js";
import { loadModel } from "../serve/scripted-engine.js";

let lm: CausalLM;
beforeAll(async () => {
  lm = await loadModel();
});
afterAll(() => lm?.release());

async function takes(rule: TextRule, text: string): Promise<boolean> {
  const held = await lm.constrain(rule);
  try {
    return held.allows!(text);
  } finally {
    held.release();
  }
}

describe("regular expressions", () => {
  const texts = ["", "a", "ab", "abc", "123", "12-34", "2024-02-30", "foo@bar.de", "a\nb", "é", "yes", "no", "yesno"];
  test.each([
    "[a-z]+",
    "\\d{2}-\\d{2}",
    "yes|no",
    "(?:ab?c?)?",
    "^abc$",
    ".*",
    "[^]*",
    "\\w+@\\w+\\.de",
    "é|a",
    "\\d{4}-(0[1-9]|1[0-2])-\\d\\d",
  ])("%s", async (pattern) => {
    for (const text of texts) {
      const wanted = new RegExp(`^(?:${pattern})$`, "u").test(text);
      expect([text, await takes({ kind: "regex", pattern }, text)]).toEqual([text, wanted]);
    }
  });

  test("the model keeps to one, and an option says so", async () => {
    for (const seed of [1, 2, 3]) {
      const made = lm.generate("The date:", { regex: /\d{4}-\d{2}-\d{2}/, seed });
      expect(await made.text()).toMatch(/^\d{4}-\d{2}-\d{2}$/);
      expect(made.summary.finishReason).toBe("end");
    }
    expect(await lm.chat().send("Well?", { regex: "(yes|no)", seed: 1 }).text()).toMatch(/^(yes|no)$/);
    expect(() => lm.generate("x", { regex: /a/i })).toThrow("flags i, m and s");
    expect(() => lm.generate("x", { regex: "a", jsonSchema: true })).toThrow("exclude each other");
    // A group that is repeated, and what nothing matches.
    for (const regex of ["(a)\\1", "(?=a)b"])
      await expect(lm.generate("x", { regex }).text()).rejects.toThrow("the regular expression cannot be enforced");
  });
});

const arithmetic = `
# sums of products
root ::= expression "\\n"?
expression ::= term ([-+] term)*
term ::=
    factor
  | factor "*" term   # to the right
factor ::= number | "(" expression ")"
number ::= [0-9]{1,3} ("." [0-9]+)?
`;

const json = `
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\\"" ( [^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\\n" [ \\t]{0,20}
`;

describe("grammars", () => {
  test("of sums, in several lines, with comments and counts", async () => {
    const rule = { kind: "grammar", grammar: arithmetic } as const;
    for (const right of ["1", "1+2*3", "(1-2)*(3.5+44)\n", "((7))"])
      expect([right, await takes(rule, right)]).toEqual([right, true]);
    for (const wrong of ["", "1+", "1234", "()", "(1", "1.", "a"])
      expect([wrong, await takes(rule, wrong)]).toEqual([wrong, false]);
  });

  test("of JSON, as llama.cpp has it", async () => {
    const rule = { kind: "grammar", grammar: json } as const;
    for (const right of ['{"a": [1, 2.5e3, {"b": null}]}', "{}", '{"\\u00e9": "x\\n"}'])
      expect([right, await takes(rule, right)]).toEqual([right, true]);
    for (const wrong of ["[1]", '{"a" 1}', '{"a": 01x}'])
      expect([wrong, await takes(rule, wrong)]).toEqual([wrong, false]);
    for (const seed of [1, 2, 3]) {
      const made = lm.generate("It says:", { grammar: json, seed, maxTokens: 80 });
      const text = await made.text();
      if (made.summary.finishReason === "end") expect(() => JSON.parse(text)).not.toThrow();
    }
  });

  test("signs beyond ASCII, any character, and empty alternatives", async () => {
    expect(await takes({ kind: "grammar", grammar: 'root ::= [\\u00e4\\U0001F600] . ("" | "\\x41")' }, "😀zA")).toBe(
      true,
    );
    expect(await takes({ kind: "grammar", grammar: "root ::= [^a-z]+ | [-\\]]" }, "]")).toBe(true);
    expect(await takes({ kind: "grammar", grammar: 'root ::= "a"{2,3} "b"{,2} "c"{2}' }, "aabbcc")).toBe(true);
    expect(await takes({ kind: "grammar", grammar: 'root ::= "a"{2,3} "b"{,2} "c"{2}' }, "abcc")).toBe(false);
  });

  test.each([
    ['expr ::= "a"', '"root"'],
    ["root ::= other", '"other"'],
    ['root ::= root "a" | "b"', "begins with itself"],
    ['root ::= a\na ::= b?  root "x" | "y"\nb ::= "z"', "begins with itself"],
    ['root ::= "a" root', "without end"],
    ['root ::= "a', "line 1"],
    ['root ::= "a"\nnext ::= (', "line 2"],
    ["root ::= [z-a]", "class"],
    ['root ::= "a"{3,1}', "{3,1}"],
    ['root ::= "a"{5000}', "1024"],
    ['root ::= "a" ; "b"', '";"'],
    ['root ::= "a"\nroot ::= "b"', "already"],
    ["", '"root"'],
    [Array.from({ length: 2001 }, (_, at) => `r${at} ::= "a"`).join("\n"), "2000 rules"],
    [`root ::= ${"(".repeat(80)}"a"${")".repeat(80)}`, "64 groups"],
  ])("%.60s is refused", async (grammar, why) => {
    await expect(lm.constrain({ kind: "grammar", grammar })).rejects.toThrow(why);
    await expect(lm.constrain({ kind: "grammar", grammar })).rejects.toMatchObject({ code: "invalid-argument" });
  });
});

test("vLLM's and llama.cpp's fields of requests", async () => {
  const server = createServer(lm, { model: "embedded" });
  await server.ready;
  const ask = async (
    path: string,
    more: object,
  ): Promise<{ readonly status: number; readonly body: Record<string, never> }> => {
    const chat = path.includes("chat") ? { messages: [{ role: "user", content: "Well?" }] } : { prompt: "Well:" };
    const body = JSON.stringify({ ...chat, max_tokens: 60, seed: 2, ...more });
    const answer = await server.fetch(new Request(`http://localhost/v1/${path}`, { method: "POST", body }));
    return { status: answer.status, body: (await answer.json()) as Record<string, never> };
  };
  const schema = { type: "object", properties: { n: { type: "integer", minimum: 1, maximum: 9 } }, required: ["n"] };
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ guided_regex: "[ab]{3}" }, /^[ab]{3}$/],
    [{ guided_choice: ["wolf", "fox"] }, /^(wolf|fox)$/],
    [{ guided_grammar: 'root ::= "x" [0-9]+ "."' }, /^x[0-9]+\.$/],
    [{ guided_json: schema }, /^\{ ?"n": ?[1-9] ?\}$/],
    [{ guided_json: JSON.stringify(schema) }, /^\{ ?"n": ?[1-9] ?\}$/],
    [{ structured_outputs: { regex: "[ab]{3}" } }, /^[ab]{3}$/],
    [{ structured_outputs: { choice: ["wolf"] } }, /^wolf$/],
    [{ structured_outputs: { json: schema } }, /^\{ ?"n": ?[1-9] ?\}$/],
    [{ structured_outputs: { grammar: 'root ::= "y"' } }, /^y$/],
    [{ grammar: 'root ::= "z"{2}' }, /^zz$/],
    [{ json_schema: schema }, /^\{ ?"n": ?[1-9] ?\}$/],
  ];
  for (const [more, wanted] of cases)
    for (const path of ["chat/completions", "completions"]) {
      const { status, body } = await ask(path, more);
      const [choice] = body["choices"] as readonly {
        readonly message?: { readonly content: string };
        readonly text: string;
        readonly finish_reason: string;
      }[];
      const text = choice.message?.content ?? choice.text;
      expect({ more, status, finish: choice.finish_reason, right: wanted.test(text), text }).toEqual({
        more,
        status: 200,
        finish: "stop",
        right: true,
        text,
      });
    }
  const { status, body } = await ask("completions", { guided_regex: "a", grammar: 'root ::= "a"' });
  expect([status, JSON.stringify(body)]).toEqual([400, expect.stringContaining("excluded by guided_regex")]);
  const bad = await ask("completions", { grammar: "root ::= (" });
  expect([bad.status, JSON.stringify(bad.body)]).toEqual([400, expect.stringContaining("line 1")]);
  await server.close();
});
