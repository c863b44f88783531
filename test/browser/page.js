// What the page does when the tests ask: `harness.<name>(argument)` computes something with the package and gives back plain data.
import { decode } from "./decode.js";

/** The package, as plain modules or in a bundle: every one exports the same names. */
const load = (entry) => import(entry);

const slices = (bytes, [start, length]) => bytes.subarray(start, start + length);

/** An error as plain data. */
const told = (error) => ({ error: error.name, code: error.code, message: error.message });

globalThis.harness = {
  isolated: () => globalThis.crossOriginIsolated,

  /** The decode loop; what went wrong where it fails. */
  decode: async ({ entry, model, options, count }) => {
    try {
      return await decode(await load(entry), model, options, count);
    } catch (error) {
      return told(error);
    }
  },

  /** The same while the workers that it started are ended one by one. */
  decodeLosing: async ({ entry, model, options }) => {
    const { Worker } = globalThis;
    const started = [];
    globalThis.Worker = class extends Worker {
      constructor(...given) {
        super(...given);
        started.push(this);
      }
    };
    try {
      const { InferenceSession, Tensor } = await load(entry);
      const create = async (...given) => {
        const session = await InferenceSession.create(...given);
        let runs = 0;
        return {
          createState: (sizes) => session.createState(sizes),
          explain: () => session.explain(),
          release: () => session.release(),
          run: async (...asked) => {
            if (++runs % 8 === 0) started.pop()?.terminate();
            // Some runs come when the worker has really ended, which takes a while.
            if (runs % 16 === 0) await new Promise((resolve) => setTimeout(resolve, 500));
            return session.run(...asked);
          },
        };
      };
      return await decode({ InferenceSession: { create }, Tensor }, model, options);
    } catch (error) {
      return told(error);
    } finally {
      globalThis.Worker = Worker;
    }
  },

  /** The same inside a worker that the page starts. */
  decodeInWorker: ({ worker, ...job }) =>
    new Promise((resolve, reject) => {
      const thread = new Worker(worker, { type: "module" });
      thread.addEventListener("message", ({ data }) => {
        thread.terminate();
        resolve(data);
      });
      thread.addEventListener("error", (event) => reject(new Error(event.message || "the page's worker did not load")));
      thread.postMessage(job);
    }),

  /** Runs one of so many cases that the server has; names and reasons of those that did not pass. */
  cases: async ({ options, every }) => {
    const { InferenceSession } = await load("/dist/index.js");
    const { runCase } = await import("/dist/tools/conformance/case.js");
    const index = await (await fetch("/cases.json")).json();
    const bytes = new Uint8Array(await (await fetch("/cases.bin")).arrayBuffer());
    const tensor = (place) => (place === null ? undefined : slices(bytes, place));
    let passed = 0;
    const others = [];
    for (const { name, tolerance, model, sets } of index.filter((_, at) => at % every === 0)) {
      const files = {
        name,
        tolerance,
        model: slices(bytes, model),
        sets: sets.map(({ inputs, outputs }) => ({ inputs: inputs.map(tensor), outputs: outputs.map(tensor) })),
      };
      const result = await runCase(files, (source) => InferenceSession.create(source, options));
      if (result.status === "passed") passed++;
      else others.push(result);
    }
    return { passed, others };
  },
};
