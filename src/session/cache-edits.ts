/**
 * "Run this operator on the caches": eviction and the like as runs of small graphs, with one node for each cache, on the backend that holds
 * them. What a run promises holds for them too: checks come first, a refused one writes nothing. Knows no operator.
 */
import type { BackendSession, Executable } from "../backends/backend.js";
import { checkName, checkObject } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { newestOpset } from "../graph/build.js";
import type { Op } from "../graph/op.js";
import { buildModel, node, value } from "../onnx/build.js";
import { operators } from "../ops/index.js";
import { makePlan } from "../plan/plan.js";
import type { ElementType } from "../tensor/element-type.js";
import { isTensor, type Tensor } from "../tensor/tensor.js";
import type { Holding } from "./holding.js";
import { preparedGraphOf } from "./load.js";

/** A cache of a state, as `edit` shows it to your function. */
export interface EditedCache {
  /** The name of the cache's input. */
  readonly name: string;
  /** Its element type. */
  readonly type: ElementType;
  /** The cache's dimensions at full capacity. */
  readonly dims: readonly number[];
  /** The axis along which the cache has its rows; undefined for a recurrent state. */
  readonly axis: number | undefined;
}

/** The value of an operator's attribute. Whole numbers become ONNX integers, others floats. */
export type EditAttribute = number | boolean | string | readonly number[] | readonly string[];

/** An edit of a cache: an operator that updates it, with its other inputs. */
export interface CacheEdit {
  /** The operator's name in ONNX, of the newest version. */
  readonly operator: string;
  /**
   * The operator's domain.
   * @default ONNX's own
   */
  readonly domain?: string | undefined;
  /**
   * The operator's attributes, by ONNX's names.
   * @default {}
   */
  readonly attributes?: Readonly<Record<string, EditAttribute>> | undefined;
  /** The other inputs of the operator, by ONNX's names. */
  readonly inputs: Readonly<Record<string, Tensor>>;
}

/** A cache and what is to be done with it. */
interface ChosenEdit {
  readonly holding: Holding;
  readonly edit: CacheEdit;
}

/** An operand of a graph: a cache, or a tensor that several nodes may read. */
interface Operand {
  readonly name: string;
  readonly type: ElementType;
  readonly rank: number;
}

/** The edits of one session, made ready once for each combination of operators. */
export class CacheEdits {
  readonly #opened: BackendSession;
  readonly #prepared = new Map<string, Executable>();

  constructor(opened: BackendSession) {
    this.#opened = opened;
  }

  /** Every executable so far. */
  get executables(): readonly Executable[] {
    return [...this.#prepared.values()];
  }

  /** What ran so far, a line for each combination of operators. */
  describe(): readonly string[] {
    return this.executables.map((executable) => {
      const { plan } = executable;
      const accounts = [...(executable.describeSteps()?.values() ?? [])];
      const kernels = new Set(accounts.flatMap(({ kernels: names = [] }) => names));
      const names = new Set(plan.order.map(({ op }) => op.name));
      const by = kernels.size > 0 ? [...kernels].join(", ") : "the reference";
      return `${[...names].join(", ")} on ${plan.order.length} caches, in place, by ${by}`;
    });
  }

  /** Runs all edits as one run. Returns the bytes that had to be copied first, since forks share them. */
  async run(chosen: readonly ChosenEdit[]): Promise<number> {
    if (chosen.length === 0) return 0;
    const feeds = new Map<Tensor, Operand>();
    const nodes = chosen.map(({ holding, edit }, at) => describe(holding, edit, at, feeds));
    const executable = this.#executableFor(nodes, [...feeds.values()]);
    const views = [...feeds.keys()].map((tensor) => tensor.toView());
    // Whatever shapes forbid is found before forks are parted.
    executable.programFor([...chosen.map(({ holding }) => holding.buffer), ...views]);
    const copied = chosen.reduce((sum, { holding }) => sum + holding.detach(), 0);
    const inputs = [...chosen.map(({ holding }) => holding.buffer), ...views];
    await executable.run(executable.programFor(inputs), inputs, new Map(), () => undefined);
    return copied;
  }

  #executableFor(nodes: readonly EditNode[], feeds: readonly Operand[]): Executable {
    const key = JSON.stringify([nodes.map(({ op, ...rest }) => [op.domain, op.name, rest]), feeds]);
    let executable = this.#prepared.get(key);
    if (executable === undefined) {
      const { graph } = preparedGraphOf(modelOf(nodes, feeds), { level: "disabled" });
      const pairs = Object.fromEntries(nodes.map(({ cache, present }) => [cache.name, present]));
      executable = this.#opened.prepare(makePlan(graph, { policy: "require", pairs }));
      this.#prepared.set(key, executable);
    }
    return executable;
  }
}

