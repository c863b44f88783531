/**
 * Runs whose feeds give one symbol several sizes. What was found out about a graph may rest on a symbol being one size: such runs go to a plan
 * of the same model in which every place of that symbol is a dimension of its own, made when it is first needed. Shapes that the file
 * declares for anything but inputs are not believed there, since they may say the same.
 */
import type { BackendSession, Executable } from "../backends/backend.js";
import type { Graph } from "../graph/graph.js";
import type { Model, ModelAttribute, ModelDimension, ModelGraph, ModelNode, ModelValue } from "../onnx/model.js";
import type { Preparation } from "../passes/optimize.js";
import { makePlan } from "../plan/plan.js";
import type { InPlacePolicy } from "../plan/plan.js";
import { preparedGraphOf } from "./load.js";
import { Standing } from "./standing.js";
import { namedWeightsOf } from "./weights.js";

/** What runs without a state need. */
interface PlainParts {
  readonly graph: Graph;
  readonly functional: Executable;
  readonly standing: Standing;
}

/** The plans of one session in which symbols are told apart. */
export class ToldApart {
  readonly #model: Model;
  readonly #prepare: (model: Model) => Graph;
  readonly #policy: InPlacePolicy;
  readonly #opened: BackendSession;
  readonly #made = new Map<string, PlainParts>();

  constructor(model: Model, opened: BackendSession, policy: InPlacePolicy, preparation: Preparation) {
    this.#model = model;
    this.#opened = opened;
    this.#policy = policy;
    this.#prepare = (apart) => preparedGraphOf(apart, preparation).graph;
  }

  /** The plan for runs in which these symbols are no longer one size each. */
  for(symbols: ReadonlySet<string>): PlainParts {
    const key = JSON.stringify([...symbols].toSorted());
    let parts = this.#made.get(key);
    if (parts === undefined) {
      const graph = this.#prepare(toldApart(this.#model, symbols));
      const functional = this.#opened.prepare(makePlan(graph, { policy: this.#policy, pasts: "caller" }));
      const lengths = { start: new Set<never>(), end: new Set<never>(), told: new Map() };
      const { uses } = functional.plan;
      const standing = new Standing(graph, { pairs: [], uses }, lengths, namedWeightsOf(graph).keys());
      parts = { graph, functional, standing };
      this.#made.set(key, parts);
    }
    return parts;
  }

  /** For whoever counts memory. */
  get executables(): readonly Executable[] {
    return [...this.#made.values()].map(({ functional }) => functional);
  }
}

/** The model without what it says of these symbols, and without shapes of values that it computes. */
function toldApart(model: Model, symbols: ReadonlySet<string>): Model {
  const names = [...symbols].map((symbol) => symbol.replaceAll(/[^\w]/g, String.raw`\$&`));
  const mentions = new RegExp(`(?<!\\w)(?:${names.join("|")})(?!\\w)`);
  const isApart = (dim: ModelDimension): boolean => typeof dim === "string" && mentions.test(dim);
  return {
    ...model,
    graph: {
      ...withoutShapes(model.graph),
      inputs: model.graph.inputs.map((input) => withoutDims(input, isApart)),
    },
    functions: model.functions.map((each) => ({
      ...each,
      valueInfo: [],
      nodes: each.nodes.map(withoutShapesInside),
    })),
  };
}

const isSymbol = (dim: ModelDimension): boolean => typeof dim === "string";

/** A graph that declares no symbols but those that nodes of the graph around it give its inputs. */
function withoutShapes(graph: ModelGraph): ModelGraph {
  return {
    ...graph,
    inputs: graph.inputs.map((input) => withoutDims(input, isSymbol)),
    outputs: graph.outputs.map((output) => withoutDims(output, isSymbol)),
    valueInfo: [],
    nodes: graph.nodes.map(withoutShapesInside),
  };
}

function withoutShapesInside(node: ModelNode): ModelNode {
  return { ...node, attributes: new Map([...node.attributes].map(([name, each]) => [name, withoutShapesOf(each)])) };
}

function withoutShapesOf(attribute: ModelAttribute): ModelAttribute {
  if (attribute.kind === "graph") return { ...attribute, value: withoutShapes(attribute.value) };
  if (attribute.kind === "graphs") return { ...attribute, value: attribute.value.map(withoutShapes) };
  return attribute;
}

/** A declared value whose dimensions of a kind are unknown, each on its own. */
function withoutDims(value: ModelValue, isOf: (dim: ModelDimension) => boolean): ModelValue {
  const { type } = value;
  if (type?.kind !== "tensor" || type.shape === undefined) return value;
  return { ...value, type: { ...type, shape: type.shape.map((dim) => (isOf(dim) ? undefined : dim)) } };
}
