// A project as users of transformers.js have it: the package unchanged, and one override in package.json that puts insitu's tarball where
// onnxruntime-node would be. Everything is packed from what is installed here, so that no registry is asked.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The project that has transformers.js with onnxruntime-node. */
export const peers: string = join(root, "peers");

/** The reason why there is no client to try, or undefined. */
export const missing: string | undefined = existsSync(join(peers, "node_modules/@huggingface/transformers"))
  ? undefined
  : "transformers.js is not installed: npm --prefix peers ci";

export interface ClientProject {
  readonly folder: string;
  remove(): void;
}

interface Manifest {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;

/** Packages that insitu stands in for. */
const replaced = ["onnxruntime-node", "onnxruntime-web"];

/** Every package that transformers.js needs, with what insitu needs, by name. */
function neededFolders(): ReadonlyMap<string, string> {
  const folders = new Map<string, string>();
  const add = (name: string, from: string): void => {
    const folder = join(from, "node_modules", name);
    if (folders.has(name) || replaced.includes(name) || !existsSync(folder)) return;
    folders.set(name, folder);
    const { dependencies = {}, optionalDependencies = {} } = manifestOf(folder);
    for (const other of Object.keys({ ...dependencies, ...optionalDependencies })) add(other, from);
  };
  add("@huggingface/transformers", peers);
  // transformers.js imports it, and leaves it to onnxruntime-web to bring it.
  add("onnxruntime-common", peers);
  for (const name of Object.keys(manifestOf(root).dependencies!)) add(name, root);
  return folders;
}

/** Packs and installs; takes some seconds. */
export function installClient(): ClientProject {
  const folder = mkdtempSync(join(tmpdir(), "insitu-client-"));
  const remove = (): void => rmSync(folder, { recursive: true });
  try {
    const project = join(folder, "project");
    mkdirSync(project);
    const needed = neededFolders();
    const packed = JSON.parse(
      npm(root, "pack", "--json", "--ignore-scripts", "--pack-destination", folder, root, ...needed.values()),
    ) as { readonly name: string; readonly filename: string }[];
    const tarballs = new Map(packed.map(({ name, filename }) => [name, `file:../${filename}`]));
    writeFileSync(
      join(project, "package.json"),
      JSON.stringify({
        private: true,
        type: "module",
        dependencies: Object.fromEntries([...needed.keys()].map((name) => [name, tarballs.get(name)])),
        overrides: Object.fromEntries(replaced.map((name) => [name, tarballs.get("insitu")])),
      }),
    );
    const cache = join(folder, "cache");
    npm(project, "install", "--offline", "--cache", cache, "--no-audit", "--no-fund", "--ignore-scripts");
    return { folder: project, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync("npm", args, { cwd, encoding: "utf8", maxBuffer: 1e8 });
  if (status !== 0) throw new Error(`npm ${args[0]} failed in ${cwd}: ${stderr}`);
  return stdout;
}

/** A transformers.js to run programs with: that of a project, or the peers' with insitu standing in where it looks for onnxruntime-node. */
export interface Client {
  readonly project: string;
  readonly standsIn: boolean;
}

/** transformers.js on onnxruntime-node. */
export const onOnnxruntime: Client = { project: peers, standsIn: false };

/** The same files on insitu, with nothing installed for it. */
export const onInsitu: Client = { project: peers, standsIn: true };

/** Runs a program of this folder in a process of its own; what it printed last, as JSON. */
export function runClient<Result>({ project, standsIn }: Client, program: string, ...args: readonly string[]): Result {
  const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
  const entry = join(project, "node_modules/@huggingface/transformers/dist/transformers.node.mjs");
  const hook = standsIn ? ["--require", here("stand-in.cjs")] : [];
  const command = [...hook, "--expose-gc", here(program), entry, ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: "utf8", maxBuffer: 1e8 });
  const from = `${program} on ${standsIn ? "insitu" : "what is installed"} in ${project}`;
  if (status !== 0 || stderr !== "") throw new Error(`${from} ended with ${status}: ${stderr}\n${stdout}`);
  return JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as Result;
}
