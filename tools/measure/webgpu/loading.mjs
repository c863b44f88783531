// One cold load on a GPU, each in a process of its own: when what was done, by the process's own clock from its start, and what the process held then. The
// first rows are of a process with a device and no model: what no runtime on that device gets below. Needs a GPU, or a program that plays one.
// Usage: node tools/measure/webgpu/loading.mjs [--small] [--only <name of a shape>] [--mappings]
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import os from "node:os";

const given = process.argv.slice(2);
const has = (name) => given.includes(name);
const valueOf = (name) => (has(name) ? given[given.indexOf(name) + 1] : undefined);

/** MiB by the kernel's account. */
function memory() {
  const text = readFileSync("/proc/self/status", "utf8");
  const of = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(text)?.[1] ?? 0) / 1024;
  const { heapTotal, arrayBuffers } = process.memoryUsage();
  return [
    of("VmRSS"),
    of("VmHWM"),
    of("RssAnon"),
    of("RssFile"),
    of("RssShmem"),
    heapTotal / 2 ** 20,
    arrayBuffers / 2 ** 20,
  ];
}

const marks = [];
function mark(what) {
  const { user, system } = process.cpuUsage();
  marks.push([what, performance.now(), (user + system) / 1000, ...memory()]);
}

function tell(title) {
  const columns = ["ms", "cpu ms", "RSS", "most", "anon", "file", "shm", "V8", "arrays"];
  console.log(`\n${title}\n${"".padEnd(34)}${columns.map((name) => name.padStart(8)).join("")}`);
  for (const [what, ...numbers] of marks)
    console.log(what.padEnd(34) + numbers.map((each) => each.toFixed(0).padStart(8)).join(""));
}

