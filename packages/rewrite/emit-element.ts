/**
 * Elements made tensors again: an expression over batch, head, query and key becomes nodes that compute it for all of them, one column for
 * each row of the caches' capacity. What depends on the old length of the cache is counted from `write_indices`.
 */
import { InsituError } from "#insitu/base/error.js";
import { type Dim, SymbolicDim } from "#insitu/graph/dim.js";
import type { Value } from "#insitu/graph/graph.js";
import type { AttributeValue } from "#insitu/onnx/build.js";
import { type ElementType, traitsOf } from "#insitu/tensor/element-type.js";
import { constantOf, type Element, type Lookup } from "./element.js";
import type { ModelEdit } from "./model-edit.js";

/** Where the tensors come from that indices stand for. Each gives the name of one of 4 dimensions, or of fewer. */
export interface IndexTensors {
  /** For `%b`, `%h`, `%i`, `%k`, `past`, `sequence`, `batch`: whole numbers. Undefined for what is not known. */
  of(symbol: string): string | undefined;
  /** A tensor's values at an index, as a tensor of 4 dimensions; a sentence where that cannot be had. */
  read(from: Value, index: readonly Dim[]): string | { readonly reason: string };
  /** A table's values at places that a tensor of whole numbers has. */
  lookup(element: Lookup, places: string): string | { readonly reason: string };
}

/** Thrown inside this file, and turned into a reason. */
class Unfit extends Error {}

/** The name of a tensor that holds the element everywhere, of the type given; a reason where it cannot be made. */
export function emitElement(
  element: Element,
  type: ElementType,
  edit: ModelEdit,
  tensors: IndexTensors,
): string | { readonly reason: string } {
  const emitter = new Emitter(edit, tensors);
  try {
    return emitter.emit(element, type);
  } catch (error) {
    if (error instanceof Unfit) return { reason: error.message };
    throw error;
  }
}

class Emitter {
  readonly #edit: ModelEdit;
  readonly #tensors: IndexTensors;
  constructor(edit: ModelEdit, tensors: IndexTensors) {
    this.#edit = edit;
    this.#tensors = tensors;
  }

  emit(element: Element, type: ElementType): string {
    const edit = this.#edit;
    const number = constantOf(element);
    if (number !== undefined) return edit.scalar(type, number);
    switch (element.kind) {
      case "integer":
        return this.#as(this.#polynomial(element.value), "int64", type);
      case "number":
        return edit.scalar(type, element.value);
      case "truth":
        return this.#as(edit.scalar("bool", element.value ? 1 : 0), "bool", type);
      case "at-least-zero":
        return this.#as(this.#compared("GreaterOrEqual", element.value), "bool", type);
      case "zero":
        return this.#as(this.#compared("Equal", element.value), "bool", type);
      case "not":
        return this.#as(edit.node("Not", [this.emit(element.of, "bool")]), "bool", type);
      case "and":
      case "or": {
        const parts = element.of.map((part) => this.emit(part, "bool"));
        const operator = element.kind === "and" ? "And" : "Or";
        return this.#as(
          parts.reduce((a, b) => edit.node(operator, [a, b])),
          "bool",
          type,
        );
      }
      case "choose": {
        const [when, yes, no] = [
          this.emit(element.when, "bool"),
          this.emit(element.yes, type),
          this.emit(element.no, type),
        ];
        return edit.node("Where", [when, yes, no]);
      }
      case "read": {
        const found = this.#tensors.read(element.from, element.index);
        if (typeof found !== "string") throw new Unfit(found.reason);
        return this.#as(found, element.from.fact!.type, type);
      }
      case "lookup": {
        const found = this.#tensors.lookup(element, this.emit(element.at, "int64"));
        if (typeof found !== "string") throw new Unfit(found.reason);
        return this.#as(found, element.from.fact!.type, type);
      }
      case "call":
        return this.#call(element, type);
      default:
        return element satisfies never;
    }
  }

  #call(element: Element & { readonly kind: "call" }, type: ElementType): string {
    const { node, of } = element;
    const own = node.outputs[0]!.fact!.type;
    const operands = of.map((part, at) =>
      this.emit(part, node.inputs[Math.min(at, node.inputs.length - 1)]!.fact!.type),
    );
    if (node.op.name === "Cast" || node.op.name === "CastLike")
      return this.#as(operands[0], node.inputs[0]!.fact!.type, type);
    if (element.as !== undefined) return this.#as(this.#edit.node(element.as, operands), own, type);
    const attributes = Object.fromEntries(
      [...node.attributes].flatMap(([name, attribute]) =>
        attribute.kind === "int" || attribute.kind === "float" || attribute.kind === "string"
          ? [[name, attribute as AttributeValue]]
          : [],
      ),
    );
    if (Object.keys(attributes).length !== node.attributes.size)
      throw new Unfit(`${node.label} has attributes that are not carried over`);
    return this.#as(this.#edit.node(node.op.name, operands, { attributes, domain: node.op.domain }), own, type);
  }

  #as(name: string, from: ElementType, to: ElementType): string {
    return from === to ? name : this.#edit.node("Cast", [name], { attributes: { to: traitsOf(to).code } });
  }

  /** left ≥ right, or equal to it, for left − right = dim. */
  #compared(operator: string, dim: Dim): string {
    const { terms } = dim as SymbolicDim;
    const side = (sign: 1 | -1): string =>
      this.#sum(
        terms
          .filter(({ coefficient }) => coefficient * sign > 0)
          .map((term) => ({ ...term, coefficient: term.coefficient * sign })),
      );
    return this.#edit.node(operator, [side(1), side(-1)]);
  }

  #polynomial(dim: Dim): string {
    return typeof dim === "number" ? this.#edit.scalar("int64", dim) : this.#sum(dim.terms);
  }

  #sum(terms: SymbolicDim["terms"]): string {
    const edit = this.#edit;
    const positive = terms.filter(({ coefficient }) => coefficient > 0).map((term) => this.#term(term));
    const negative = terms
      .filter(({ coefficient }) => coefficient < 0)
      .map((term) => this.#term({ ...term, coefficient: -term.coefficient }));
    const first = positive.length === 0 ? edit.scalar("int64", 0) : positive.reduce((a, b) => edit.node("Add", [a, b]));
    return negative.reduce((a, b) => edit.node("Sub", [a, b]), first);
  }

  #term({ coefficient, atoms }: SymbolicDim["terms"][number]): string {
    const factors = atoms.map((atom) => this.#atom(atom));
    if (coefficient !== 1 || factors.length === 0) factors.push(this.#edit.scalar("int64", coefficient));
    return factors.reduce((a, b) => this.#edit.node("Mul", [a, b]));
  }

  #atom({ key, operation }: SymbolicDim["terms"][number]["atoms"][number]): string {
    if (operation === undefined) {
      const found = this.#tensors.of(key);
      if (found === undefined) throw new Unfit(`"${key}" is not known when the mask is built`);
      return found;
    }
    const operands = [operation.left, operation.right].map((dim) => this.#polynomial(dim));
    switch (operation.name) {
      case "floor":
        return this.#edit.node("Div", operands);
      case "mod":
        return this.#edit.node("Mod", operands);
      case "max":
        return this.#edit.node("Max", operands);
      case "min":
        return this.#edit.node("Min", operands);
      default:
        throw new InsituError("internal", `an operation "${String(operation.name satisfies never)}" on indices`);
    }
  }
}
