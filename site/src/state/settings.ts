/** What a visitor may set: kept in the browser as text, checked field by field. A field that is empty is the model's own. */
import { computed, effect, signal } from "@preact/signals";
import type { Sampling } from "../hosts/host.js";

/** A setting that is a number. */
interface NumberField {
  readonly label: string;
  readonly about: string;
  readonly least: number;
  readonly most: number;
  readonly step: number;
  readonly isWhole?: boolean;
  /** What it is where neither visitor nor model say something. */
  readonly usual: string;
}

export const numberFields = {
  temperature: {
    label: "Temperature",
    about: "0 takes the likeliest token each time; more is more varied.",
    least: 0,
    most: 2,
    step: 0.05,
    usual: "the model’s",
  },
  topP: {
    label: "Top-p",
    about: "Draws from the likeliest tokens that together have this probability.",
    least: 0,
    most: 1,
    step: 0.01,
    usual: "1",
  },
  topK: {
    label: "Top-k",
    about: "Draws from so many of the likeliest tokens; 0 from all.",
    least: 0,
    most: 1_000_000,
    step: 1,
    isWhole: true,
    usual: "0",
  },
  minP: {
    label: "Min-p",
    about: "Leaves out tokens less likely than this share of the likeliest.",
    least: 0,
    most: 1,
    step: 0.01,
    usual: "0",
  },
  repetitionPenalty: {
    label: "Repetition penalty",
    about: "Above 1, tokens that came before are less likely.",
    least: 0.001,
    most: 10,
    step: 0.05,
    usual: "1",
  },
  presencePenalty: {
    label: "Presence penalty",
    about: "Taken from tokens that came at all.",
    least: -2,
    most: 2,
    step: 0.1,
    usual: "0",
  },
  frequencyPenalty: {
    label: "Frequency penalty",
    about: "Taken from tokens once for each time they came.",
    least: -2,
    most: 2,
    step: 0.1,
    usual: "0",
  },
  maxTokens: {
    label: "Longest answer",
    about: "New tokens at most.",
    least: 1,
    most: 1_000_000,
    step: 1,
    isWhole: true,
    usual: "512",
  },
  minTokens: {
    label: "Shortest answer",
    about: "Before so many tokens no answer ends. 1 in chats.",
    least: 0,
    most: 1_000_000,
    step: 1,
    isWhole: true,
    usual: "1",
  },
  seed: {
    label: "Seed",
    about: "The same seed, model and text give the same answer.",
    least: 0,
    most: 4_294_967_295,
    step: 1,
    isWhole: true,
    usual: "random",
  },
} as const satisfies Record<string, NumberField>;

export type NumberName = keyof typeof numberFields;

/** Settings as they were typed. */
export type Settings = { readonly [Name in NumberName]: string } & {
  readonly system: string;
  /** One a line. */
  readonly stop: string;
  readonly jsonSchema: string;
  /** A list in OpenAI's form. */
  readonly tools: string;
  readonly theme: "auto" | "light" | "dark";
  /** Probabilities of every token while it comes, or of the one that is looked at. */
  readonly probabilities: "asked" | "all";
};

export type SettingName = keyof Settings;

const names = Object.keys(numberFields) as NumberName[];

export const unset: Settings = {
  ...(Object.fromEntries(names.map((name) => [name, ""])) as { [Name in NumberName]: string }),
  system: "",
  stop: "",
  jsonSchema: "",
  tools: "",
  theme: "auto",
  probabilities: "asked",
};

const place = "insitu-settings";

function stored(): Settings {
  try {
    const given = JSON.parse(localStorage.getItem(place) ?? "{}") as Readonly<Record<string, unknown>>;
    const known = Object.entries(given).filter(([name, value]) => name in unset && typeof value === "string");
    return { ...unset, ...Object.fromEntries(known) };
  } catch {
    return unset;
  }
}

export const settings = signal<Settings>(stored());

effect(() => {
  const { theme } = settings.value;
  try {
    localStorage.setItem(place, JSON.stringify(settings.value));
  } catch {
    // Where nothing can be kept, settings live as long as the page.
  }
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
});

