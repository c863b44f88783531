// Random models around caches, for runs with a state: scatters in chains, joins, attention with its cache inside and outside, views of old
// and new values, arithmetic on them, bodies that capture them, several caches of several types, outputs anywhere. Every choice comes from
// one seed. Sums are avoided where their order would show: every value has one right bit pattern, but for what attention computes.
import { buildModel, value } from "../../src/onnx/build.js";
import type { Model, ModelNode } from "../../src/onnx/model.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { batch, type Dims, Draft, type Made, type RandomInput, sameDims } from "./draft.js";
import * as steps from "./steps.js";

export interface RandomModel {
  readonly model: Model;
  /** Inputs that are named as caches; a state holds those that have a present. */
  readonly caches: readonly RandomInput[];
  readonly feeds: readonly RandomInput[];
  /** Every output; of those that are computed in floats in an order of the kernel's choosing only about the same is asked. */
  readonly outputs: readonly {
    readonly name: string;
    readonly type: ElementType;
    readonly dims: Dims;
    readonly approximate: boolean;
  }[];
}

/** Types that are only moved. */
const others: readonly ElementType[] = ["bool", "uint8", "int8", "bfloat16", "int4", "string", "complex64", "uint16"];

/** A random model; the same seed gives the same model. Wide ones have rows that are worth sharing among threads. */
export function randomModel(seed: number, isWide = false): RandomModel {
  const draft = new Draft(seed, isWide);
  begin(draft);
  const choices = choicesFor(draft);
  choices[0]();
  const count = 2 + draft.chance.below(10);
  for (let step = 0; step < count; step++) draft.chance.oneOf(choices)();
  return finish(draft);
}

/** The caches. One at least has its capacity from the start. */
function begin(draft: Draft): void {
  const { chance } = draft;
  const main = chance.oneOf(steps.arithmetic.slice(0, chance.of(0.5) ? 1 : undefined));
  const count = 1 + chance.below(3);
  for (let at = 0; at < count; at++) {
    const type = chance.of(0.75) ? main : chance.oneOf([...steps.arithmetic, ...others]);
    const grows = chance.of(0.2) && type !== "int4";
    if (grows) draft.cache(`cache${at}`, type, [batch, `past${at}`, draft.width], 1);
    else draft.cache(`cache${at}`, type, draft.fixed);
  }
  if (!draft.caches.some(({ grows }) => grows === undefined)) draft.cache("cache", main, draft.fixed);
  if (chance.of(0.25)) steps.attendInside(draft);
  if (chance.of(0.3)) draft.cache("loose", main, draft.fixed);
}

/** What a step can be, the frequent ones several times. */
function choicesFor(draft: Draft): (() => void)[] {
  const write = (): void => {
    const { name } = draft.chance.oneOf(draft.caches);
    const end = draft.pool.find((made) => made.name === draft.ends.get(name))!;
    if (sameDims(end.dims, draft.fixed)) steps.scatter(draft, end);
    else steps.append(draft);
  };
  const isCache = ({ dims }: Made): boolean => sameDims(dims, draft.fixed) || /^past.*\+$/.test(String(dims[1]));
  const scatter = (): void => steps.scatter(draft, draft.pick(isCache)!);
  const view = (): void => steps.view(draft);
  const compute = (): void => steps.compute(draft);
  return [
    write,
    write,
    scatter,
    scatter,
    () => steps.scatterElements(draft, draft.cacheLike()!),
    () => steps.scatterND(draft, draft.cacheLike()!),
    view,
    view,
    view,
    compute,
    compute,
    () => steps.take(draft),
    () => steps.append(draft),
    () => steps.branch(draft),
    () => (draft.chance.of(0.5) ? steps.loop(draft) : steps.attendOutside(draft)),
  ];
}

/** Chooses the outputs and the order of everything. */
function finish(draft: Draft): RandomModel {
  const { chance, caches, feeds } = draft;
  const symbolic = chance.of(0.3);
  const chosen = [...chooseOutputs(draft, symbolic)].map((name) => draft.pool.find((made) => made.name === name)!);
  const outputs = chance.of(0.5) ? chosen : chosen.toReversed();
  const shapeOf = ({ dims, grows }: RandomInput): Dims =>
    symbolic && grows === undefined && sameDims(dims, draft.fixed) ? ["batch", "capacity", draft.width] : dims;
  const model = buildModel({
    opset: draft.microsoft ? { "": 24, "com.microsoft": 1 } : 24,
    inputs: [...caches, ...feeds].map((input) => value(input.name, input.type, shapeOf(input))),
    outputs: outputs.map(({ name, type }) => value(name, type)),
    nodes: shuffled(draft.nodes, (count) => chance.below(count)),
    initializers: draft.initializers,
  });
  return {
    model,
    caches,
    feeds,
    outputs: outputs.map(({ name, type, dims, approximate = false }) => ({ name, type, dims, approximate })),
  };
}

function chooseOutputs(draft: Draft, symbolic: boolean): Set<string> {
  const { chance } = draft;
  const made = new Set(draft.nodes.flatMap(({ outputs }) => outputs));
  const outputs = new Set<string>();
  for (const end of draft.ends.values()) if (made.has(end) && chance.of(0.9)) outputs.add(end);
  // With sizes that have names, what comes from a cache and has its rank would be its present: also what has been joined to it, and its
  // rows as one.
  const misleads = ({ dims }: Made): boolean =>
    String(dims[0]).startsWith("longer") || (dims.length === 3 && dims[0] === 1);
  const candidates = draft.pool.filter((each) => made.has(each.name) && !(symbolic && misleads(each)));
  for (let more = chance.below(4); more > 0; more--) outputs.add(chance.oneOf(candidates).name);
  if (chance.of(0.5)) {
    // An old value, perhaps under another shape, beside whatever writes it.
    const { name, type, dims } = chance.oneOf(draft.caches);
    const shown = chance.of(0.5)
      ? draft.emit("Identity", [name], { type, dims })
      : draft.emit("Unsqueeze", [name, draft.constant("axis0", [0])], { type, dims: [1, ...dims] });
    outputs.add(shown.name);
  }
  if (outputs.size === 0) outputs.add(candidates.at(-1)!.name);
  if (chance.of(0.04)) outputs.add(chance.oneOf(draft.caches).name); // the past itself
  return outputs;
}

/** Names that the bodies of a node read. */
export const capturedBy = (entry: ModelNode): string[] =>
  [...entry.attributes.values()].flatMap((attribute) =>
    attribute.kind === "graph" ? attribute.value.nodes.flatMap((inner) => inner.inputs) : [],
  );

/** A random order that still computes every value before it is used. */
function shuffled(nodes: readonly ModelNode[], below: (count: number) => number): ModelNode[] {
  const makers = new Set(nodes.flatMap((entry) => entry.outputs));
  const waiting = [...nodes];
  const done = new Set<string>();
  const result: ModelNode[] = [];
  while (waiting.length > 0) {
    const ready = waiting.filter((entry) =>
      [...entry.inputs, ...capturedBy(entry)].every((name) => !makers.has(name) || done.has(name)),
    );
    const next = ready[below(ready.length)];
    waiting.splice(waiting.indexOf(next), 1);
    for (const name of next.outputs) done.add(name);
    result.push(next);
  }
  return result;
}
