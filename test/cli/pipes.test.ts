// The command line as shells meet it: slow pipes, output that goes elsewhere or nowhere, a terminal's width, exit codes.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { ChatInput } from "../../packages/cli/chat-input.js";
import { textOutput } from "../../packages/cli/word-wrap.js";
import { builtCommand } from "../support/built.js";
import { type Ended, insituHere } from "../support/command-line.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const command = `"${process.execPath}" "${builtCommand}"`;

const shell = (line: string): Ended => spawnSync("bash", ["-c", line], { cwd: root, encoding: "utf8" });

test("a pipe that answers late is waited for", () => {
  const { status, stdout, stderr } = shell(
    `(sleep 2.6; echo "The wolf") | ${command} generate --max-tokens 4 --temperature 0`,
  );
  expect(status).toBe(0);
  expect(stdout).toMatch(/^The wolf .*\n$/);
  expect(stderr).toMatch(/^(waiting for the prompt on standard input.*\n)?\[2 prompt tokens, 4 new.*\n$/);
});

test("nothing on standard input is no prompt for a model", () => {
  expect(shell(`${command} generate --model models/embedded < /dev/null`)).toMatchObject({
    status: 2,
    stderr: "insitu: there is no prompt: give it as an argument or on standard input\n",
  });
});

test("JSON by a schema is all that comes, and what was cut is no success", async () => {
  const schema =
    '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 60}}, "required": ["name"]}';
  const words = ["generate", "A hero:", "--json-schema", schema, "--seed", "1", "--quiet"];
  const whole = await insituHere(words);
  expect([whole.status, whole.stderr]).toEqual([0, ""]);
  expect(JSON.parse(whole.stdout)).toEqual({ name: expect.any(String) as unknown });
  const cut = await insituHere([...words, "--max-tokens", "4"]);
  expect([cut.status, cut.stderr]).toEqual([
    1,
    "insitu: the JSON was cut after 4 tokens, before it was complete: give a larger --max-tokens\n",
  ]);
});

test("messages of several lines, and commands", () => {
  const input = new ChatInput();
  const all = (...lines: readonly string[]): unknown => lines.map((line) => input.line(line)).at(-1);
  expect(all("Hello")).toEqual({ kind: "message", text: "Hello" });
  expect(all("one \\", "two\\", "three")).toEqual({ kind: "message", text: "one \ntwo\nthree" });
  expect(all('"""', "/undo", "", 'end"""')).toEqual({ kind: "message", text: "/undo\n\nend" });
  expect(all('"""one line"""')).toEqual({ kind: "message", text: "one line" });
  expect(all("/undo 2")).toEqual({ kind: "command", name: "undo", rest: "2" });
  expect(all(" /help ")).toEqual({ kind: "command", name: "help", rest: "" });
  expect(all("  ")).toEqual({ kind: "nothing" });
  expect([all('"""begun'), input.drop(), input.drop()]).toEqual([{ kind: "more" }, true, false]);
  expect(all("Hello")).toEqual({ kind: "message", text: "Hello" });
});

test("turns are taken back by /undo, and begun anew by /clear", () => {
  const { status, stdout } = shell(
    `printf 'The wolf\\nThe cat\\n/undo\\n/undo 5\\n/clear\\n/dance\\n/help\\n/exit\\nnever\\n' | ${command} chat --max-tokens 3 --quiet`,
  );
  expect(status).toBe(0);
  const told = [
    "1 turn is left",
    "cannot take back 5",
    "0 turns are left",
    "there is no /dance",
    "/clear      starts a new conversation",
  ];
  for (const each of told) expect(stdout).toContain(each);
  expect(stdout).not.toContain("never");
});

test("the version, by any of its names", async () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  for (const words of [["--version"], ["version"], ["generate", "--version"]])
    expect(await insituHere(words)).toEqual({ status: 0, stdout: `${version}\n`, stderr: "" });
  expect(await insituHere([])).toMatchObject({ status: 2, stdout: "" });
});

test.skipIf(!existsSync("/dev/full"))("a disk that is full is a sentence", () => {
  expect(shell(`${command} generate x --max-tokens 2 --quiet > /dev/full`)).toMatchObject({
    status: 1,
    stderr: "insitu: standard output cannot be written: there is no space left on it\n",
  });
});

