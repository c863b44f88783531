/** Turns → rows: medians over rounds, and each figure divided by that of `generate`. */
import { median } from "../measure.js";
import { type DeviceLoad, loadText } from "./loads.js";
import type { LoadFigures, Turn } from "./measure-load.js";
import type { Teller } from "./teller.js";

/** One teller under one load. */
export interface DeviceServeRow {
  readonly load: string;
  readonly kind: DeviceLoad["kind"];
  /** Texts at a time, tokens of a prompt, and tokens that each text gets. */
  readonly texts: number;
  readonly prompt: number;
  readonly tokens: number;
  readonly who: string;
  readonly runtime: string;
  /** Medians over the rounds. */
  readonly figures: LoadFigures;
  /** The same divided by those of `generate`, or of `generateBatch`; null for these, and where either is not known. */
  readonly ratios: LoadFigures;
  readonly errors: number;
  readonly firstError: string | null;
}

const names = ["firstToken", "token", "tokensPerSecond", "longestGap"] as const satisfies (keyof LoadFigures)[];

const figuresBy = (of: (name: keyof LoadFigures) => number | null): LoadFigures =>
  Object.fromEntries(names.map((name) => [name, of(name)])) as Record<keyof LoadFigures, number | null>;

/** The rows of a load; ratios count from the first teller. */
export function rowsOf(
  load: DeviceLoad,
  who: readonly Teller[],
  turns: readonly (readonly Turn[])[],
): DeviceServeRow[] {
  const medians = turns.map((own) =>
    figuresBy((name) => {
      const values = own.flatMap(({ figures }) => figures[name] ?? []);
      return values.length === 0 ? null : median(values);
    }),
  );
  const { kind, prompt, tokens } = load;
  const texts = load.kind === "many" ? load.clients : load.kind === "step" ? load.texts : 1;
  const together = kind === "many" || kind === "step";
  return who.map(({ name, runtime }, at) => ({
    load: loadText(load),
    kind,
    texts,
    prompt,
    tokens,
    who: name === "generate" && together ? "generateBatch" : name,
    runtime,
    figures: medians[at],
    ratios: figuresBy((figure) => {
      const [own, first] = [medians[at][figure], medians[0][figure]];
      return at === 0 || own === null || first === null || first === 0 ? null : own / first;
    }),
    errors: turns[at].reduce((sum, { errors }) => sum + errors, 0),
    firstError: turns[at].find(({ firstError }) => firstError !== null)?.firstError ?? null,
  }));
}
