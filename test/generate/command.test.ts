// `insitu generate` and `insitu chat` as they are typed: prompts by argument and by pipe, JSON, Ctrl-C, and one clear sentence for mistakes.
// What needs no standard input, signal or exit code of a process runs in this one.
import { spawn, spawnSync } from "node:child_process";
import { afterAll, describe, expect, test } from "vitest";
import { builtCommand } from "../support/built.js";
import { type Ended, insituHere } from "../support/command-line.js";
import { hubFolder } from "./support.js";

function insitu(args: string[], input: string | Uint8Array = ""): Ended {
  return spawnSync(process.execPath, [builtCommand, ...args], { encoding: "utf8", input });
}

interface Result {
  prompt: string;
  text: string;
  tokens: number[];
  [name: string]: unknown;
}

const piped = (args: string[], input?: string): Result =>
  JSON.parse(insitu([...args, "--json"], input).stdout) as Result;
const json = async (args: string[]): Promise<Result> =>
  JSON.parse((await insituHere([...args, "--json"])).stdout) as Result;

describe("generate", () => {
  test("text, then one line about it, apart from the text where that goes elsewhere", () => {
    const { status, stdout, stderr } = insitu(["generate", "The wolf", "--max-tokens", "12", "--seed", "1"]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^The wolf[^[]*\n$/);
    expect(stderr.trimEnd()).toMatch(
      /^\[\d+ prompt tokens, 12 new · first token after \d+ ms · \d+ tokens a second · caches 3\.0 MiB · written in place .* · a runtime that copies its caches would have moved .* · seed 1\]$/,
    );
  });

  test("the prompt may come on standard input, and from nowhere", async () => {
    const args = ["generate", "--max-tokens", "6", "--temperature", "0"];
    const result = piped(args, "The wolf\n");
    expect(result).toMatchObject({ prompt: "The wolf", newTokens: 6, finishReason: "length", movedBytes: 0 });
    expect(result.tokens).toHaveLength(6);
    expect(piped([...args, "-"], "The wolf").text).toBe(result.text);
    expect((await json([...args, "The wolf"])).text).toBe(result.text);
    expect(piped(args).prompt).toMatch(/^Once upon a time/);
  });

  test("options reach the model", async () => {
    const args = ["generate", "The wolf", "--max-tokens", "20"];
    const greedy = await json([...args, "--temperature", "0"]);
    expect((await json([...args, "--top-k", "1", "--temperature", "5", "--repetition-penalty", "1"])).text).toBe(
      greedy.text,
    );
    const seeded = await json([...args, "--seed", "4"]);
    expect((await json([...args, "--seed", "4", "--threads", "1"])).text).toBe(seeded.text);
    expect(await json([...args, "--temperature", "0", "--context", "8"])).toMatchObject({
      context: 8,
      finishReason: "context",
    });
    const slid = await json([...args, "--temperature", "0", "--context", "8", "--when-full", "slide"]);
    expect(slid).toMatchObject({ newTokens: 20, finishReason: "length" });
    const word = greedy.text.trim().split(" ")[2];
    expect((await json([...args, "--temperature", "0", "--stop", word])).finishReason).toBe("stop");
  });

  test("Ctrl-C ends the text and leaves the summary", async () => {
    const child = spawn(process.execPath, [
      builtCommand,
      "generate",
      "The wolf",
      "--max-tokens",
      "100000",
      "--when-full",
      "slide",
    ]);
    let [stdout, stderr] = ["", ""];
    let sent = false;
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      if (stdout.length > 60 && !sent) sent = child.kill("SIGINT");
    });
    const status = await new Promise((resolve) => child.on("close", resolve));
    expect(status).toBe(130);
    expect(stderr.trimEnd()).toMatch(/^\[.* · interrupted · seed \d+\]$/);
  });

  test("a folder with a chat template answers; --raw continues", async () => {
    const template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    const folder = hubFolder("llama_op24", { "tokenizer_config.json": { chat_template: template } });
    const args = ["generate", "hi", "--model", folder.path, "--max-tokens", "3", "--temperature", "0"];
    expect(await json(args)).toMatchObject({ promptTokens: "<user>hi".length, newTokens: 3 });
    expect(await json([...args, "--raw"])).toMatchObject({ promptTokens: 2, newTokens: 3 });
    folder.remove();
  });
});

