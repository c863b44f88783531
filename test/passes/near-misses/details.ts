// Every way in which a graph can differ from another in one detail: a value that is read or shown, a constant, an operand, an operator, an attribute, a
// dimension's name. Not every one makes a graph that can be run.
import {
  attributes,
  float,
  graph as makeGraph,
  initializer,
  ints,
  node as makeNode,
  value,
} from "../../../src/onnx/build.js";
import {
  type Model,
  type ModelAttribute,
  type ModelGraph,
  type ModelNode,
  type ModelTensor,
  tensorView,
} from "../../../src/onnx/model.js";
import { preparedGraphOf } from "../../../src/session/load.js";
import { readNumbers } from "../../../src/tensor/access.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import type { Tensor } from "../../../src/tensor/tensor.js";
import { type Drawn, tensorOf } from "./draft.js";

type Changes = Record<string, Drawn>;

const withGraph = ({ model, feeds }: Drawn, change: Partial<ModelGraph>): Drawn => ({
  model: { ...model, graph: { ...model.graph, ...change } },
  feeds,
});
const withNodes = (drawn: Drawn, by: ReadonlyMap<ModelNode, readonly ModelNode[]>): Drawn =>
  withGraph(drawn, { nodes: drawn.model.graph.nodes.flatMap((node) => by.get(node) ?? [node]) });
const withConstant = (drawn: Drawn, old: ModelTensor, next: ModelTensor): Drawn =>
  withGraph(drawn, { initializers: drawn.model.graph.initializers.map((each) => (each === old ? next : each)) });

/** Type and shape of every value of a graph, as text. */
function kindsOf(model: Model): ReadonlyMap<string, { readonly type: ElementType; readonly text: string }> {
  const { graph } = preparedGraphOf(model, { level: "disabled" });
  const known = [...graph.inputs, ...graph.nodes.flatMap((node) => [...node.inputs, ...node.outputs])];
  return new Map(
    known.flatMap((each) =>
      each?.fact === undefined
        ? []
        : [[each.name, { type: each.fact.type, text: `${each.fact.type}[${String(each.fact.shape)}]` }]],
    ),
  );
}

/** A value in between that someone else needs too: the graph's caller, another node, a branch of an If. */
function readers(drawn: Drawn): Changes {
  const { nodes, outputs } = drawn.model.graph;
  const kinds = kindsOf(drawn.model);
  const shown = new Set(outputs.map(({ name }) => name));
  const inner = nodes.flatMap((node) => node.outputs).filter((name) => kinds.has(name) && !shown.has(name));
  const changes: Changes = {};
  for (const name of inner) {
    changes[`${name} is an output`] = withGraph(drawn, { outputs: [...outputs, value(name)] });
    if (!kinds.get(name)!.type.startsWith("float")) continue;
    const also = makeNode("Neg", [name], ["also"]);
    changes[`${name} has another reader`] = withGraph(drawn, {
      nodes: [...nodes, also],
      outputs: [...outputs, value("also")],
    });
    const branch = (result: string, op: string): ModelGraph =>
      makeGraph({ nodes: [makeNode(op, [name], [result])], outputs: [value(result)] });
    const choice = makeNode("If", ["choice"], ["also"], {
      then_branch: branch("yes", "Neg"),
      else_branch: branch("no", "Abs"),
    });
    changes[`${name} is read in a branch`] = {
      ...withGraph(drawn, {
        inputs: [...drawn.model.graph.inputs, value("choice", "bool", [])],
        nodes: [...nodes, choice],
        outputs: [...outputs, value("also")],
      }),
      feeds: { ...drawn.feeds, choice: tensorOf("bool", [], [1]) },
    };
  }
  return changes;
}

/** Constants of other numbers or shapes, or fed. */
function constants(drawn: Drawn): Changes {
  const changes: Changes = {};
  for (const old of drawn.model.graph.initializers) {
    const numbers = [...readNumbers(tensorView(old))].map(Number);
    const put = (what: string, list: readonly number[], dims: readonly number[]): void => {
      changes[`${old.name} ${what}`] = withConstant(drawn, old, initializer(old.name, tensorOf(old.type, dims, list)));
    };
    const isFloat = old.type.startsWith("float");
    if (isFloat && numbers.length === 1) {
      const [number] = numbers;
      put("is a hundredth more", [number * 1.01], old.dims);
      put("is a little more", [number * (1 + 2 ** -9)], old.dims);
      put("has the other sign", [-number], old.dims);
      put("is doubled", [2 * number], old.dims);
      for (const rank of [0, 1, 2, 3, 5])
        if (rank !== old.dims.length) put(`has ${rank} dimensions`, numbers, Array<number>(rank).fill(1));
    } else if (isFloat) {
      put("is reversed", numbers.toReversed(), old.dims);
      put("has one dimension more", numbers, [1, ...old.dims]);
      if (old.dims.length === 1) {
        put("is one number", numbers.slice(0, 1), [1]);
        put("has a dimension behind", numbers, [...old.dims, 1]);
      }
      if (old.dims.length === 2 && old.dims[0] === old.dims[1]) put("is turned", numbers, old.dims.toReversed());
    } else if (old.type === "int64") {
      numbers.forEach((number, at) => {
        for (const [what, next] of [
          ["more", number + 1],
          ["less", number - 1],
          ["0", 0],
          ["-1", -1],
        ] as const)
          if (next !== number)
            put(
              `[${at}] is ${typeof next === "number" && what.length > 2 ? `one ${what}` : what}`,
              numbers.with(at, next),
              old.dims,
            );
      });
      if (numbers.length > 1) put("is reversed", numbers.toReversed(), old.dims);
    } else put("is reversed", numbers.toReversed(), old.dims);
    if (isFloat)
      changes[`${old.name} is fed`] = {
        ...withGraph(drawn, {
          initializers: drawn.model.graph.initializers.filter((each) => each !== old),
          inputs: [...drawn.model.graph.inputs, value(old.name, old.type, old.dims)],
        }),
        feeds: { ...drawn.feeds, [old.name]: tensorOf(old.type, old.dims, numbers) },
      };
  }
  return changes;
}

