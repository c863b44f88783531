// The package as strangers get it: packed, installed into a fresh project from its tarball alone, imported, typed, bundled, run.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { generatedDecoder } from "../../tools/demo/decoder.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { type InstalledPackage, installPackage } from "../support/installed-package.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
let installed: InstalledPackage;

beforeAll(() => {
  installed = installPackage();
});
afterAll(() => installed?.remove());

function run(command: string, ...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(command, args, { cwd: installed.project, encoding: "utf8", timeout: 240_000 });
}

/** The command line, as npx finds it. */
const insitu = "node_modules/.bin/insitu";

function write(name: string, text: string): string {
  const path = join(installed.project, name);
  writeFileSync(path, text);
  return path;
}

test("the tarball holds what is built and nothing else, and says how large it is", () => {
  console.log(`the package: ${(installed.tarballBytes / 1024).toFixed(0)} KiB packed, ${installed.files.length} files`);
  // The embedded model is most of it.
  expect(installed.tarballBytes).toBeLessThan(13_200_000);
  expect(installed.files.length).toBeLessThan(650);
  expect(
    installed.files.filter(
      (path) =>
        !/^(dist\/(lib|browser)\/.+\.js|dist\/types\/.+\.d\.ts|dist\/lib\/.+\.js\.map|dist\/browser\/LICENSES\.txt|models\/embedded\/.+|docs\/(studies\/)?[\w-]+\.md|LICENSE|NOTICE|[A-Z]+\.md|package\.json)$/.test(
          path,
        ),
    ),
  ).toEqual([]);
});

