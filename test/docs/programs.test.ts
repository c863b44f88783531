// Every program of README.md and docs/*.md, against the packed package in a new folder: all compile under both ways to resolve modules, those that
// need nothing else run, and the README is followed from top to bottom. The programs and commands of docs/*.md run in one process after another
// here, and in the soak each in a process of its own; of those that need a GPU the tests have the first.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generatedDecoder } from "../../tools/demo/decoder.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { findChromium, howToInstall, startChromium } from "../browser/chromium.js";
import { startServer } from "../browser/server.js";
import { writeEmbedded } from "../clients/folders.js";
import { peers } from "../clients/project.js";
import { bytesOf } from "../rewrite/exports.js";
import { noWebgpu } from "../support/backends.js";
import { type InstalledPackage, installPackage } from "../support/installed-package.js";
import { type Block, blocks, notPrograms } from "./blocks.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const transformers = join(peers, "node_modules/@huggingface/transformers");
let installed: InstalledPackage;

/** The folder that a page's programs run in. */
const placeOf = (page: string): string => join(installed.project, page);
const nameOf = ({ page, line }: Block): string => `${page}:${line}`;
const fileOf = ({ page, line }: Block, ending: string): string => join(placeOf(page), `line-${line}.${ending}`);

const plain = writeModel(
  buildModel({
    opset: 21,
    inputs: [value("x", "float32", ["n", 3])],
    outputs: [value("y", "float32")],
    nodes: [node("Relu", ["x"], ["y"])],
  }),
);

/** The models that pages name, by page. */
const models: Readonly<Record<string, Readonly<Record<string, () => Uint8Array>>>> = {
  sessions: { "model.onnx": () => plain, "decoder.onnx": () => writeModel(generatedDecoder()) },
  onnxruntime: { "model.onnx": () => plain },
  webgpu: { "decoder.onnx": () => writeModel(generatedDecoder()) },
  rewrite: { "model.onnx": () => bytesOf("llama_op24") },
  "in-place": { "model.onnx": () => bytesOf("llama_op24") },
};

/** What the programs of a page print, in their order, where more is asked of them than to end well. */
const printed: Readonly<Record<string, readonly RegExp[]>> = {
  sessions: [
    /^\[ 1, 3 \] Float32Array\(3\) \[ 1, 2, 3 \]/,
    /^\[ 1, 1, 128 \] \[ 4 \]\n[^]*in place/,
    /0, 0, 0, 0,\s+1, 2, 0, 0/,
  ],
  pages: [
    /\n.* [1-9]\d\n/s, // the second conversation reused the opening
    /^4096 12288 32 /,
    /^300 \d+ \[ 0, 1, 2, 3, \d+, \d+ \]\n$/,
  ],
  "structured-output": [
    /\S/,
    /^get_weather \{"city":"(Bern|Rome)","temperature":21\}\n[^]*user, assistant, tool, assistant/,
    /^(Bern|Rome)\n/,
  ],
  rewrite: [/'nonpad_kv_seqlen'[^]* 4096 \d{4}/, /^\[ 1, 1, \d+ \] .*presents/i],
};

/** Packages of this repository that pages use beside insitu. */
const others = [
  "hono",
  "@hono/node-server",
  "zod",
  "openai",
  "prom-client",
  "vite",
  "esbuild",
  "webgpu",
  "@types/node",
  "ai",
  "@ai-sdk/provider",
  "@langchain/core",
];

beforeAll(() => {
  installed = installPackage();
  const link = (target: string, name: string): void => {
    const path = join(installed.project, "node_modules", name);
    mkdirSync(dirname(path), { recursive: true });
    if (!existsSync(path)) symlinkSync(target, path);
  };
  for (const name of others) link(join(root, "node_modules", name), name);
  // As npm's override puts it: insitu where transformers.js looks for onnxruntime-node.
  if (existsSync(transformers)) {
    link(join(installed.project, "node_modules/insitu"), "onnxruntime-node");
    for (const name of readdirSync(join(peers, "node_modules")))
      if (name.startsWith("@"))
        for (const inner of readdirSync(join(peers, "node_modules", name)))
          link(join(peers, "node_modules", name, inner), `${name}/${inner}`);
      else if (!name.startsWith(".")) link(join(peers, "node_modules", name), name);
  }
  for (const block of blocks) {
    mkdirSync(placeOf(block.page), { recursive: true });
    if (!existsSync(join(placeOf(block.page), "node_modules")))
      symlinkSync("../node_modules", join(placeOf(block.page), "node_modules"));
    if (block.language === "ts" || block.language === "js") writeFileSync(fileOf(block, block.language), block.code);
  }
  for (const [page, files] of Object.entries(models))
    for (const [name, bytes] of Object.entries(files)) writeFileSync(join(placeOf(page), name), bytes());
});
afterAll(() => installed?.remove());

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(page: string, command: string, args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const child = spawn(command, args, {
    cwd: placeOf(page),
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  const said = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const)
    child[stream].setEncoding("utf8").on("data", (text: string) => void (said[stream] += text));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (status) => resolve({ status, ...said }));
  });
}