const families: readonly (readonly string[])[] = [
  ["Add", "Sub", "Mul", "Div", "Max"],
  ["Sqrt", "Abs", "Exp"],
  ["Sigmoid", "Tanh", "Erf", "Softsign"],
  ["Neg", "Abs", "Identity"],
  ["Cos", "Sin"],
  ["Reciprocal", "Neg", "Identity"],
  ["ReduceMean", "ReduceSum", "ReduceMax"],
  ["Softmax", "LogSoftmax", "Hardmax"],
  ["RMSNormalization", "LayerNormalization"],
];

/** Other operators, operands in another order, other operands of the same kind, something in between. */
function operands(drawn: Drawn): Changes {
  const changes: Changes = {};
  const kinds = kindsOf(drawn.model);
  const { nodes, inputs } = drawn.model.graph;
  nodes.forEach((node, at) => {
    const by = (...made: readonly ModelNode[]): Drawn => withNodes(drawn, new Map([[node, made]]));
    for (const family of families.filter((each) => each.includes(node.opType)))
      for (const opType of family)
        if (opType !== node.opType) changes[`${node.name} is ${opType}`] = by({ ...node, opType });
    if (node.inputs.length >= 2 && node.inputs[0] !== node.inputs[1])
      changes[`${node.name} has its operands in the other order`] = by({
        ...node,
        inputs: [node.inputs[1], node.inputs[0], ...node.inputs.slice(2)],
      });
    const earlier = [...inputs.map(({ name }) => name), ...nodes.slice(0, at).flatMap(({ outputs }) => outputs)];
    node.inputs.forEach((name, position) => {
      const kind = kinds.get(name);
      if (name === "" || kind === undefined) return;
      const replaced = (next: string): ModelNode => ({ ...node, inputs: node.inputs.with(position, next) });
      const alike = earlier.filter((other) => other !== name && kinds.get(other)?.text === kind.text);
      for (const other of [alike[0], alike.at(-1)])
        if (other !== undefined) changes[`${node.name} reads ${other} for ${name}`] = by(replaced(other));
      if (!kind.type.startsWith("float") || drawn.model.graph.initializers.some((each) => each.name === name)) return;
      const between: Readonly<Record<string, readonly ModelNode[]>> = {
        "a Neg": [makeNode("Neg", [name], ["between"])],
        "an Identity": [makeNode("Identity", [name], ["between"])],
        "a rounding": [
          makeNode("Cast", [name], ["narrow"], { to: 10 }),
          makeNode("Cast", ["narrow"], ["between"], { to: 1 }),
        ],
        "a Reshape that is none": [
          makeNode("Shape", [name], ["shape"]),
          makeNode("Reshape", [name, "shape"], ["between"]),
        ],
        "its elements in a row": [
          makeNode("Shape", [name], ["shape"]),
          makeNode("Reshape", [name, "row"], ["flat"]),
          makeNode("Reshape", ["flat", "shape"], ["between"]),
        ],
      };
      for (const [what, made] of Object.entries(between)) {
        const { initializers } = drawn.model.graph;
        const row = initializer("row", tensorOf("int64", [1], [-1]));
        changes[`${what} before ${node.name} at ${position}`] = withGraph(by(...made, replaced("between")), {
          initializers: [...initializers, row],
        });
      }
    });
  });
  return changes;
}

