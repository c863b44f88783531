// The rules of the rooms, each a function from files to what breaks it.
import { isGenerated, type Source } from "./sources.js";

/** Rooms by name, in import order, with the rooms that each may import. */
export type Rooms = Readonly<Record<string, { readonly imports: readonly string[] }>>;

const inRooms = (sources: readonly Source[], rooms: readonly string[]): Source[] =>
  sources.filter((source) => source.room !== undefined && rooms.includes(source.room) && !isGenerated(source));

/** Imports of rooms that a room does not list, and rooms that it lists without a need. The entry points may import every room. */
export function roomProblems(sources: readonly Source[], rooms: Rooms): string[] {
  const found: string[] = [];
  const imported = new Map(Object.keys(rooms).map((room) => [room, new Set<string>()]));
  for (const source of sources) {
    const { path, room } = source;
    if (room === undefined) continue;
    for (const { file } of source.uses) {
      const target = file.split("/")[1];
      if (target === room) continue;
      imported.get(room)!.add(target);
      if (!rooms[room].imports.includes(target)) found.push(`${path} imports ${file}`);
    }
  }
  for (const [room, used] of imported)
    for (const each of rooms[room].imports) if (!used.has(each)) found.push(`${room} lists ${each}`);
  return [...new Set(found)];
}

/** Files of the library that take something from tools/: the command line alone loads them, by their place, when they are asked for. */
export function toolImports(sources: readonly Source[]): string[] {
  return sources.flatMap(({ path, uses }) =>
    uses.filter(({ file }) => file.startsWith("tools/")).map(({ file }) => `${path} imports ${file}`),
  );
}

/** What runs a text decoder. Layouts of caches and heads, which guess, alone hold it: whoever wants text asks the engine. */
const decoders: ReadonlySet<string> = new Set(["src/decoder/decoder.ts", "src/decoder/token-drawer.ts"]);
const runsDecoders: ReadonlySet<string> = new Set(["Decoder", "TokenDrawer"]);

/** Files outside of the engine, of the caches and of heads that drive a decoder, and layouts that begin steps outside of the one loop. */
export function decodeLoops(sources: readonly Source[]): string[] {
  return sources.flatMap((source) => {
    const { path, room, uses, text } = source;
    if (room === undefined) return [];
    const drives = uses.some(({ file, name }) => decoders.has(file) && (name === "*" || runsDecoders.has(name)));
    const isHome = ["decoder", "cache", "engine", "eviction", "heads"].includes(room);
    const begins = /\blayout\.begin\(/.test(text) && path !== "src/engine/token-engine.ts";
    return (drives && !isHome) || begins ? [`${path} drives a decoder`] : [];
  });
}

/** Rooms whose business operators' names are: they declare them, rewrite them, or call them. */
const roomsOfOperators: ReadonlySet<string> = new Set(["ops", "rewrite", "passes", "functions"]);

/** Operators by name where shared code asks for what they declare. */
export function operatorNames(sources: readonly Source[], names: ReadonlySet<string>): string[] {
  const found: string[] = [];
  for (const source of sources) {
    if (isGenerated(source) || source.room === undefined || roomsOfOperators.has(source.room)) continue;
    // Templates have a statement called If.
    if (source.path.startsWith("packages/text/template/")) continue;
    const made = new Set<number>();
    source.visit({
      // Who makes a node, or has a cache edited, says which operator it calls; that asks nothing.
      Property({ key, value }) {
        if (key.type === "Identifier" && ["opType", "operator"].includes(key.name)) made.add(value.start);
      },
      ...quoted((text, node) => {
        if (names.has(text) && !made.has(node.start)) found.push(`${source.at(node)} names ${text}`);
      }),
    });
  }
  return found;
}

/** Rooms that know no backend and no device. */
const sharedRooms = ["base", "tensor", "onnx", "graph", "plan", "session", "decoder", "cache", "generate"];

/** Backends by name, and what belongs to one of them, in shared rooms. */
export function backendNames(sources: readonly Source[], names: ReadonlySet<string>): string[] {
  const found: string[] = [];
  for (const source of inRooms(sources, sharedRooms)) {
    for (const { file } of source.uses)
      if (/^src\/(backends\/[^/]+|wasm-kernels|webgpu-kernels)\//.test(file))
        found.push(`${source.path} imports ${file}`);
    source.visit({
      ...quoted((text, node) => {
        if (names.has(text)) found.push(`${source.at(node)} names ${text}`);
      }),
      Identifier(node) {
        if (/wasm|webgpu|simd/i.test(node.name)) found.push(`${source.at(node)} names ${node.name}`);
      },
    });
  }
  return found;
}

/** Attributes of operators by name: a declaration tells what they mean. */
export function attributeNames(sources: readonly Source[]): string[] {
  const found: string[] = [];
  for (const source of inRooms(sources, ["plan", "session", "decoder", "cache", "generate", "explain", "backends"]))
    source.visit({
      MemberExpression(node) {
        const { object, property, computed } = node;
        const of = object.type === "MemberExpression" && !object.computed ? object.property : object;
        const isNamed = !computed || property.type === "Literal";
        if (of.type === "Identifier" && of.name === "attrs" && isNamed) found.push(source.at(node));
      },
    });
  return found;
}

/** Types that are claimed by way of unknown. */
export function doubleCasts(sources: readonly Source[]): string[] {
  const found: string[] = [];
  for (const source of sources) {
    if (!/\bas\s+unknown\b/.test(source.text)) continue;
    source.visit({
      TSAsExpression(node) {
        const { expression } = node;
        if (expression.type === "TSAsExpression" && expression.typeAnnotation.type === "TSUnknownKeyword")
          found.push(source.at(node));
      },
    });
  }
  return found;
}

/** Exports of `sources` that neither they nor `others` import. */
export function unusedExports(sources: readonly Source[], others: readonly Source[]): string[] {
  const used = new Map<string, Set<string>>();
  for (const { uses } of [...sources, ...others])
    for (const { file, name } of uses) used.set(file, (used.get(file) ?? new Set()).add(name));
  // The public API; operators, kernels, cases, and the tools of the command line, which are found by their files.
  const isFound = ({ path }: Source): boolean =>
    /^src\/(index|onnxruntime|worker)(\.node)?\.ts$|^src\/ops\/[^/]+\/(op|wasm)\.ts$|^tools\/(cases\/[^/]+|cli\/checkout-tools)\.ts$/.test(
      path,
    );
  return sources.flatMap((source) => {
    const names = used.get(source.path);
    if (isGenerated(source) || isFound(source) || names?.has("*")) return [];
    return source.exported.filter((name) => !names?.has(name)).map((name) => `${source.path} exports ${name}`);
  });
}

/** A visitor of texts in quotes of any kind. */
function quoted(hear: (text: string, node: { start: number; end: number }) => void): Parameters<Source["visit"]>[0] {
  return {
    Literal(node) {
      if (typeof node.value === "string") hear(node.value, node);
    },
    TemplateLiteral(node) {
      if (node.quasis.length === 1) hear(node.quasis[0].value.raw, node);
    },
  };
}