test("a page's blocks are programs, commands, data, or what is no program", () => {
  // Components are run where they come from: test/examples holds the page to it.
  const known = new Set(["ts", "js", "jsx", "sh", "json", "html", ...notPrograms]);
  expect(blocks.filter(({ language }) => !known.has(language)).map(nameOf)).toEqual([]);
  expect(blocks.filter(({ language }) => language === "ts").length).toBeGreaterThan(15);
  for (const { language, code } of blocks) if (language === "json") JSON.parse(code);
});

const tsc = join(root, "node_modules/typescript/bin/tsc");
const common = "--target es2023 --lib es2023,dom,dom.iterable --types node --skipLibCheck";
const strict = "--strict --rootDir . --outDir compiled";
const loose = "--strict false --noEmit --allowJs --checkJs";

test.each([
  ["ts", "nodenext", `${strict} --module nodenext`],
  ["ts", "bundler", `${strict} --noEmit --module preserve --moduleResolution bundler`],
  ["js", "nodenext", `${loose} --module nodenext`],
])("all programs in %s compile, with moduleResolution %s", (language, _, options) => {
  const found = blocks.filter(
    (block) => block.language === language && (block.needs !== "transformers.js" || existsSync(transformers)),
  );
  const args = [tsc, ...`${common} ${options}`.split(" "), ...found.map((block) => fileOf(block, language))];
  const { stdout } = spawnSync(process.execPath, args, { cwd: installed.project, encoding: "utf8" });
  expect(stdout).toBe("");
});

/** A program in TypeScript as it was compiled. */
const compiledOf = ({ page, line }: Block): string => join(installed.project, "compiled", page, `line-${line}.js`);
const runProgram = (block: Block): Promise<Ended> => run(block.page, process.execPath, [compiledOf(block)]);

/** A line that needs nothing but the package: no server, no terminal, no model of one's own. */
const isRun = (line: string): boolean => /(^|\| )npx insitu (?!serve)/.test(line) && !/ # needs /.test(line);

const needNothing = blocks.filter(({ page, needs }) => page !== "README" && needs === undefined);
const programs = needNothing.filter(({ language }) => language === "ts");
const commands = needNothing.flatMap(({ page, language, code }) =>
  code.split("\n").flatMap((line) => (language === "sh" && isRun(line) ? [[page, line] as const] : [])),
);

/** Programs and commands in one process, in which the package is loaded once; how each of them ended, by its name. */
async function runTogether(): Promise<Readonly<Record<string, Ended>>> {
  const work = join(installed.project, "together.json");
  const commandLine = join(installed.project, "node_modules/insitu/dist/lib/command-line.js");
  const listed = [
    ...programs.map((block) => ({ name: nameOf(block), folder: placeOf(block.page), program: compiledOf(block) })),
    ...commands.flatMap(([page, line]) => {
      const args = argumentsOf(line);
      return args === undefined ? [] : [{ name: line, folder: placeOf(page), commandLine, args }];
    }),
  ];
  writeFileSync(work, JSON.stringify(listed));
  const script = fileURLToPath(new URL("together.mjs", import.meta.url));
  expect(await run("README", process.execPath, [script, work])).toEqual({ status: 0, stdout: "", stderr: "" });
  return JSON.parse(readFileSync(`${work}.ended`, "utf8")) as Record<string, Ended>;
}
let together: ReturnType<typeof runTogether> | undefined;
const endedTogether = async (name: string): Promise<Ended | undefined> => (await (together ??= runTogether()))[name];