/** Attributes of other values, or left to their defaults. */
function attributesOf(drawn: Drawn): Changes {
  const changes: Changes = {};
  for (const node of drawn.model.graph.nodes) {
    const put = (what: string, name: string, next: ModelAttribute | undefined): void => {
      const all = new Map(node.attributes);
      if (next === undefined) all.delete(name);
      else all.set(name, next);
      changes[`${node.name}, ${name} ${what}`] = withNodes(drawn, new Map([[node, [{ ...node, attributes: all }]]]));
    };
    const made = (name: string, from: Parameters<typeof attributes>[0][string]): ModelAttribute =>
      attributes({ [name]: from }).get(name)!;
    for (const [name, attribute] of node.attributes) {
      put("is left out", name, undefined);
      // What is 0 or 1 may be a flag, which has no other values.
      if (attribute.kind === "int")
        for (const step of attribute.value === 0n ? [1] : attribute.value === 1n ? [-1] : [1, -1])
          put(`is ${step > 0 ? "more" : "less"}`, name, made(name, Number(attribute.value) + step));
      if (attribute.kind === "float") {
        put("is half as much again", name, made(name, float(attribute.value * 1.5)));
        put("has the other sign", name, made(name, float(-attribute.value)));
      }
      if (attribute.kind === "ints") {
        const list = [...attribute.value].map(Number);
        put("is reversed", name, made(name, ints(list.toReversed())));
        for (let at = 1; at < list.length; at++)
          put(
            `has ${at - 1} and ${at} exchanged`,
            name,
            made(name, ints(list.with(at - 1, list[at]).with(at, list[at - 1]))),
          );
      }
    }
  }
  return changes;
}

/** Inputs whose dimensions have other names, numbers, or all of them one size. */
function dimensions(drawn: Drawn): Changes {
  const { inputs } = drawn.model.graph;
  const declared = (name: string, dims: (dim: number | string, at: number, input: string) => number | string): Drawn =>
    withGraph(drawn, {
      inputs: inputs.map((each) => {
        const tensor = drawn.feeds[each.name];
        const { type } = each;
        if (type?.kind !== "tensor" || type.shape === undefined || (name !== "" && each.name !== name)) return each;
        const shape = type.shape.map((dim, at) => dims(dim as number | string, at, each.name));
        return value(each.name, tensor.type, shape);
      }),
    });
  const changes: Changes = {
    "all dimensions are numbers": declared("", (dim, at, input) =>
      typeof dim === "number" ? dim : drawn.feeds[input].dims[at],
    ),
    "every dimension has a name of its own": declared("", (dim, at, input) => `${input} ${at}`),
    "dimensions of names have others": declared("", (dim, at, input) =>
      typeof dim === "number" ? dim : `${input} ${at}`,
    ),
  };
  for (const { name } of inputs) {
    changes[`${name} has names of its own`] = declared(name, (dim, at) =>
      typeof dim === "number" ? dim : `${name} ${at}`,
    );
    changes[`${name} has no numbers`] = declared(name, (dim, at) => (typeof dim === "number" ? `${name} ${at}` : dim));
  }
  return changes;
}

/** The whole graph in another type. */
function types(drawn: Drawn): Changes {
  const { graph } = drawn.model;
  const changes: Changes = {};
  for (const type of ["float16", "float64"] as const) {
    const cast = (tensor: Tensor): Tensor =>
      tensor.type === "float32" ? tensorOf(type, tensor.dims, [...readNumbers(tensor.toView())]) : tensor;
    changes[`in ${type}`] = {
      ...withGraph(drawn, {
        inputs: graph.inputs.map((each) =>
          each.type?.kind === "tensor" && each.type.elementType === "float32"
            ? value(each.name, type, each.type.shape)
            : each,
        ),
        initializers: graph.initializers.map((each) =>
          each.type === "float32"
            ? initializer(each.name, tensorOf(type, each.dims, [...readNumbers(tensorView(each))]))
            : each,
        ),
      }),
      feeds: Object.fromEntries(Object.entries(drawn.feeds).map(([name, tensor]) => [name, cast(tensor)])),
    };
  }
  return changes;
}

/** The graph run with all dimensions that have names of one size, caches' capacity aside: those that differ may agree there. */
export function resized(drawn: Drawn, size: number): Drawn {
  const feeds = drawn.model.graph.inputs.map(({ name, type }) => {
    const old = drawn.feeds[name];
    const shape = type?.kind === "tensor" ? (type.shape ?? []) : [];
    const dims = old.dims.map((dim, at) => (typeof shape[at] === "string" && shape[at] !== "capacity" ? size : dim));
    const numbers = [...readNumbers(old.toView())].map(Number);
    const count = dims.reduce((product, dim) => product * dim, 1);
    return [
      name,
      tensorOf(
        old.type,
        dims,
        Array.from({ length: count }, (_, at) => numbers[at % numbers.length]),
      ),
    ];
  });
  return { model: drawn.model, feeds: Object.fromEntries(feeds) as Drawn["feeds"] };
}

/** All graphs that differ from one in one detail, by what differs. */
export const detailsOf = (drawn: Drawn): Changes => ({
  ...types(drawn),
  ...dimensions(drawn),
  ...readers(drawn),
  ...constants(drawn),
  ...operands(drawn),
  ...attributesOf(drawn),
});
