/** What a server on a device is asked, and what `generate` is asked beside it. Nobody is named here, and nothing measured. */
import { type DeviceSizes, fullSizes, smallSizes } from "../device/sizes.js";

/** Texts of prompts that nobody has read before. `tokens` are those that each text gets. */
export type DeviceLoad =
  /** One client alone. */
  | { readonly kind: "one"; readonly prompt: number; readonly tokens: number }
  /** Clients that all ask at once. */
  | { readonly kind: "many"; readonly clients: number; readonly prompt: number; readonly tokens: number }
  /** A client whose text streams while another one sends a prompt of `long` tokens. */
  | { readonly kind: "beside"; readonly prompt: number; readonly tokens: number; readonly long: number }
  /** Texts that are made together: what a step of them takes. */
  | { readonly kind: "step"; readonly texts: number; readonly prompt: number; readonly tokens: number };

/** How the server is started. */
export interface ServerSizes {
  readonly context: number;
  readonly blocks: number;
  readonly maxRunning: number;
}

/** The model, the server and its loads. */
interface DeviceServeSizes {
  readonly device: DeviceSizes;
  readonly server: ServerSizes;
  readonly loads: readonly DeviceLoad[];
  /** Rounds in which everyone has a turn, where nobody says how many. */
  readonly rounds: number;
  /** Rounds before them that do not count: for what is compiled, or made, when it is first asked for. */
  readonly warmUps: number;
}

/** Tokens of the long prompt's own text. */
export const tokensBehindLong = 8;

/** In the shape of Qwen3-0.6B. */
export const fullServeSizes: DeviceServeSizes = {
  device: fullSizes,
  server: { context: 8192, blocks: 6000, maxRunning: 64 },
  loads: [
    ...[16, 512, 2048, 4000].map((prompt) => ({ kind: "one", prompt, tokens: 64 }) as const),
    ...[
      [8, 128],
      [32, 128],
      [32, 1024],
      [64, 128],
    ].map(([clients, prompt]) => ({ kind: "many", clients, prompt, tokens: 128 }) as const),
    { kind: "beside", prompt: 128, tokens: 1024, long: 8000 },
    ...[1, 2, 4, 8].map((texts) => ({ kind: "step", texts, prompt: 128, tokens: 65 }) as const),
  ],
  rounds: 3,
  // Many clients come together in steps of many sizes.
  warmUps: 2,
};

/** For a program that plays a GPU: shows that everything works, measures nothing. */
export const smallServeSizes: DeviceServeSizes = {
  device: smallSizes,
  server: { context: 128, blocks: 40, maxRunning: 4 },
  loads: [
    { kind: "one", prompt: 8, tokens: 4 },
    { kind: "many", clients: 2, prompt: 8, tokens: 4 },
    { kind: "beside", prompt: 8, tokens: 24, long: 96 },
    ...[1, 2].map((texts) => ({ kind: "step", texts, prompt: 8, tokens: 4 }) as const),
  ],
  rounds: 1,
  warmUps: 1,
};

/** A load in words. */
export function loadText(load: DeviceLoad): string {
  switch (load.kind) {
    case "one":
      return `1 client, prompt ${load.prompt}`;
    case "many":
      return `${load.clients} clients, prompt ${load.prompt}`;
    case "beside":
      return `1 client that streams beside a prompt of ${load.long}`;
    case "step":
      return `a step of ${load.texts} ${load.texts === 1 ? "text" : "texts"}, prompt ${load.prompt}`;
    default:
      return load satisfies never;
  }
}

/** The tokens that the longest text of a load takes, its prompt included. */
export const longestOf = (load: DeviceLoad): number =>
  Math.max(load.prompt + load.tokens, load.kind === "beside" ? load.long + tokensBehindLong : 0);

/** Texts that a load has at a time. */
export function textsOf(load: DeviceLoad): number {
  switch (load.kind) {
    case "one":
      return 1;
    case "many":
      return load.clients;
    case "beside":
      return 2;
    case "step":
      return load.texts;
    default:
      return load satisfies never;
  }
}