/** What a shell makes of the words behind `npx insitu`; undefined for a line with a pipe, which is left to the shell as a whole. */
function argumentsOf(line: string): readonly string[] | undefined {
  if (!line.startsWith("npx insitu ")) return undefined;
  const told = spawnSync("bash", ["-c", `npx() { printf '%s\\0' "$@"; }; ${line}`], { encoding: "utf8" });
  return told.stdout.split("\0").slice(1, -1);
}

/** A port that nobody listens on. */
const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });

/** What a shell's command serves, on a free port, for as long as `use` takes. */
async function serving(cwd: string, command: string, use: (port: string) => Promise<void>): Promise<void> {
  const server = spawn("bash", ["-c", `exec ${command}`], {
    cwd,
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, INSITU_PORT: "0" },
    detached: true,
  });
  try {
    const port = await new Promise<string>((resolve, reject) => {
      let said = "";
      server.stdout.setEncoding("utf8").on("data", (text: string) => {
        said += text;
        const found = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(said);
        if (found !== null) resolve(found[1]);
      });
      server.once("exit", () => reject(new Error(`the server ended: ${said}`)));
    });
    await use(port);
  } finally {
    process.kill(-server.pid!); // npx and what it started, which does not end with it
  }
}

/** What npx comes to where a package is installed, without its second of npm; the README's line has npx itself. */
const quickNpx = 'npx() { "node_modules/.bin/$@"; };';

