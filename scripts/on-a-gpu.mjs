// Runs on a GPU what only a GPU can show: subgroups that multiply matrices, subgroups of 32, shaders as a driver compiles them. Notes the result, with
// the commit and the device, in test/webgpu/on-a-gpu.json, which the tests read: they say so when kernels are newer. `node scripts/on-a-gpu.mjs`
import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Where the result stands. */
export const recordPath = `${root}test/webgpu/on-a-gpu.json`;

/** What the record is about: a result is old once one of these changed behind its commit. */
export const kernelPaths = [
  "src/ops/shared/webgpu",
  "src/ops/*/webgpu*.ts",
  "src/webgpu-kernels",
  "src/backends/webgpu",
];

const git = (...args) =>
  execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

/** The last commit that changed a kernel where that is not in the record's history; undefined where the record is as new, or nobody can tell. */
export function newerKernels(record) {
  let last;
  try {
    last = git(
      "log",
      "-1",
      "--format=%h %cs",
      "--",
      ...kernelPaths.map((path) => `:(glob)${path}${path.endsWith(".ts") ? "" : "/**"}`),
    );
  } catch {
    return undefined;
  }
  if (record.commit === null) return last;
  try {
    git("merge-base", "--is-ancestor", last.split(" ")[0], record.commit);
    return undefined;
  } catch {
    return last;
  }
}

/** What the GPU here is called; undefined where there is none, or software that stands in for one. */
export async function adapterName() {
  const { create, globals } = await import("webgpu");
  Object.assign(globalThis, globals);
  const info = (await create([]).requestAdapter())?.info;
  const told = [info?.vendor, info?.architecture, info?.description].filter(Boolean).join(" ");
  return info === undefined || /swiftshader|llvmpipe|software/i.test(told) ? undefined : told;
}

/** The record as text. */
export const noteOnGpu = ({ commit, device, result }) =>
  `${JSON.stringify({ commit, date: new Date().toISOString().slice(0, 10), device, result }, null, 2)}\n`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const device = await adapterName();
  if (device === undefined) {
    console.error("no GPU here: nothing was run, and the record stays as it is");
    process.exit(1);
  }
  if (git("status", "--porcelain", "--untracked-files=no") !== "") {
    console.error("there are changes that no commit has: commit them first, since the record names a commit");
    process.exit(1);
  }
  const env = { ...process.env, INSITU_SOAK: "1", INSITU_PARTS: "GPU" };
  const vitest = [
    `${root}node_modules/vitest/vitest.mjs`,
    "run",
    "test/webgpu",
    "test/serve/engine-webgpu",
    "test/serve/lost-device",
  ];
  const { stdout, status } = spawnSync(process.execPath, vitest, {
    cwd: root,
    env,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 2 ** 28,
  });
  process.stdout.write(stdout);
  const result = stdout.trim().split("\n").at(-1);
  writeFileSync(recordPath, noteOnGpu({ commit: git("rev-parse", "HEAD"), device, result }));
  console.log(`noted in ${recordPath}: commit it`);
  process.exitCode = status ?? 1;
}