/** A node that updates one cache. */
interface EditNode {
  readonly op: Op;
  readonly label: string;
  readonly cache: Operand;
  readonly present: string;
  /** Operands in the operator's order; empty where one is left out. */
  readonly inputs: readonly string[];
  readonly attributes: Readonly<Record<string, EditAttribute>>;
}

/** The node of an edit; its feeds are added to those that are known already. */
function describe(holding: Holding, edit: CacheEdit, at: number, feeds: Map<Tensor, Operand>): EditNode {
  const label = `edit of cache "${holding.name}"`;
  checkObject(label, edit);
  const { operator, domain = "", attributes = {}, inputs } = edit;
  if (typeof operator !== "string")
    throw new InsituError("invalid-argument", `${label}: the operator must be text, got ${valueText(operator)}`);
  checkName(`${label}: the domain`, domain);
  checkObject(`${label}: its inputs`, inputs);
  checkObject(`${label}: its attributes`, attributes);
  for (const [name, given] of Object.entries(attributes))
    if (![given].flat().every((item) => ["number", "boolean", "string"].includes(typeof item)))
      throw new InsituError(
        "invalid-argument",
        `${label}: attribute ${name} must be a number, a text or a list of one kind of them, got ${valueText(given)}`,
      );
  const op = operators.find(domain, operator, opsetOf(domain));
  if (op === undefined) throw operators.missing(domain, operator, opsetOf(domain), label);
  const updates = Object.values(op.effects).filter((effect) => effect?.kind === "update");
  const [effect] = updates;
  if (updates.length !== 1 || effect?.kind !== "update" || effect.grows !== undefined)
    throw new InsituError(
      "invalid-argument",
      `${label}: ${operator} is no operator that writes one cache in place, as RepackCache and TensorScatter do`,
    );
  const cache: Operand = { name: `cache ${at}`, type: holding.type, rank: holding.buffer.rank };
  const nameOf = (operand: string): string => {
    if (operand === effect.of) return cache.name;
    const tensor = inputs[operand];
    if (tensor === undefined) return "";
    if (!isTensor(tensor))
      throw new InsituError("invalid-argument", `${label}: ${operand} must be a Tensor, got ${valueText(tensor)}`);
    const feed = feeds.get(tensor) ?? { name: `operand ${feeds.size}`, type: tensor.type, rank: tensor.dims.length };
    feeds.set(tensor, feed);
    return feed.name;
  };
  const unknown = Object.keys(inputs).find((name) => name === effect.of || !(name in op.inputs));
  if (unknown !== undefined)
    throw new InsituError(
      "invalid-argument",
      `${label}: "${unknown}" is no operand of ${operator} beside its cache; those are ${Object.keys(op.inputs)
        .filter((name) => name !== effect.of)
        .join(", ")}`,
    );
  return { op, label, cache, present: `present ${at}`, inputs: Object.keys(op.inputs).map(nameOf), attributes };
}

const opsetOf = (domain: string): number => (domain === "" ? newestOpset : 1);

/** The graph of an edit. Ranks are declared, and sizes left to the run. */
const modelOf = (nodes: readonly EditNode[], feeds: readonly Operand[]): ReturnType<typeof buildModel> => {
  const declared = ({ name, type, rank }: Operand): ReturnType<typeof value> =>
    value(name, type, new Array<undefined>(rank).fill(undefined));
  return buildModel({
    opset: Object.fromEntries(["", ...nodes.map(({ op }) => op.domain)].map((domain) => [domain, opsetOf(domain)])),
    inputs: [...nodes.map(({ cache }) => declared(cache)), ...feeds.map(declared)],
    outputs: nodes.map(({ cache, present }) => declared({ ...cache, name: present })),
    nodes: nodes.map(({ op, label, present, inputs, attributes }) =>
      node(op.name, inputs, [present], attributes, { domain: op.domain, name: label }),
    ),
  });
};