/** What of the memory belongs to which file or kind, the largest first. */
function tellMappings() {
  const byName = new Map();
  let name = "";
  for (const line of readFileSync("/proc/self/smaps", "utf8").split("\n")) {
    const head = /^[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+\s*(.*)$/.exec(line);
    if (head) name = head[2] === "" ? "no name" : head[2].replace(/^.*\//, "");
    const rss = /^Rss:\s+(\d+)/.exec(line);
    if (rss) byName.set(name, (byName.get(name) ?? 0) + Number(rss[1]) / 1024);
  }
  const largest = [...byName].sort((a, b) => b[1] - a[1]).slice(0, 10);
  console.log(`  lies in: ${largest.map(([of, size]) => `${of} ${size.toFixed(0)}`).join(", ")}`);
}

/** Has every device tell when its first pipeline was asked for, and when the last one asked for so far was there. */
function watch(globals) {
  const { createComputePipelineAsync: create } = globals.GPUDevice.prototype;
  const pipelines = { asked: 0, there: 0, last: undefined, took: [] };
  globals.GPUDevice.prototype.createComputePipelineAsync = async function (...of) {
    if (pipelines.asked++ === 0) mark("first pipeline asked for");
    const began = performance.now();
    const made = await create.apply(this, of);
    pipelines.took.push([of[0].label, began, performance.now()]);
    if (++pipelines.there === pipelines.asked)
      pipelines.last = [`${pipelines.there} pipelines there`, performance.now(), 0, ...memory()];
    return made;
  };
  return pipelines;
}

async function load(folder, length) {
  mark("node up");
  const { globals } = await import("webgpu");
  mark("Dawn imported");
  const pipelines = watch(globals);
  const { keeping } = await import("#insitu/webgpu-kernels/tuning.js");
  // What is tried out: numbers of the table in place of its own.
  Object.assign(keeping, JSON.parse(process.env.KEEPING ?? "{}"));
  const { CausalLM } = await import("#insitu/entry/node.js");
  const { nodePlatform } = await import("#insitu/platform/node.js");
  mark("library imported");
  const own = { ...nodePlatform };
  nodePlatform.gpu = async () => {
    mark("device asked for");
    const found = await own.gpu();
    Object.assign(globalThis, globals);
    return found;
  };
  const counted = async (file, name) => {
    const read = file.read.bind(file);
    let first = true;
    file.read = (...of) => {
      if (first) mark(`first read of ${name}`);
      first = false;
      return read(...of);
    };
    return file;
  };
  nodePlatform.open = async (path) => counted(await own.open(path), path.replace(/^.*\//, ""));
  nodePlatform.openBeside = async (path, location) => counted(await own.openBeside(path, location), "weights");
  let [phase, before] = [undefined, 0];
  const lm = await CausalLM.load(folder, {
    backend: "webgpu",
    webgpu: { compileAhead: process.env.AHEAD !== "no" },
    context: length > 100 ? 4096 + 72 : 96,
    onProgress(loaded, total, told) {
      if (told?.phase !== phase) mark(`phase: ${(phase = told?.phase)}`);
      if (loaded === total && before !== total) mark("last weight byte");
      before = loaded;
    },
  });
  mark("loaded");
  const prompt = Array.from({ length }, (_, at) => (at * 7919 + 13) % 40_000);
  let count = 0;
  for await (const _ of lm.generate(
    prompt.map((token) => token % lm.vocabulary),
    { temperature: 0, ignoreEnd: true, maxTokens: 16 },
  )) {
    if (++count === 1) {
      if (pipelines.last) marks.push(pipelines.last);
      mark(`first token behind ${length}`);
    }
    if (count === 2) mark("second token");
  }
  mark("16 tokens");
  marks.sort((a, b) => a[1] - b[1]);
  tell(`loading ${folder.replace(/^.*\//, "")}${process.env.TITLE ?? ""}`);
  const slowest = pipelines.took.toSorted(([, a, b], [, c, d]) => d - c - (b - a)).slice(0, 12);
  console.log(
    `  pipelines: ${slowest.map(([name, from, to]) => `${name} ${from.toFixed(0)}-${to.toFixed(0)}`).join(", ")}`,
  );
  if (has("--mappings")) tellMappings();
  process.exit(0);
}

/** A process with a device and some pipelines. */
async function floor() {
  mark("node up");
  const { create, globals } = await import("webgpu");
  mark("Dawn imported");
  Object.assign(globalThis, globals);
  const gpu = create(["enable-dawn-features=vulkan_enable_f16_on_nvidia,allow_unsafe_apis,disable_workgroup_init"]);
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  mark("adapter");
  const device = await adapter.requestDevice();
  mark("device");
  const pipeline = async (n) => {
    const code = `@group(0) @binding(0) var<storage, read_write> a: array<f32>;
      @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3u) {
        var s = a[i.x];
        for (var k = 0u; k < ${n + 3}u; k++) { s = s * 1.5 + a[i.x + k * ${n + 1}u]; }
        a[i.x] = s;
      }`;
    const module = device.createShaderModule({ code });
    await device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: "main" } });
  };
  await pipeline(0);
  mark("1 pipeline");
  await Promise.all(Array.from({ length: 31 }, (_, n) => pipeline(n + 1)));
  mark("32 pipelines");
  tell("floor: a device and no model");
  if (has("--mappings")) tellMappings();
  process.exit(0);
}

async function main() {
  const { ShapeFolders } = await import("../../../dist/tools/bench/models/shape-files.js");
  const { smallPublishedSizes } = await import("../../../dist/tools/demo/published-decoder.js");
  const { publishedShapes, qwen3 } = await import("../../../dist/tools/demo/published-shapes.js");
  const shapes = has("--small") ? [{ ...qwen3, name: "small", sizes: smallPublishedSizes }] : publishedShapes;
  const folders = new ShapeFolders();
  const child = (args, env = {}) => {
    const more = has("--mappings") ? ["--mappings"] : [];
    const { stdout, stderr } = spawnSync(process.execPath, [process.argv[1], ...args, ...more], {
      env: { ...process.env, ...env },
      timeout: 60_000,
    });
    process.stdout.write(stdout);
    if (stderr.length > 0) process.stdout.write(stderr.subarray(-2000));
  };
  const type = has("--small") ? "float32" : "float16";
  console.log(`node ${process.version}, ${os.cpus().length} processors, ${os.cpus()[0]?.model}`);
  child(["--floor"]);
  let isFirst = true;
  for (const shape of shapes) {
    if (valueOf("--only") !== undefined ? shape.name !== valueOf("--only") : shape.name.startsWith("SmolLM")) continue;
    const { folder } = folders.of(shape, { gguf: false, gpu: type, tell: () => undefined });
    // The first load of a process warms the machine's own caches: the second one is told.
    for (const round of ["", ", again"])
      child(["--load", folder, "--length", has("--small") ? "24" : "512"], { TITLE: round });
    // As on a machine that has never run the model: the driver keeps what it compiled.
    const cold = { __GL_SHADER_DISK_CACHE: "0" };
    for (const mostCompilations of isFirst ? [undefined, 2, 32] : [undefined]) {
      const text = JSON.stringify({ mostCompilations });
      child([...load, "--length", length], { TITLE: `, no kept shaders, ${text}`, KEEPING: text, ...cold });
    }
    isFirst = false;
  }
  folders.remove();
  process.exit(0);
}

if (has("--load")) await load(valueOf("--load"), Number(valueOf("--length")));
else if (has("--floor")) await floor();
else await main();