test("it says what of others it holds, and under which licences", () => {
  const folder = join(installed.project, "node_modules/insitu");
  const { dependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  const licences = readFileSync(join(folder, "dist/browser/LICENSES.txt"), "utf8");
  const notice = readFileSync(join(folder, "NOTICE"), "utf8");
  for (const [name, version] of Object.entries(dependencies)) {
    expect(licences).toContain(`\n${name} ${version}, `);
    expect(notice).toContain(name);
  }
  expect(readFileSync(join(folder, "dist/browser/insitu.js"), "utf8")).toMatch(/^\/\*! insitu, .*LICENSES\.txt \*\//);
  for (const name of ["CHANGELOG.md", "SECURITY.md", "LICENSE"]) expect(installed.files).toContain(name);
});

test("it is well formed and light", async () => {
  const { publint } = await import("publint");
  const { buffer } = new Uint8Array(readFileSync(installed.tarball));
  expect((await publint({ strict: true, pack: { tarball: buffer } })).messages).toEqual([]);
  const bytesIn = (folder: RegExp): number =>
    installed.files
      .filter((path) => folder.test(path))
      .reduce((sum, path) => sum + statSync(join(installed.project, "node_modules/insitu", path)).size, 0);
  expect(installed.files.filter((path) => /tools\/(cases|bench|demo)|^test\/|tsbuildinfo/.test(path))).toEqual([]);
  expect(bytesIn(/^models\//)).toBeLessThan(12_500_000);
  // Each module is there twice: in the chunks of Node and of bundlers, and minified in those of pages without a bundler.
  expect(bytesIn(/^(?!models\/)/)).toBeLessThan(7_500_000);
});

test("docs/package.md tells how large its parts are", () => {
  const page = readFileSync(join(root, "docs/package.md"), "utf8");
  const bytesOf = (isPart: (path: string) => boolean): number =>
    installed.files
      .filter(isPart)
      .reduce((sum, path) => sum + statSync(join(installed.project, "node_modules/insitu", path)).size, 0);
  const parts: Readonly<Record<string, number>> = {
    "`models/embedded`": bytesOf((path) => path.startsWith("models/")),
    "`dist/lib`": bytesOf((path) => path.startsWith("dist/lib/")),
    "`dist/browser`": bytesOf((path) => path.startsWith("dist/browser/")),
    "`dist/types`": bytesOf((path) => path.endsWith(".d.ts")),
  };
  const told = [...page.matchAll(/^\| (`[^|]+) \| ([\d.]+) \|/gm)].map(
    ([, part, size]) => [part, Number(size)] as const,
  );
  expect(told.map(([part]) => part)).toEqual(Object.keys(parts));
  for (const [part, size] of told) {
    expect(size, part).toBeGreaterThan((0.9 * parts[part]) / 1e6 - 0.05);
    expect(size, part).toBeLessThan((1.1 * parts[part]) / 1e6 + 0.05);
  }
});

test("the pages say how large it is", () => {
  const packed = (installed.tarballBytes / 1e6).toFixed(1);
  const said = ["docs/browsers.md", "docs/package.md"].map((page) => {
    const text = readFileSync(new URL(`../../${page}`, import.meta.url), "utf8");
    return /(\d+\.\d) MB packed|\| `insitu` \| (\d+\.\d) MB|tarball's (\d+\.\d) MB/.exec(text)?.slice(1).find(Boolean);
  });
  // To a few tenths: the library grows while the model, which is most of it, stays.
  for (const size of said) expect(Math.abs(Number(size) - Number(packed))).toBeLessThan(0.35);
});

test("every file that a packed file names is packed too", () => {
  const packed = new Set(installed.files);
  const missing: string[] = [];
  for (const path of installed.files.filter((name) => name.endsWith(".js"))) {
    const text = readFileSync(join(installed.project, "node_modules/insitu", path), "utf8");
    // Static and dynamic imports, exports from, and URLs of workers.
    for (const [, specifier] of text.matchAll(/(?:from|import|new URL\()\s*\(?\s*["'](\.[^"']+)["']/g)) {
      if (!packed.has(posix.join(dirname(path), specifier))) missing.push(`${path} names ${specifier}`);
    }
  }
  expect(missing).toEqual([]);
});

test("a fresh project runs a model on wasm and on reference, and ends", () => {
  writeFileSync(join(installed.project, "decoder.onnx"), writeModel(generatedDecoder()));
  const script = write(
    "main.js",
    `import { InferenceSession, Tensor } from "insitu";
     const ids = (...values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
     const results = [];
     for (const options of [{ threads: 2 }, { threads: 1 }, { backend: "reference" }]) {
       const session = await InferenceSession.create("decoder.onnx", { inPlace: "require", ...options });
       const state = session.createState({ dims: { batch: 1, capacity: 16 } });
       await session.run({ input_ids: ids(1, 2, 3), position_ids: ids(0, 1, 2) }, { state });
       const { logits } = await session.run({ input_ids: ids(4), position_ids: ids(3) }, { state });
       results.push(logits.data);
     }
     const off = Math.max(...results.flatMap((row) => [...row].map((value, at) => Math.abs(value - results[0][at]))));
     console.log(results.map((row) => row.length).join(), off < 1e-4);`,
  );
  expect(run(process.execPath, script)).toMatchObject({ status: 0, stdout: "128,128,128 true\n", stderr: "" });
});

test("Node reads it from few files, whose source maps name the sources", () => {
  const scripts = installed.files.filter((path) => /^dist\/lib\/.*\.js$/.test(path));
  const opened = new Set<string>();
  const open = (path: string): void => {
    if (opened.has(path)) return;
    opened.add(path);
    const text = readFileSync(join(installed.project, "node_modules/insitu", path), "utf8");
    for (const [, name] of text.matchAll(/^(?:import|export)\s(?:[^"';]*?from\s*)?"\.\/([^"]+)";/gm))
      open(`dist/lib/${name}`);
  };
  open("dist/lib/index.node.js");
  expect(opened.size).toBeLessThan(70);
  for (const path of scripts) expect(installed.files).toContain(`${path}.map`);
  const script = write(
    "stack.js",
    `import { InferenceSession } from "insitu";
     await InferenceSession.create(new Uint8Array([1, 2, 3])).catch(({ stack }) => console.log(stack));`,
  );
  const { stdout } = run(process.execPath, "--enable-source-maps", script);
  expect(stdout).toMatch(/src\/onnx\/[\w-]+\.ts:\d+/);
});

test("without the package webgpu its backend is refused with the way to get it, and auto does without", () => {
  const script = write(
    "no-gpu.js",
    `import { InferenceSession } from "insitu";
     await InferenceSession.create("decoder.onnx", { backend: "webgpu" }).catch(({ code, message }) => console.log(code, message));
     console.log((await InferenceSession.create("decoder.onnx", { backend: "auto" })).backend);
     process.exit(0);`,
  );
  const { stdout } = run(process.execPath, script);
  expect(stdout).toMatch(
    /^invalid-argument WebGPU is not available here: .*package webgpu.*npm install webgpu\nwasm\n$/s,
  );
});

test("what serving needs is asked for where it is missing; schemas need nothing", () => {
  const served = run(insitu, "serve", "--port", "0");
  expect([served.status, served.stderr]).toEqual([
    1,
    expect.stringMatching(/insitu: serving needs packages .*: npm install hono @hono\/node-server zod prom-client\n$/),
  ]);
  const made = run(insitu, "generate", "The wolf", "--json-schema", '{"const":true}');
  expect([made.status, made.stdout]).toEqual([0, expect.stringContaining("true")]);
});

test("the command line is there", () => {
  const help = run("npx", "insitu", "--help");
  expect([help.status, help.stdout]).toEqual([0, expect.stringContaining("usage: insitu <command>")]);
  const measured = run(insitu, "bench", "scatter");
  expect([measured.status, measured.stderr]).toEqual([1, expect.stringMatching(/^insitu: insitu bench .* checkout/)]);
  for (const tool of ["rewrite", "conformance", "pages"])
    expect(run(insitu, tool, "--help").stdout).toContain(`usage: insitu ${tool}`);
  const inspected = run(insitu, "inspect", "no-such.onnx");
  expect([inspected.status, inspected.stderr]).toEqual([1, expect.stringContaining("no-such.onnx cannot be opened")]);
});

test("its types resolve and are right, in Node and in bundlers", () => {
  const attw = join(root, "node_modules/@arethetypeswrong/cli/dist/index.js");
  const wrong = run(process.execPath, attw, installed.tarball, "--profile", "esm-only", "--no-color");
  expect([wrong.status, wrong.status === 0 ? "" : wrong.stdout]).toEqual([0, ""]);
  write(
    "types.ts",
    `import { CausalLM, InferenceSession, InsituError, type State, Tensor } from "insitu";
     import { createServer, type Server } from "insitu/serve";
     import { CausalLM as WorkerLM, InferenceSession as WorkerSession, type Generation } from "insitu/worker";
     const session: InferenceSession = await InferenceSession.create(new Uint8Array(), { threads: 2, inPlace: "require" });
     const state: State = session.createState({ dims: { batch: 1 } });
     const results: Record<string, Tensor> = await session.run({ x: new Tensor("float32", [1, 2], [2]) }, { state });
     export const dims: readonly number[] = results["y"].dims;
     export const code: string = new InsituError("internal", "").code;
     const server: Server = createServer(CausalLM.load(new URL("file:///model")), { model: "m", limits: { seconds: 5 } });
     export const answer: Promise<Response> = server.fetch(new Request("http://localhost/health"));
     const lm: WorkerLM = await WorkerLM.load("/model", { onProgress: (loaded: number, total: number) => void (loaded / total) });
     const told: Generation = lm.generate("Once", { maxTokens: 3, signal: new AbortController().signal });
     for await (const { text } of told) text.toUpperCase();
     const remote = await WorkerSession.create(new Uint8Array(), { threads: 1 });
     export const answers: Record<string, Tensor> = await remote.run({}, { state: await remote.createState({ dims: { batch: 1 } }) });
     // @ts-expect-error: an option that is not there
     await InferenceSession.create("model.onnx", { inPlace: "sometimes" });`,
  );
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const strict = ["--noEmit", "--strict", "--target", "es2022", "--typeRoots", join(root, "node_modules/@types")];
  // A project for Node has Node's types, one for browsers the DOM's.
  for (const [module, types, lib] of [
    ["nodenext", "node", "es2023"],
    ["preserve", "", "es2023,dom"],
  ]) {
    const place = ["--module", module, "--types", types, "--lib", lib];
    const { status, stdout } = run(process.execPath, tsc, ...strict, ...place, "types.ts");
    expect([module, status, stdout]).toEqual([module, 0, ""]);
  }
});

/** A program that imports onnxruntime's packages, as transformers.js does: tensors are made by one, and run by another. */
const client = `import * as ONNX_NODE from "onnxruntime-node";
  import * as ONNX_WEB from "onnxruntime-web/webgpu";
  import { Tensor } from "onnxruntime-common";
  const ort = ONNX_NODE.default ?? ONNX_NODE;
  const session = await ort.InferenceSession.create("neg.onnx", { executionProviders: ["cuda", "cpu"] });
  const { y } = await session.run({ x: new Tensor("float32", Float32Array.of(1, 2), [2]) });
  console.log(y.data.join(), y instanceof ort.Tensor, typeof ONNX_WEB.InferenceSession.create, ort.env.versions.insitu);
  await session.release();`;
const onnxruntimes = ["onnxruntime-node", "onnxruntime-web", "onnxruntime-common"];
const negation = writeModel(
  buildModel({
    opset: 21,
    inputs: [value("x", "float32", ["n"])],
    outputs: [value("y", "float32", ["n"])],
    nodes: [node("Neg", ["x"], ["y"])],
  }),
);

test("under onnxruntime's names it runs their programs", () => {
  writeFileSync(join(installed.project, "neg.onnx"), negation);
  for (const name of onnxruntimes)
    symlinkSync(join(installed.project, "node_modules/insitu"), join(installed.project, "node_modules", name));
  const ran = run(process.execPath, write("client.js", client));
  expect(ran).toMatchObject({ status: 0, stdout: "-1,-2 true function 0.1.0\n", stderr: "" });
  const required = run(
    process.execPath,
    "--no-warnings",
    write("client.cjs", 'console.log(typeof require("onnxruntime-node").default.InferenceSession.create);'),
  );
  expect(required).toMatchObject({ status: 0, stdout: "function\n" });
});

test.runIf(soak)("npm's overrides put it there", () => {
  const project = join(installed.project, "overriding");
  mkdirSync(join(project, "client"), { recursive: true });
  writeFileSync(join(project, "neg.onnx"), negation);
  writeFileSync(join(project, "client/index.js"), client);
  const wanted = Object.fromEntries(onnxruntimes.map((name) => [name, "1.30.0"]));
  const told = { name: "client", version: "1.0.0", type: "module", main: "index.js", dependencies: wanted };
  writeFileSync(join(project, "client/package.json"), JSON.stringify(told));
  const packed = dirname(installed.tarball);
  const ofDependency = (name: string): string =>
    `file:${join(
      packed,
      readdirSync(packed).find((file) => file.startsWith(name.slice(1).replace("/", "-")))!,
    )}`;
  const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { dependencies: object };
  const overrides = Object.fromEntries([
    ...onnxruntimes.map((name) => [name, `file:${installed.tarball}`]),
    ...Object.keys(dependencies).map((name) => [name, ofDependency(name)]),
  ]);
  const asks = { private: true, type: "module", dependencies: { client: "file:client" }, overrides };
  writeFileSync(join(project, "package.json"), JSON.stringify(asks));
  const inProject = (command: string, ...args: string[]): string =>
    spawnSync(command, args, { cwd: project, encoding: "utf8", timeout: 240_000 }).stdout;
  inProject("npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", "--install-links");
  expect(inProject(process.execPath, "node_modules/client/index.js")).toBe("-1,-2 true function 0.1.0\n");
});

test("the code of WebGPU is a file of its own, which what does without never loads", async () => {
  const { metafile } = await build({
    stdin: { contents: 'export { InferenceSession } from "insitu";', resolveDir: installed.project },
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    outdir: join(installed.project, "out-split"),
    write: false,
    metafile: true,
    logLevel: "silent",
  });
  const { outputs } = metafile;
  const eager = new Set<string>();
  const visit = (path: string): void => {
    if (eager.has(path)) return;
    eager.add(path);
    for (const { path: next, kind } of outputs[path].imports) if (kind === "import-statement") visit(next);
  };
  visit(Object.keys(outputs).find((path) => outputs[path].exports.includes("InferenceSession"))!);
  const inputsOf = (paths: readonly string[]): Set<string> =>
    new Set(paths.flatMap((path) => Object.keys(outputs[path].inputs)));
  const isWebgpu = (input: string): boolean =>
    input.includes("/dist/lib/") && readFileSync(join(root, input), "utf8").includes("@workgroup_size");
  const apart = inputsOf(Object.keys(outputs).filter((path) => !eager.has(path)));
  expect([...inputsOf([...eager])].filter(isWebgpu)).toEqual([]);
  expect([...apart].filter(isWebgpu)).toEqual([expect.stringMatching(/\/webgpu-\w+\.js$/)]);
});

test("a bundle for Node runs, with threads where the worker lies beside it, and says what it does not carry", async () => {
  const asks = `import { CausalLM } from "insitu";
    const wolf = (options) => CausalLM.load("node_modules/insitu/models/embedded", options).then(async (lm) => {
      console.log((await lm.generate("The wolf", { maxTokens: 2, temperature: 0 }).text()) !== "");
      await lm.release();
    });
    CausalLM.load().catch(({ code, message }) => console.log(code, message))
      .then(() => wolf({ threads: 1 }))
      .then(() => wolf({ threads: 2 }).catch(({ message }) => console.log(message)));`;
  const here = { resolveDir: installed.project };
  const common = { bundle: true, platform: "node", logLevel: "silent", absWorkingDir: installed.project } as const;
  await build({ ...common, stdin: { contents: asks, ...here }, format: "cjs", outfile: "cjs/app.cjs" });
  await build({ ...common, stdin: { contents: asks, ...here }, format: "esm", outfile: "esm/app.js" });
  const wayOut = /a bundle does not carry it\. Leave insitu out of the bundle .*, or copy node_modules\/insitu\/models/;
  const [cjs, esm] = ["cjs/app.cjs", "esm/app.js"].map((path) => run(process.execPath, path).stdout.split("\n"));
  expect(cjs).toEqual([
    expect.stringMatching(wayOut),
    "true",
    expect.stringContaining("a bundle that is no ES module cannot tell where their script lies); ask for threads: 1"),
    "",
  ]);
  expect(esm).toEqual([
    expect.stringMatching(wayOut),
    "true",
    expect.stringContaining("make insitu/kernel-worker-node.js an entry of its own); ask for threads: 1"),
    "",
  ]);
  // By the recipe of docs/package.md.
  const [, recipe] = /```js\n(\/\/ build\.mjs\n[^]*?)```/.exec(readFileSync(join(root, "docs/package.md"), "utf8"))!;
  symlinkSync(join(root, "node_modules/esbuild"), join(installed.project, "node_modules/esbuild"));
  write("app.js", asks);
  expect(run(process.execPath, write("build.mjs", recipe)).stderr).toBe("");
  expect(run(process.execPath, "out/app.js").stdout.split("\n").slice(1)).toEqual(["true", "true", ""]);
});

test("a bundle holds what is imported: Tensor alone is small", async () => {
  const bytesOf = async (code: string): Promise<{ size: number; text: string }> => {
    const { outputFiles } = await build({
      stdin: { contents: code, resolveDir: installed.project },
      bundle: true,
      minify: true,
      format: "esm",
      write: false,
      logLevel: "silent",
    });
    return { size: outputFiles[0].contents.length, text: outputFiles[0].text };
  };
  const tensor = await bytesOf('import { Tensor } from "insitu"; console.log(new Tensor("float32", [1], [1]));');
  const everything = await bytesOf('import * as insitu from "insitu"; console.log(insitu);');
  const kibibytes = (bytes: number): string => `${(bytes / 1024).toFixed(0)} KiB`;
  console.log(`minified: Tensor alone ${kibibytes(tensor.size)}, everything ${kibibytes(everything.size)}`);
  expect(tensor.size).toBeLessThan(40_000);
  expect(tensor.text).not.toContain("TensorScatter");
  expect(everything.text).toContain("TensorScatter");
  expect(everything.size).toBeLessThan(2_000_000);
});