describe("docs/*.md", () => {
  test.each(programs.map((block) => [nameOf(block), block] as const))("%s runs", async (_, block) => {
    const at = programs.filter(({ page }) => page === block.page).indexOf(block);
    const ended = soak ? await runProgram(block) : await endedTogether(nameOf(block));
    expect(ended).toMatchObject({ status: 0, stderr: "" });
    expect(ended!.stdout).toMatch(printed[block.page]?.[at] ?? /\S/);
  });

  const onGpu = blocks.filter(({ needs }) => needs === "a GPU").map((block) => [nameOf(block), block] as const);
  test.skipIf(noWebgpu !== undefined).each(soak ? onGpu : onGpu.slice(0, 1))(
    "%s runs, where there is a GPU",
    async (_, block) => {
      const { status, stdout, stderr } = await runProgram(block);
      expect([status, status === 0 ? "" : stderr]).toEqual([0, ""]);
      expect(stdout).toMatch(/^gpu-buffer\n$|^\[ 1, 3, 128 \] \[ 1, 1, 128 \]\n$/);
    },
  );

  test("the server of docs/serve.md answers, and ends when it is told to", async () => {
    const block = needNothing.find(({ page, language }) => page === "serve" && language === "js")!;
    const port = await freePort();
    writeFileSync(fileOf(block, "mjs"), block.code.replace("port: 8080", `port: ${port}`));
    const server = spawn(process.execPath, [fileOf(block, "mjs")], { stdio: ["ignore", "ignore", "inherit"] });
    const ended = new Promise<number | null>((resolve) => void server.once("exit", resolve));
    try {
      const statusOf = async (path: string): Promise<number> => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
      await expect.poll(() => statusOf("/health").catch(() => 0)).toBe(200);
      expect(await statusOf("/v1/models")).toBe(401); // it asks for its key
      server.kill("SIGTERM");
      expect(await ended).toBe(0);
    } finally {
      server.kill("SIGKILL");
    }
  });

  test("the openai package chats with the server, and calls a tool", async () => {
    const [template, command] = /^cat > (?:[^]*?)\nEND\n|npx insitu serve --chat-template .*/gm[Symbol.match](
      needNothing.find(({ code }) => code.includes("tools.jinja"))!.code,
    )!;
    expect((await run("serve", "bash", ["-c", template])).status).toBe(0);
    const clients = needNothing.filter(({ code }) => code.startsWith('import OpenAI from "openai"'));
    await serving(placeOf("serve"), command, async (port) => {
      for (const block of clients) {
        writeFileSync(fileOf(block, "mjs"), block.code.replace(":8080/", `:${port}/`));
        const { status, stdout, stderr } = await run(block.page, process.execPath, [fileOf(block, "mjs")]);
        expect([status, stderr]).toEqual([0, ""]);
        expect(stdout).toMatch(
          block.page === "serve" ? /^get_weather \{ ?"city": ?"(Bern|Rome)" ?\}\n/ : /\w{2,} \w{2,}/,
        );
      }
    });
    expect(clients.map(({ page }) => page).sort()).toEqual(["recipes", "serve"]);
  });

  test.each(commands)("%s: %s", async (page, line) => {
    const { status, stdout, stderr } =
      (soak ? undefined : await endedTogether(line)) ?? (await run(page, "bash", ["-c", `${quickNpx} ${line}`]));
    expect([status, status === 0 ? "" : stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/\S/);
  });
});

describe("README.md, from top to bottom", () => {
  const here = blocks.filter(({ page }) => page === "README");
  const [install, story, program, serve, ask, page, override, client] = here;

  test("it has the steps that are followed here", () =>
    expect(here.map(({ language }) => language)).toEqual(["sh", "", "ts", "sh", "sh", "html", "json", "js"]));

  test("the package is installed, and tells a story", async () => {
    const [first, chat, second, ...more] = install.code.trimEnd().split("\n");
    expect([first, more]).toEqual(["npm install insitu", []]); // done, from the tarball
    expect(chat).toMatch(/^npx insitu chat [\w.-]+ /); // test/hub plays the hub
    const { status, stdout, stderr } = await run("README", "bash", ["-c", second]);
    expect([status, stdout]).toEqual([0, expect.stringMatching(/^Once upon a time\b[^]{40}/)]);
    // The line that sums up has the parts that the page shows.
    const partsOf = (text: string): string[] =>
      text
        .slice(text.indexOf("["))
        .replace(/\s+/g, " ")
        .split(" · ")
        .map((part) => part.replace(/[\d.]+( [KM]iB| bytes)?/g, "N").trim());
    expect(partsOf(stderr)).toEqual(partsOf(story.code));
  });

  test("the program runs", async () => {
    writeFileSync(join(placeOf("README"), "story.mjs"), program.code);
    const ended = await run("README", process.execPath, ["story.mjs"]);
    expect(ended).toMatchObject({ status: 0, stderr: "" });
    expect(ended.stdout).toMatch(/\w{2,} \w{2,}[^]*\n.*\w{2,}.*\n$/);
  });

  test("the server answers", async () => {
    const [packages, command] = serve.code.split("\n");
    for (const name of packages.replace("npm install ", "").split(" ")) expect(others).toContain(name);
    await serving(placeOf("README"), command, async (port) => {
      for (const { code } of [ask, ...needNothing.filter((block) => block.code.startsWith("curl "))]) {
        const asked = await run("README", "bash", ["-c", code.replace(":8080/", `:${port}/`)]);
        // OpenAI's stream; Anthropic's message and Ollama's lines.
        const answer = code.includes("/completions")
          ? /^data: \{[^]*data: \[DONE\]\n\n$/
          : /^\{"(?:id|model)":[^]*\}\n?$/;
        expect([asked.status, asked.stdout]).toEqual([0, expect.stringMatching(answer)]);
      }
    });
  });

  const chromium = findChromium();
  if (chromium === undefined) console.log(howToInstall);
  test.skipIf(chromium === undefined)("the page tells a story", async () => {
    const modules = join(installed.project, "node_modules");
    const server = await startServer({
      headers: {},
      folders: { "/node_modules/": modules, "/model/": join(root, "models/embedded") },
      files: new Map([["/index.html", page.code]]),
    });
    const browser = await startChromium(chromium!);
    try {
      const tab = await browser.newPage();
      const problems: string[] = [];
      tab.on("pageerror", (error) => problems.push(String(error)));
      await tab.goto(`${server.base}/index.html`);
      await expect
        .poll(async () => problems.join() || (await tab.textContent("body"))!.trim())
        .toMatch(/\w{2,} \w{2,}/);
      expect(problems).toEqual([]);
    } finally {
      await browser.close();
      server.close();
    }
  });

  test("the override puts insitu where transformers.js looks", () =>
    expect(JSON.parse(override.code)).toMatchObject({ overrides: { "onnxruntime-node": "npm:insitu" } }));

  test.skipIf(!existsSync(transformers))("transformers.js runs on it", async () => {
    writeEmbedded(placeOf("README"), "model", "GroupQueryAttention", 4);
    // What npm would have put there are links here, and the names beside them are those that count.
    const ended = await run("README", process.execPath, [
      "--preserve-symlinks",
      "--preserve-symlinks-main",
      fileOf(client, "js"),
    ]);
    expect(ended).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/generated_text: .Once upon a time\b.{20}/),
    });
  });
});
