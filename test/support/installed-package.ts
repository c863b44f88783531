// The package as a stranger gets it: packed, and installed from the tarball into a fresh project that reaches nothing of this repository.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

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

/** Packs and installs. Dependencies are packed from here too, so that no registry is asked. */
export function installPackage(): InstalledPackage {
  const folder = mkdtempSync(join(tmpdir(), "insitu-package-"));
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
  return {
    project,
    tarball: tarballs[0],
    tarballBytes: statSync(tarballs[0]).size,
    files: packed[0].files.map(({ path }) => path),
    remove: () => rmSync(folder, { recursive: true }),
  };
}

function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync("npm", args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`npm ${args[0]} failed in ${cwd}: ${stderr}`);
  return stdout;
}
