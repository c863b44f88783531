// The rooms of src/ in import order, and the tsconfig.json that each one gets: a room imports only what it lists here, and lists what it imports.
// `node scripts/rooms.mjs` writes the files; the tests check that they are up to date.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Room → the rooms it may import directly. `node: true` marks the rooms that may use Node's own types; `inferred: true` those whose exports
 * have the types that follow from what they say, so that a declaration does not repeat itself as a type.
 */
export const rooms = {
  base: { imports: [] },
  tensor: { imports: ["base"] },
  onnx: { imports: ["base", "tensor"] },
  graph: { imports: ["base", "tensor", "onnx"] },
  "wasm-kernels": { imports: ["graph"] },
  "webgpu-kernels": { imports: ["tensor", "graph"] },
  ops: { imports: ["base", "tensor", "graph", "wasm-kernels", "webgpu-kernels"], inferred: true },
  passes: { imports: ["base", "tensor", "graph"] },
  plan: { imports: ["base", "tensor", "graph"] },
  backends: { imports: ["base", "tensor", "graph", "wasm-kernels", "webgpu-kernels", "plan"] },
  explain: { imports: ["base", "tensor", "graph", "plan", "backends"] },
  rewrite: { imports: ["base", "tensor", "onnx", "graph", "ops", "passes"] },
  session: { imports: ["base", "tensor", "onnx", "graph", "ops", "passes", "plan", "backends", "explain", "rewrite"] },
  functions: { imports: ["base", "tensor", "graph", "ops"] },
  cache: { imports: ["base", "tensor", "onnx", "rewrite", "session"] },
  schedule: { imports: ["base"] },
  engine: { imports: ["base", "tensor", "session", "cache", "schedule"] },
  generate: { imports: ["base", "session", "cache", "engine"] },
  grammar: { imports: ["base", "engine", "generate"] },
  serve: { imports: ["base", "cache", "schedule", "engine", "generate"], inferred: true },
  hub: { imports: ["base"], node: true },
  platform: { imports: ["base", "backends"], node: true },
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
      "engine",
      "generate",
      "grammar",
      "hub",
      "platform",
    ],
  },
  worker: { imports: ["base", "tensor", "generate", "session", "hub", "platform", "entry"], node: true },
  cli: {
    imports: [
      "base",
      "onnx",
      "graph",
      "plan",
      "backends",
      "explain",
      "rewrite",
      "session",
      "cache",
      "engine",
      "generate",
      "serve",
      "hub",
      "platform",
      "entry",
    ],
    node: true,
  },
};

const root = fileURLToPath(new URL("..", import.meta.url));

/** The tsconfig.json text of one room. */
export function tsconfig(room) {
  const { imports, node, inferred } = rooms[room];
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
      references: imports.map((path) => ({ path: `../${path}` })),
    },
    null,
    2,
  )}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const room of Object.keys(rooms)) {
    const path = `${root}src/${room}/tsconfig.json`;
    mkdirSync(`${root}src/${room}`, { recursive: true });
    if (!existsSync(path) || readFileSync(path, "utf8") !== tsconfig(room)) writeFileSync(path, tsconfig(room));
  }
}