test("Ctrl-C in the middle of a piped conversation ends it, with the exit code of shells", async () => {
  const child = spawn(process.execPath, [
    builtCommand,
    "chat",
    "--max-tokens",
    "100000",
    "--when-full",
    "slide",
    "--stop",
    "@@@",
  ]);
  child.stdin.write("The wolf\nThe cat\n");
  let sent = false;
  let [stdout, stderr] = ["", ""];
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    if (stdout.length > 60 && !sent) sent = child.kill("SIGINT");
  });
  const status = await new Promise((resolve) => child.on("close", resolve));
  expect(status).toBe(130);
  expect(stderr.trimEnd().split("\n").at(-1)).toMatch(/ · interrupted · /);
});

test("models that were fetched are listed and removed", async () => {
  const cache = mkdtempSync(join(tmpdir(), "insitu-models-"));
  const models = (...words: string[]): Promise<Ended> => insituHere(["models", ...words, "--cache", cache]);
  try {
    expect((await models()).stdout.split("\n")[0]).toBe(
      `no models are stored in ${cache}; insitu pull <name> downloads one`,
    );
    for (const [name, revision, record] of [
      ["one--first", "main", "complete-q4.json"],
      ["one--first", "v%2F2", "complete.json"],
      ["two--second", "main", undefined],
    ] as const) {
      const folder = join(cache, name, revision);
      mkdirSync(join(folder, "onnx"), { recursive: true });
      writeFileSync(join(folder, "onnx", "model.onnx"), new Uint8Array(2048));
      if (record !== undefined) writeFileSync(join(folder, record), '["onnx/model.onnx"]');
    }
    const listed = (await models()).stdout.split("\n");
    expect(listed[0]).toMatch(/^one\/first +2\.0 KiB {2}q4$/);
    expect(listed[1]).toMatch(/^one\/first@v\/2 +2\.0 KiB {2}as it comes$/);
    expect(listed[2]).toMatch(/^two\/second +2\.0 KiB {2}not whole yet$/);
    expect((await models("remove", "one/first@v/2")).stdout).toMatch(/^removed one\/first@v\/2, /);
    expect((await models("remove", "two/second")).status).toBe(0);
    expect(existsSync(join(cache, "two--second"))).toBe(false);
    const kept = JSON.parse((await models("--json")).stdout) as object[];
    expect(kept).toEqual([expect.objectContaining({ name: "one/first", revision: "main", complete: ["q4"] })]);
    expect(await models("remove", "../one/first")).toMatchObject({
      status: 1,
      stderr: `insitu: ../one/first is not kept in ${cache}; there is one/first\n`,
    });
    expect((await models("keep", "one/first")).status).toBe(2);
  } finally {
    rmSync(cache, { recursive: true });
  }
});

/** What a terminal of that width is shown of these pieces. */
function shown(columns: number, ...pieces: string[]): string {
  let text = "";
  const stream = { isTTY: true, columns, write: (piece: string | Uint8Array) => (text += String(piece)) !== "" };
  const output = textOutput(stream);
  for (const piece of pieces) output.write(piece);
  output.end();
  return text;
}

test("lines are broken between words at the terminal's width", () => {
  expect(shown(12, "The wo", "lf was ver", "y angry")).toBe("The wolf was\nvery angry");
  expect(shown(11, "The wolf was very angry")).toBe("The wolf\nwas very\nangry");
  expect(shown(10, "one\n  two  three\n\nfour ")).toBe("one\n  two\nthree\n\nfour");
  expect(shown(5, "abcdefgh ij kl")).toBe("abcdefgh\nij kl");
  expect(shown(6, "日本語の文章")).toBe("日本語\nの文章");
  const plain: string[] = [];
  const pipe = textOutput({ write: (piece: string | Uint8Array) => plain.push(String(piece)) > 0 });
  pipe.write("The wolf  ");
  pipe.end();
  expect(plain).toEqual(["The wolf  "]);
});

const hasScript = spawnSync("script", ["-qec", "true", "/dev/null"]).status === 0;
test.skipIf(!hasScript)("a text on a real terminal keeps to its width", () => {
  const line = `stty cols 40; ${command} generate "The wolf" --max-tokens 40 --seed 1`;
  const { stdout } = spawnSync("script", ["-qec", line, "/dev/null"], { encoding: "utf8", cwd: root });
  const lines = stdout.replaceAll("\r", "").trimEnd().split("\n");
  expect(Math.max(...lines.map((each) => each.length))).toBeLessThanOrEqual(40);
  expect(lines.length).toBeGreaterThan(5);
  expect(stdout).toContain("[2 prompt tokens, 40 new");
});
