// The rooms of the library in import order, and the tsconfig.json that each one gets: a room imports only what it lists here, and lists what it imports.
// `node scripts/rooms.mjs` writes the files; the tests check that they are up to date.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Room → the rooms it may import directly. Rooms are folders of src/; `apart: true` marks those of packages/, which are families of their own beside the
 * core, and are imported as `#insitu/<room>/<file>.js`, here and there. `node: true` marks the rooms that may use Node's own types; `inferred: true` those whose exports
 * have the types that follow from what they say, so that a declaration does not repeat itself as a type.
 */
export const rooms = {
  base: { imports: [] },
  text: { imports: ["base"], apart: true },
  tensor: { imports: ["base"] },
  packings: { imports: ["tensor"], apart: true },
  onnx: { imports: ["base", "tensor"] },
  graph: { imports: ["base", "tensor", "packings", "onnx"] },
  "wasm-kernels": { imports: ["graph"] },
  "webgpu-kernels": { imports: ["tensor", "graph"] },
  ops: { imports: ["base", "tensor", "packings", "graph", "wasm-kernels", "webgpu-kernels"], inferred: true },
  passes: { imports: ["base", "tensor", "graph"] },
  plan: { imports: ["base", "tensor", "graph"] },
  backends: { imports: ["base", "tensor", "graph", "wasm-kernels", "webgpu-kernels", "plan"] },
  explain: { imports: ["base", "tensor", "onnx", "graph", "plan", "backends"], apart: true },
  rewrite: { imports: ["base", "tensor", "onnx", "graph", "ops", "passes", "plan"], apart: true },
  session: {
    imports: ["base", "tensor", "packings", "onnx", "graph", "ops", "passes", "plan", "backends", "explain", "rewrite"],
  },
  functions: { imports: ["base", "tensor", "graph", "ops"], apart: true },
  decoder: { imports: ["base", "tensor", "onnx", "ops", "rewrite", "session"] },
  cache: { imports: ["base", "tensor", "onnx", "rewrite", "session", "decoder"] },
  schedule: { imports: ["base"], apart: true },
  choice: { imports: ["base", "decoder"], apart: true },
  engine: { imports: ["base", "tensor", "session", "decoder", "cache", "schedule", "choice"] },
  eviction: { imports: ["base", "tensor", "onnx", "rewrite", "session", "decoder", "cache"], apart: true },
  dialogue: { imports: ["base", "choice", "engine"], apart: true },
  heads: { imports: ["base", "tensor", "session", "decoder", "engine"], apart: true },
  generate: { imports: ["base", "text", "session", "decoder", "cache", "choice", "engine", "dialogue", "heads"] },
  embedding: { imports: ["base", "tensor", "session", "generate"], apart: true },
  grammar: { imports: ["base", "text", "choice", "engine"], apart: true },
  serve: {
    imports: ["base", "cache", "schedule", "choice", "engine", "dialogue", "generate", "embedding"],
    apart: true,
    inferred: true,
  },
  hub: { imports: ["base"], apart: true },
  platform: { imports: ["base", "backends", "hub"], node: true },
  stores: { imports: ["base"], node: true, apart: true },
  entry: {
    imports: [
      "base",
      "tensor",
      "onnx",
      "ops",
      "plan",
      "backends",
      "rewrite",
      "session",
      "functions",
      "cache",
      "choice",
      "engine",
      "eviction",
      "dialogue",
      "heads",
      "generate",
      "embedding",
      "grammar",
      "hub",
      "platform",
    ],
  },
  ai: { imports: ["base", "choice", "generate"], apart: true },
  worker: {
    imports: ["base", "tensor", "session", "cache", "dialogue", "generate", "embedding", "hub", "platform", "entry"],
    apart: true,
    node: true,
  },
  cli: {
    imports: [
      "base",
      "tensor",
      "onnx",
      "graph",
      "passes",
      "plan",
      "backends",
      "explain",
      "rewrite",
      "session",
      "decoder",
      "cache",
      "choice",
      "engine",
      "heads",
      "generate",
      "serve",
      "hub",
      "platform",
      "stores",
      "entry",
    ],
    node: true,
    apart: true,
  },
};

const root = fileURLToPath(new URL("..", import.meta.url));

/** The folder of a room, from the root. */
export const folderOf = (room) => `${rooms[room]?.apart ? "packages" : "src"}/${room}`;

/** The source of what is imported as `#insitu/<room>/<file>.js`, from the root. */
export function sourceOf(specifier) {
  const [room, ...rest] = specifier.replace("#insitu/", "").split("/");
  return [folderOf(room), ...rest].join("/").replace(/\.js$/, ".ts");
}

/** The tsconfig.json text of one room. */
export function tsconfig(room) {
  const { imports, node, inferred, apart } = rooms[room];
  return `${JSON.stringify(
    {
      extends: "../../tsconfig.base.json",
      compilerOptions: {
        rootDir: "..",
        outDir: "../../dist",
        tsBuildInfoFile: `../../dist/.tsbuildinfo/${room}`,
        ...(node ? { types: ["node"] } : {}),
        ...(inferred ? { isolatedDeclarations: false } : {}),
      },
      include: ["./**/*.ts"],
      references: imports.map((path) => ({
        path: (rooms[path].apart === true) === (apart === true) ? `../${path}` : `../../${folderOf(path)}`,
      })),
    },
    null,
    2,
  )}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const room of Object.keys(rooms)) {
    const path = `${root}${folderOf(room)}/tsconfig.json`;
    mkdirSync(`${root}${folderOf(room)}`, { recursive: true });
    if (!existsSync(path) || readFileSync(path, "utf8") !== tsconfig(room)) writeFileSync(path, tsconfig(room));
  }
}
