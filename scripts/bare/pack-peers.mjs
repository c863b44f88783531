// Packs what `insitu bench device` and `insitu bench models` need to run beside their peers on a bare Linux machine with a GPU:
//   node scripts/bare/pack-peers.mjs <folder>
// An archive for each peer that is installed below peers/, with what it needs on such a machine and nothing else; one of the programs, bundled, and of
// the peers' scripts; and go-peers.sh, which unpacks them there. Peers' archives that the folder has already are left as they are.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: node scripts/bare/pack-peers.mjs <folder>");

/** A peer, and packages that it loads by names that its package.json does not require. */
const peers = [
  { name: "onnxruntime-node", more: [] },
  { name: "node-llama-cpp", more: ["@node-llama-cpp/linux-x64-vulkan"] },
];

/** Parts of the packages that such a machine has no use for. */
const left = [
  "onnxruntime-node/bin/napi-v6/darwin",
  "onnxruntime-node/bin/napi-v6/win32",
  "onnxruntime-node/bin/napi-v6/linux/arm64",
  "node-llama-cpp/llama/gitRelease.bundle",
  "node-llama-cpp/templates",
  "*.map",
  "*.d.ts",
];

/** The folders, below peers/, of a package and of everything that it depends on. */
function foldersOf(name, from = "", found = new Set()) {
  // As Node looks for it: in the package that asks, then in those around it.
  const places = [];
  for (let at = from; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules") - 1)))
    places.push(`${at}/node_modules/${name}`);
  const folder = [...places, `node_modules/${name}`].find((place) => existsSync(join(root, "peers", place)));
  if (folder === undefined) throw new Error(`${name} is not installed below peers/: npm --prefix peers ci installs it`);
  if (found.has(folder)) return found;
  found.add(folder);
  const { dependencies = {} } = JSON.parse(readFileSync(join(root, "peers", folder, "package.json"), "utf8"));
  for (const each of Object.keys(dependencies)) foldersOf(each, folder, found);
  return found;
}

/** Packs paths below a folder; what lies in a nested node_modules is named by its own path. */
function pack(archive, from, paths, excluded = []) {
  const path = join(folder, archive);
  const options = excluded.map((each) => `--exclude=${each}`);
  // An archive that is there is a whole one.
  execFileSync("tar", ["-cf", `${path}.part`, "-I", "xz -9 -T1", "-C", from, ...options, ...paths], {
    stdio: "inherit",
  });
  renameSync(`${path}.part`, path);
}

mkdirSync(folder, { recursive: true });
for (const { name, more } of peers) {
  const archive = `${name}.tar.xz`;
  if (existsSync(join(folder, archive))) continue;
  const folders = new Set([name, ...more].flatMap((each) => [...foldersOf(each)]));
  // One below another is packed with it.
  const outermost = [...folders].filter((path) => ![...folders].some((each) => path.startsWith(`${each}/`)));
  pack(
    archive,
    root,
    outermost.map((path) => `peers/${path}`),
    left,
  );
}

const staged = mkdtempSync(join(tmpdir(), "insitu-pack-"));
try {
  const programs = ["tools/cli/main.ts", "tools/bench/models/insitu-process.ts"];
  execFileSync(process.execPath, [join(root, "scripts/bare/bundle.mjs"), staged, ...programs], {
    cwd: root,
    stdio: "inherit",
  });
  const scripts = ["package.json", "peers"].flatMap((path) =>
    execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "--", path], {
      cwd: root,
      encoding: "utf8",
    })
      .trim()
      .split("\n")
      .filter((file) => existsSync(join(root, file))),
  );
  for (const file of scripts) {
    mkdirSync(join(staged, file, ".."), { recursive: true });
    copyFileSync(join(root, file), join(staged, file));
  }
  pack("programs.tar.xz", staged, ["."]);
} finally {
  rmSync(staged, { recursive: true });
}
copyFileSync(join(root, "scripts/bare/go-peers.sh"), join(folder, "go-peers.sh"));
for (const file of [...peers.map(({ name }) => `${name}.tar.xz`), "programs.tar.xz"])
  console.log(`${file}: ${(statSync(join(folder, file)).size / 2 ** 20).toFixed(1)} MiB`);
