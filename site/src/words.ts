/** Numbers as people read them. */

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytesText(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}

/** A thin space between thousands. */
export const countText = (count: number): string => String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, "\u202f");

export const backendText = (backend: string): string =>
  backend === "wasm" ? "WebAssembly" : backend === "webgpu" ? "WebGPU" : backend;

export const rateText = (perSecond: number): string => `${perSecond.toFixed(perSecond < 10 ? 1 : 0)} a second`;

export const waitText = (milliseconds: number): string =>
  milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;

export const shareText = (share: number): string =>
  share >= 0.0995 ? `${Math.round(share * 100)} %` : share >= 0.001 ? `${(share * 100).toFixed(1)} %` : "< 0.1 %";

/** A token as it can be seen: blanks have marks. */
export const tokenText = (text: string): string =>
  text === "" ? "∅" : text.replaceAll(" ", "·").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