// Another tab's settings are this one's too.
addEventListener("storage", ({ key }) => {
  if (key === place) settings.value = stored();
});

export function set<Name extends SettingName>(name: Name, value: Settings[Name]): void {
  settings.value = { ...settings.value, [name]: value };
}

export function reset(): void {
  const { theme, probabilities } = settings.value;
  settings.value = { ...unset, theme, probabilities };
}

/** What is wrong with a number, or its value. */
function readNumber(name: NumberName, text: string): { readonly value?: number; readonly problem?: string } {
  if (text.trim() === "") return {};
  const { label, least, most, isWhole }: NumberField = numberFields[name];
  const value = Number(text.replace(",", "."));
  const rule = `${label} is a ${isWhole === true ? "whole number" : "number"} from ${least} to ${most}`;
  if (!Number.isFinite(value)) return { problem: `${rule}; “${text}” is none.` };
  if (isWhole === true && !Number.isInteger(value)) return { problem: `${rule}, got ${text}.` };
  return value < least || value > most ? { problem: `${rule}, got ${text}.` } : { value };
}

function readSchema(text: string): { readonly value?: object | boolean; readonly problem?: string } {
  if (text.trim() === "") return {};
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value === "boolean" || (typeof value === "object" && value !== null && !Array.isArray(value)))
      return { value };
    return { problem: "A JSON schema is an object." };
  } catch (error) {
    return { problem: `This is not JSON: ${(error as Error).message}.` };
  }
}

function readTools(text: string): { readonly value?: readonly object[]; readonly problem?: string } {
  if (text.trim() === "") return {};
  try {
    const value = JSON.parse(text) as unknown;
    const isTool = (each: unknown): boolean =>
      typeof (each as { function?: { name?: unknown } } | null)?.function?.name === "string";
    if (Array.isArray(value) && value.every(isTool)) return { value: value as object[] };
    return { problem: 'Tools are a list: [{"type": "function", "function": {"name": "…", "parameters": {…}}}].' };
  } catch (error) {
    return { problem: `This is not JSON: ${(error as Error).message}.` };
  }
}

/** What is wrong, by setting. */
export const problems = computed<Partial<Record<SettingName, string>>>(() => {
  const found: Partial<Record<SettingName, string>> = {};
  for (const name of names) {
    const { problem } = readNumber(name, settings.value[name]);
    if (problem !== undefined) found[name] = problem;
  }
  const { problem } = readSchema(settings.value.jsonSchema);
  if (problem !== undefined) found.jsonSchema = problem;
  const { problem: noTools } = readTools(settings.value.tools);
  if (noTools !== undefined) found.tools = noTools;
  const [least, most] = [Number(settings.value.minTokens), Number(settings.value.maxTokens)];
  if (found.minTokens === undefined && most > 0 && least > most)
    found.minTokens = "The shortest answer is longer than the longest.";
  return found;
});

/** The first thing that is wrong. */
export const firstProblem = computed<{ readonly name: SettingName; readonly problem: string } | undefined>(() => {
  const [first] = Object.entries(problems.value);
  return first === undefined ? undefined : { name: first[0] as SettingName, problem: first[1] };
});

/** How many settings are not the model's own. */
export const changedCount = computed<number>(
  () =>
    (Object.keys(unset) as SettingName[]).filter(
      (name) => name !== "theme" && name !== "probabilities" && settings.value[name] !== unset[name],
    ).length,
);

/** Settings as a text is asked for with. */
export const sampling = computed<Sampling>(() => {
  const given: Record<string, unknown> = { maxTokens: 512 };
  for (const name of names) {
    const { value } = readNumber(name, settings.value[name]);
    if (value !== undefined) given[name] = value;
  }
  const stop = settings.value.stop.split("\n").filter((line) => line !== "");
  if (stop.length > 0) given["stop"] = stop;
  const { value: jsonSchema } = readSchema(settings.value.jsonSchema);
  if (jsonSchema !== undefined) given["jsonSchema"] = jsonSchema;
  const { value: tools } = readTools(settings.value.tools);
  if (tools !== undefined) given["tools"] = tools;
  return given as Sampling;
});
