// The package as a stranger gets it: packed, and installed from the tarball into a fresh project that reaches nothing of this repository.
// Suites of one test run share the packing and the installation, and have a project each.
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The folder that the suites of a test run share; test/support/shared-folder.ts makes it and takes it away. */
const shared = process.env["INSITU_TEST_FOLDER"] ?? mkdtempSync(join(tmpdir(), "insitu-test-"));

export interface InstalledPackage {
  /** The project that has it in its node_modules. */
  readonly project: string;
  readonly tarball: string;
  readonly tarballBytes: number;
  /** The paths inside the tarball. */
  readonly files: readonly string[];
  remove(): void;
}

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

/** A project with the package, for one suite alone. */
export function installPackage(): InstalledPackage {
  const { tarball, files, project: first } = installOnce();
  const folder = mkdtempSync(join(tmpdir(), "insitu-package-"));
  const project = join(folder, "project");
  cpSync(first, project, { recursive: true, verbatimSymlinks: true });
  return {
    project,
    tarball,
    tarballBytes: statSync(tarball).size,
    files,
    remove: () => rmSync(folder, { recursive: true }),
  };
}

interface Installed {
  readonly project: string;
  readonly tarball: string;
  readonly files: readonly string[];
}

/** Tenths of a second that a suite waits for the one that packs. */
const mostTenths = 6000;

/** Packs and installs, or waits for the suite that does. */
function installOnce(): Installed {
  const folder = join(shared, "package");
  const told = join(folder, "installed.json");
  const failed = join(folder, "failed.txt");
  try {
    mkdirSync(folder);
  } catch {
    for (let tenths = 0; !existsSync(told); tenths++) {
      if (existsSync(failed)) throw new Error(readFileSync(failed, "utf8"));
      if (tenths > mostTenths) throw new Error(`another suite is packing in ${folder}, and does not end`);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    }
    return JSON.parse(readFileSync(told, "utf8")) as Installed;
  }
  try {
    const installed = install(folder);
    writeFileSync(`${told}.new`, JSON.stringify(installed));
    renameSync(`${told}.new`, told);
    return installed;
  } catch (error) {
    writeFileSync(failed, String(error));
    throw error;
  }
}

/** Packs and installs. Dependencies are packed from here too, so that no registry is asked. */
function install(folder: string): Installed {
  const project = join(folder, "project");
  mkdirSync(project);
  const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  const sources = [".", ...Object.keys(dependencies).map((name) => `./node_modules/${name}`)];
  const packed = JSON.parse(
    npm(root, "pack", "--json", "--ignore-scripts", "--pack-destination", folder, ...sources),
  ) as Packed[];
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module", private: true }));
  const tarballs = packed.map(({ filename }) => join(folder, filename));
  npm(project, "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", ...tarballs);
  return { project, tarball: tarballs[0], files: packed[0].files.map(({ path }) => path) };
}

function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync("npm", args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`npm ${args[0]} failed in ${cwd}: ${stderr}`);
  return stdout;
}