test("chat reads only what is new, and takes turns back", () => {
  const lines = [
    "There was a miller.",
    "He had a cat.",
    "/back",
    "/back 5",
    "/nonsense",
    "He had a dog.",
    "/quit",
    "never read",
  ];
  const { status, stdout, stderr } = insitu(["chat", "--max-tokens", "8", "--seed", "1"], `${lines.join("\n")}\n`);
  expect(status).toBe(0);
  const summaries = stderr.split("\n").filter((line) => line.startsWith("["));
  expect(summaries).toHaveLength(3);
  expect(summaries[0]).not.toContain("read before");
  expect(summaries[1]).toMatch(/\(\d+ read before\)/);
  expect(stdout).toContain("1 turn is left");
  expect(stdout).toContain("has 1 turns and cannot take back 5");
  expect(stdout).toContain("/undo [n]");
});

test("a reader that goes away early is no error", async () => {
  const child = spawn(process.execPath, [
    builtCommand,
    "generate",
    "The wolf",
    "--max-tokens",
    "400",
    "--when-full",
    "slide",
  ]);
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdout.once("data", () => child.stdout.destroy());
  const status = await new Promise((resolve) => child.on("exit", resolve));
  expect([status, stderr]).toEqual([0, ""]);
});

const noTokenizer = hubFolder("llama_op24", { "tokenizer.json": undefined });
afterAll(() => noTokenizer.remove());

