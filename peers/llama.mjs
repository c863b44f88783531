// llama.cpp through node-llama-cpp: opens a GGUF file and makes the likeliest tokens behind prompts of token ids. The prebuilt binaries of its
// packages are used as they are: nothing is built or downloaded.

const greedy = { temperature: 0, yieldEogToken: true };

/** A model on the processor (`gpu: false`) or on a GPU (`gpu: "vulkan"`, with all of its `layers`); `threads` of the processor. */
export async function openLlama({ gguf, gpu = false, threads, layers = 0 }) {
  const { getLlama } = await import("node-llama-cpp");
  const llama = await getLlama({
    gpu,
    build: "never",
    logLevel: "error",
    usePrebuiltBinaries: true,
    ...(threads === undefined ? {} : { maxThreads: threads }),
  });
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
