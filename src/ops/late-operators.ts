/** Fetches the operators that few decoders call, where a bundle keeps them apart: scripts/build-browser.mjs puts an import here. Elsewhere all come with the lists. */
export const lateOperators: (() => Promise<unknown>) | undefined = undefined;
