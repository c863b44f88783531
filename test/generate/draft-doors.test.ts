// `--draft` as it is typed: at `generate`, at `chat` and at `serve`, on pages and on linear caches. Texts are those without, and guesses are made.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { afterAll, describe, expect, test } from "vitest";
import { builtCommand } from "../support/built.js";
import { insituHere } from "../support/command-line.js";
import { draftFolder } from "../support/embedded-drafts.js";
import { hybridFolder } from "../support/hybrid-decoder.js";

const draft = draftFolder(5);
const [hybrid, otherHybrid] = [hybridFolder(), hybridFolder({ seed: 2 })];
afterAll(() => {
  for (const folder of [draft, hybrid, otherHybrid]) folder.remove();
});

interface Made {
  readonly text: string;
  readonly guessedTokens: number;
  readonly rightGuesses: number;
}

const made = async (args: readonly string[]): Promise<Made> => {
  const { status, stdout, stderr } = await insituHere(["generate", ...args, "--json"]);
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout) as Made;
};

describe("generate", () => {
  test.each([[[]], [["--cache", "paged"]], [["--speculate"]], [["--temperature", "0.8", "--seed", "3"]]])(
    "%j",
    async (more) => {
      const args = ["The king and the queen", "--max-tokens", "40", "--temperature", "0", ...more];
      const plain = await made(args.filter((arg) => arg !== "--speculate"));
      const guessed = await made([...args, "--draft", draft.path]);
      expect(guessed.text).toBe(plain.text);
      expect(guessed.guessedTokens).toBeGreaterThan(0);
      expect(guessed.rightGuesses).toBeLessThanOrEqual(guessed.guessedTokens);
    },
  );

  test("hybrids, which go back to checkpoints of their states", async () => {
    const args = ["The king", "--max-tokens", "24", "--temperature", "0", "--model", hybrid.path];
    const plain = await made(args);
    const guessed = await made([...args, "--draft", otherHybrid.path]);
    expect(guessed.text).toBe(plain.text);
    expect(guessed.guessedTokens).toBeGreaterThan(0);
  });

  test("a draft of another vocabulary, a place with nothing, and a head that is not there", async () => {
    const refused = async (name: string): Promise<string> => {
      const { status, stderr } = await insituHere(["generate", "The king", "--draft", name]);
      expect(status).not.toBe(0);
      return stderr;
    };
    expect(await refused(hybrid.path)).toMatch(/has 256 tokens in its vocabulary, the model has 4096/);
    expect(await refused("./no-such-folder")).toMatch(/no-such-folder/);
    expect(await refused("head")).toMatch(/has no head, mtp\.onnx/);
  });
});

test("chat", () => {
  const args = ["chat", "--max-tokens", "20", "--temperature", "0"];
  const say = (more: readonly string[]) =>
    spawnSync(process.execPath, [builtCommand, ...args, ...more], {
      encoding: "utf8",
      input: "Who is there?\nAnd then?\n",
    });
  const [plain, guessed] = [say([]), say(["--draft", draft.path])];
  expect([plain.status, guessed.status], guessed.stderr).toEqual([0, 0]);
  expect(plain.stdout.length).toBeGreaterThan(20);
  expect(guessed.stdout).toBe(plain.stdout);
});

describe("serve", () => {
  const ask = { prompt: "The king and the queen", max_tokens: 40, temperature: 0, model: "embedded" };

  test("requests at once, each as it is alone", async () => {
    const args = ["serve", "--port", "0", "--quiet", "--draft", draft.path];
    const server = spawn(process.execPath, [builtCommand, ...args], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      const address = await new Promise<string>((resolve, reject) => {
        let said = "";
        server.stdout.on("data", (chunk) => {
          const [, found] = /listening on (\S+)/.exec((said += String(chunk))) ?? [];
          if (found !== undefined) resolve(found);
        });
        server.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
      });
      const headers = { "content-type": "application/json" };
      const post = async (body: object): Promise<string> => {
        const answer = await fetch(`${address}/v1/completions`, {
          method: "POST",
          body: JSON.stringify(body),
          headers,
        });
        expect(answer.status).toBe(200);
        return ((await answer.json()) as { choices: { text: string }[] }).choices[0].text;
      };
      const plain = await made([ask.prompt, "--max-tokens", "40", "--temperature", "0"]);
      // At once, some of them in the middle of others.
      expect(await Promise.all([ask, ask, { ...ask, max_tokens: 20 }].map(post))).toSatisfy((texts: string[]) =>
        texts.every((text) => plain.text.startsWith(text) && text.length > 20),
      );
      const metrics = await (await fetch(`${address}/metrics`)).text();
      expect(Number(/^insitu_guessed_tokens_total (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(0);
    } finally {
      if (server.exitCode === null) {
        server.kill();
        await once(server, "exit");
      }
    }
  });

  test("several models have no draft", async () => {
    const { status, stderr } = await insituHere([
      "serve",
      "--port",
      "0",
      "--model",
      "a=embedded",
      "--model",
      "b=embedded",
      "--draft",
      draft.path,
    ]);
    expect([status, stderr]).toEqual([2, expect.stringMatching(/--draft is for one model/)]);
  });
});