describe("mistakes are one sentence on standard error, and an exit code: 2 for what was typed, 1 for what was found", () => {
  /** Those with an input run in a process of their own. */
  const mistakes: [what: string, args: string[], message: RegExp, input?: string | Uint8Array][] = [
    [
      "a folder that is not there",
      ["generate", "x", "--model", "no/such/folder"],
      /there is nothing at "no\/such\/folder": a model is a folder/,
    ],
    ["an empty prompt", ["generate", ""], /the prompt is empty/, ""],
    ["no prompt for a model", ["generate", "--model", "x"], /there is no prompt/, ""],
    ["a prompt that is not UTF-8", ["generate"], /not UTF-8/, Uint8Array.of(0x61, 0xff, 0xfe)],
    [
      "a prompt longer than the context",
      ["generate", "a b c d e f g h", "--context", "4"],
      /prompt has \d+ tokens, the context holds 4/,
    ],
    [
      "a temperature below 0",
      ["generate", "x", "--temperature", "-1"],
      /--temperature must be a number from 0 on, got -1/,
    ],
    ["a top-p above 1", ["generate", "x", "--top-p", "1.5"], /--top-p must be above 0 and at most 1, got 1.5/],
    ["no threads", ["generate", "x", "--threads", "0"], /--threads must be a whole number from 1 on, got 0/],
    ["a number that is none", ["generate", "x", "--max-tokens", "many"], /--max-tokens must be a number, got "many"/],
    ["half a token", ["generate", "x", "--max-tokens", "1.5"], /--max-tokens must be a whole number/],
    ["a context of nothing", ["generate", "x", "--context", "0"], /--context must be a whole number from 2 on/],
    [
      "a temperature that is none",
      ["generate", "x", "--temperature", "NaN"],
      /--temperature must be a number, got "NaN"/,
    ],
    ["a top-k below 0", ["generate", "x", "--top-k", "-1"], /--top-k must be a whole number from 0 on, got -1/],
    ["a min-p above 1", ["generate", "x", "--min-p", "2"], /--min-p must be from 0 to 1, got 2/],
    ["a seed that is none", ["generate", "x", "--seed", "abc"], /--seed must be a number, got "abc"/],
    [
      "fewer tokens than none",
      ["generate", "x", "--max-tokens", "-1"],
      /--max-tokens must be a whole number from 0 on/,
    ],
    [
      "a penalty of nothing",
      ["generate", "x", "--repetition-penalty", "0"],
      /--repetition-penalty must be a number above 0/,
    ],
    [
      "an endless penalty",
      ["generate", "x", "--presence-penalty", "Infinity"],
      /--presence-penalty must be a finite number/,
    ],
    ["a stop that is everywhere", ["generate", "x", "--stop", ""], /--stop must hold strings that are not empty/],
    ["an option that there is not", ["generate", "x", "--colour", "red"], /unknown option --colour;/],
    [
      "an option that is misspelt",
      ["generate", "x", "--max-token", "3"],
      /unknown option --max-token; did you mean --max-tokens\? See insitu generate --help/,
    ],
    ["a command that is misspelt", ["genrate", "x"], /no command "genrate"; did you mean insitu generate\?/],
    ["a command that objects have", ["constructor"], /no command "constructor"; there are generate, /],
    [
      "a bound that is none",
      ["serve", "--memory", "lots"],
      /--memory must be a number of bytes, such as 8GiB, got "lots"/,
    ],
    ["an alias of nobody", ["serve", "--alias", "gpt-4o=bear"], /no model is called bear; there are embedded/],
    [
      "two models of one name",
      ["serve", "--model", "embedded", "--model", "embedded"],
      /two models are called embedded: name one of them/,
    ],
    [
      "a model that is pinned and not there",
      ["serve", "--model", "embedded", "--model", "a=embedded", "--pin", "b"],
      /--pin b: there is no such model; there are embedded, a/,
    ],
    ["the only model, pinned by another name", ["serve", "--pin", "b"], /--pin b: there is no such model/],
    [
      "an alias that is a model",
      ["serve", "--model", "embedded", "--model", "a=embedded", "--alias", "a=embedded"],
      /--alias a=embedded: a is a model itself/,
    ],
    [
      "an origin without a scheme",
      ["serve", "--port", "0", "--cors", "example.com"],
      /--cors must be origins such as "https:\/\/example\.com", or "\*", got "example\.com"/,
    ],
    ["two models", ["chat", "one", "--model", "two"], /the model is named twice: "one" and --model "two"/],
    ["two prompts", ["generate", "x", "y"], /takes 0 to 1 argument/, ""],
    ["a folder without a tokenizer", ["generate", "x", "--model", noTokenizer.path], /has no tokenizer\.json/],
    ["a line that is not UTF-8", ["chat"], /a line on standard input is not UTF-8/, Uint8Array.of(0x61, 0xff, 0x0a)],
    ["an unknown backend", ["generate", "x", "--backend", "abacus"], /--backend must be one of/],
    [
      "an unknown way with control tokens",
      ["generate", "x", "--control-tokens", "eat"],
      /--control-tokens must be "read" or "plain", got "eat"/,
    ],
    [
      "an unknown way out",
      ["generate", "x", "--when-full", "explode"],
      /--when-full must be "stop", "slide" or "error"/,
    ],
  ];
  const found = [
    "a folder that is not there",
    "an empty prompt",
    "a prompt longer than the context",
    "a folder without a tokenizer",
  ];
  test.each(mistakes)("%s", async (what, args, message, input) => {
    const { status, stdout, stderr } = input === undefined ? await insituHere(args) : insitu(args, input);
    expect([status, stdout]).toEqual([found.includes(what) ? 1 : 2, ""]);
    expect(stderr).toMatch(message);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(stderr).toMatch(/^insitu: /);
    expect(stderr).not.toContain("internal");
  });
});
