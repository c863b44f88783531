// The built package in a project's node_modules, as npm would put it there, but copied: for suites that try bundlers and need no registry,
// no tarball and no seconds. What npm makes of the tarball is tried in test/package.
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeWebPackage } from "../../scripts/web-package.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Puts `insitu` into a project, or `insitu-web` under that name, with what it depends on. */
export function copyPackage(project: string, which: "insitu" | "insitu-web"): void {
  const modules = join(project, "node_modules");
  const target = join(modules, "insitu");
  mkdirSync(target, { recursive: true });
  if (which === "insitu-web") writeWebPackage(target);
  else {
    cpSync(join(root, "dist"), join(target, "dist"), { recursive: true });
    cpSync(join(root, "package.json"), join(target, "package.json"));
  }
  const { dependencies } = JSON.parse(readFileSync(join(target, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    cpSync(join(root, "node_modules", name), join(modules, name), { recursive: true });
  }
}
