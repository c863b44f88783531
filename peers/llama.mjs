// llama.cpp through node-llama-cpp: opens a GGUF file and makes the likeliest tokens behind prompts of token ids. The prebuilt binaries of its
// packages are used as they are: nothing is built or downloaded.

const greedy = { temperature: 0, yieldEogToken: true };

/**
 * A model on the processor (`gpu: false`) or on a GPU (`gpu: "vulkan"`, with all of its `layers`); `threads` of the processor. Where there is no
 * GPU, or a program that plays one, which is not good enough for llama.cpp, it would compute on the processor: that is refused but for `software`.
 */
export async function openLlama({ gguf, gpu = false, threads, layers = 0, software = false }) {
  const { getLlama, NoBinaryFoundError } = await import("node-llama-cpp");
  const llama = await getLlama({
    gpu,
    build: "never",
    logLevel: "error",
    usePrebuiltBinaries: true,
    skipDownload: true,
    ...(threads === undefined ? {} : { maxThreads: threads }),
  }).catch((error) => {
    if (!(error instanceof NoBinaryFoundError)) throw error;
    const needs = gpu === "vulkan" ? ": it needs libvulkan.so.1 and a driver that VK_ICD_FILENAMES names" : "";
    throw new Error(`llama.cpp's binary for ${gpu || "the processor"} cannot be loaded${needs}`);
  });
  if (gpu !== false && !software) {
    const [device = "none"] = await llama.getGpuDeviceNames();
    if (/none|llvmpipe|swiftshader/i.test(device)) throw new Error(`no Vulkan device of its own: it found ${device}`);
  }
  const model = await llama.loadModel({ modelPath: gguf, ...(gpu === false ? {} : { gpuLayers: layers + 1 }) });
  return {
    llama,
    model,
    /** Room for `texts` texts of `contextSize` tokens; its sequences. */
    async createSequences(contextSize, texts = 1, batchSize = 512) {
      const context = await model.createContext({
        contextSize,
        sequences: texts,
        batchSize: Math.max(batchSize, texts),
        ...(threads === undefined ? {} : { threads }),
      });
      return { context, sequences: Array.from({ length: texts }, () => context.getSequence()) };
    },
    async close() {
      await model.dispose();
      await llama.dispose();
    },
  };
}

/** Reads a prompt but for its last token, from the beginning or from where the sequence is. */
export async function readAllButLast(sequence, prompt) {
  const last = prompt.length - 1;
  if (sequence.nextTokenIndex > last)
    await sequence.eraseContextTokenRanges([{ start: last, end: sequence.nextTokenIndex }]);
  if (sequence.nextTokenIndex < last)
    await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(sequence.nextTokenIndex, last));
}

/** The `count` likeliest tokens behind tokens that were not read yet; `onToken` is told of each and waited for. */
export async function generateTokens(sequence, unread, count, onToken = () => {}) {
  const tokens = [];
  for await (const token of sequence.evaluate(unread, greedy)) {
    tokens.push(Number(token));
    await onToken(tokens.length);
    if (tokens.length === count) break;
  }
  return tokens;
}
