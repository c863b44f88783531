// Packs what peers/device needs on a bare Linux machine into one archive: node scripts/bare/pack-peers.mjs <archive.tar.xz>
// There, in a checkout's root: tar -xJf <archive.tar.xz>. Peers that are not installed here are left out, and so is what belongs to other systems.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const [archive] = process.argv.slice(2);
if (archive === undefined) throw new Error("usage: node scripts/bare/pack-peers.mjs <archive.tar.xz>");

/** Large parts of the packages that a GPU on Linux has no use for. */
const left = [
  "peers/node_modules/onnxruntime-web",
  "peers/node_modules/onnxruntime-node/bin/napi-v6/darwin",
  "peers/node_modules/onnxruntime-node/bin/napi-v6/win32",
  "peers/node_modules/onnxruntime-node/bin/napi-v6/linux/arm64",
  "*.bundle",
  "peers/node_modules/cmake-js",
  "*.map",
  "*.d.ts",
];
if (!existsSync(`${root}peers/node_modules`))
  throw new Error("no peer is installed: npm --prefix peers ci installs onnxruntime");
execFileSync("tar", ["-cJf", archive, "-C", root, ...left.map((each) => `--exclude=${each}`), "peers"], {
  stdio: "inherit",
});
