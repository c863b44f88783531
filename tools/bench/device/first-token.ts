/** The first token of a process: everything is loaded, every pipeline compiled. In a process of its own each time, since a device keeps them. */
import { execFile } from "node:child_process";
import { InsituError } from "#insitu/base/error.js";
import type { BackendName } from "#insitu/entry/backends.js";
import { CausalLM } from "#insitu/entry/node.js";
import type { Contestant, Figures, Group } from "../load.js";
import { weightsText } from "./decoder-groups.js";
import { countMade } from "./gpu.js";
import type { ModelFolder, WeightKind } from "./model-files.js";
import { type DeviceSizes, modelText } from "./sizes.js";

/** What the first token took; times are milliseconds. */
interface FirstToken {
  readonly load: number;
  /** From the loaded model to the first token behind a short prompt. */
  readonly first: number;
  /** The one behind it. */
  readonly second: number;
  readonly third: number;
  readonly pipelines: number;
}

/** Loads a model and makes its first tokens. */
export async function measureFirstToken(folder: string, backend: BackendName): Promise<FirstToken> {
  const made = await countMade();
  const start = performance.now();
  const lm = await CausalLM.load(folder, { backend, context: 64 });
  const loaded = performance.now();
  const times: number[] = [];
  let before = loaded;
  for await (const _ of lm.generate([1, 2, 3, 4, 5, 6, 7, 8], { maxTokens: 3, temperature: 0, ignoreEnd: true })) {
    const now = performance.now();
    times.push(now - before);
    before = now;
  }
  await lm.release();
  return { load: loaded - start, first: times[0], second: times[1], third: times[2], pipelines: made().pipelines };
}

/** What a process of this program says of the first token. */
function inProcess(program: readonly string[], folder: string): Promise<FirstToken> {
  const [file, ...args] = [...program, "bench", "--first-token", folder];
  // NVIDIA's driver keeps compiled shaders on the disk unless it is told not to.
  const env = { ...process.env, __GL_SHADER_DISK_CACHE: "0" };
  return new Promise((resolve, reject) => {
    execFile(file, args, { env, maxBuffer: 2 ** 24 }, (error, stdout, stderr) => {
      if (error === null) resolve(JSON.parse(stdout.trim().split("\n").at(-1)!) as FirstToken);
      else reject(new InsituError("internal", `insitu bench --first-token failed: ${stderr.trim() || error.message}`));
    });
  });
}

/** The first token behind a model that was just loaded. */
export function firstTokenGroup(
  kinds: readonly WeightKind[],
  files: (kind: WeightKind) => ModelFolder,
  sizes: DeviceSizes,
  program: readonly string[],
): Group {
  return {
    name: `the first token after loading, no pipeline compiled before, ${modelText(sizes.model)}`,
    contestants: kinds.map((kind): Contestant => ({
      name: `insitu, generate, ${weightsText(kind, sizes)}`,
      runtime: "insitu",
      async start() {
        const { folder } = files(kind);
        let last: FirstToken | undefined;
        return {
          run: async () => {
            last = await inProcess(program, folder);
            return last.first;
          },
          result: () => Promise.resolve(new Uint8Array()),
          figures: (): Figures =>
            last === undefined
              ? {}
              : { pipelines: last.pipelines, "ms to load": last.load, "ms of the third token": last.third },
          stop: () => Promise.resolve(),
        };
      },
    })),
    repeats: 3,
    isCold: true,
    check: () => new Map(),
  };
}
