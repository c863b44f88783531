/**
 * What an operator is: `defineOp` and the types behind it. One declaration holds names, types, attributes, effects, the shape
 * rule and the reference implementation. Shared code asks what an op declares, never which op it is.
 */
import type { InsituError, ErrorCode } from "../base/error.js";
import type { ElementType } from "../tensor/element-type.js";
import type { Packing } from "#insitu/packings/packing.js";
import type { View } from "../tensor/view.js";
import type { Attribute } from "./attribute.js";
import type { Dim, Shape } from "./dim.js";
import type { Effect } from "./effect.js";
import type { Fact } from "./fact.js";

/** How many tensors a parameter stands for. */
type Arity = "single" | "optional" | "variadic";

/** One input or output: its arity and its type, a type variable of the declaration or an element type. */
export interface Parameter<A extends Arity = Arity> {
  readonly arity: A;
  readonly type: string;
  /** For a variadic parameter: the tensors may differ in type. */
  readonly heterogeneous: boolean;
  /** For a variadic parameter: how many there must be. */
  readonly atLeast: number;
}

/** One tensor of the type variable or element type `type`. */
export const tensor = (type: string): Parameter<"single"> => ({
  arity: "single",
  type,
  heterogeneous: false,
  atLeast: 1,
});

/** A tensor that may be left out. */
export const optional = (parameter: Parameter<"single">): Parameter<"optional"> => ({
  ...parameter,
  arity: "optional",
  atLeast: 0,
});

/** Any number of tensors; the last parameter of its list. */
export const variadic = (
  parameter: Parameter<"single">,
  options: { heterogeneous?: boolean; atLeast?: number } = {},
): Parameter<"variadic"> => ({
  ...parameter,
  arity: "variadic",
  heterogeneous: options.heterogeneous ?? false,
  atLeast: options.atLeast ?? 1,
});

/** Parameters by name, in ONNX's order. */
export type Parameters = Readonly<Record<string, Parameter>>;

/** One tensor under each of these names. */
export type Singles<Names extends string> = Readonly<Record<Names, Parameter<"single">>>;

type Held<P, V> = P extends Parameter<"variadic"> ? readonly V[] : P extends Parameter<"optional"> ? V | undefined : V;

/** What `V` each parameter of a list holds: V, V | undefined, or V[]. */
export type PerParameter<Ps extends Parameters, V> = { readonly [N in keyof Ps]: Held<Ps[N], V> };

/** Declared attributes by name. */
export type Attributes = Readonly<Record<string, Attribute<unknown>>>;

/** The values of declared attributes. */
export type AttributeResults<As> = { readonly [N in keyof As]: As[N] extends Attribute<infer T> ? T : never };

/** The values of a node's attributes, as its declaration reads them, where nobody knows which declaration. */
type AttributeRecord = Readonly<Record<string, unknown>>;

/** What a rule or a kernel is told about the node it works for. */
export interface CallContext {
  /** `Attention "layer.3/attn"`: how messages begin. */
  readonly label: string;
  /** The opset version of the operator's domain in the model. */
  readonly opset: number;
  /** Throws an InsituError that begins with the label; the default code is "shape-mismatch". */
  readonly fail: (message: string, code?: ErrorCode) => never;
  /** Fails with the message unless the condition holds. */
  readonly check: (condition: boolean, message: string | (() => string), code?: ErrorCode) => void;
}

/** What a shape rule sees. */
export interface InferCall<I extends Parameters, O extends Parameters, A> extends CallContext {
  readonly inputs: PerParameter<I, Fact>;
  readonly attrs: AttributeResults<A>;
  /** True if the node names this output. */
  wants(output: keyof O & string): boolean;
  /** How many outputs the node names, left-out ones in the middle included. */
  readonly outputCount: number;
  /** Infers a subgraph attribute's outputs from facts about its inputs. */
  inferBody(attribute: keyof A & string, inputs: readonly Fact[]): readonly Fact[];
}

/** What a shape rule says of one output; the type may be left out where a type variable gives it. */
export interface OutputFact {
  readonly type?: ElementType;
  readonly shape?: Shape | undefined;
  /** Integer contents where the rule knows them. */
  readonly integers?: readonly Dim[] | undefined;
}

/** What the reference implementation sees. Outputs are allocated to their inferred shapes; an output with effect may share its input's bytes. */
export interface ReferenceCall<I extends Parameters, O extends Parameters, A> extends CallContext {
  readonly inputs: PerParameter<I, View>;
  readonly outputs: PerParameter<O, View>;
  readonly attrs: AttributeResults<A>;
  /** For outputs whose shape only the data decide: allocates and returns the output. */
  allocate(output: keyof O & string, shape: readonly number[], options?: { index?: number; type?: ElementType }): View;
  /** Hands out an existing view as the output: for outputs of subgraphs. */
  assign(output: keyof O & string, view: View, index?: number): void;
  /** Runs a subgraph attribute. */
  run(attribute: keyof A & string, inputs: readonly View[]): readonly View[];
  /** True if the node names this output. */
  wants(output: keyof O & string): boolean;
  /** A uniform number in [0, 1): the only source of chance. */
  random(seed: number | undefined): () => number;
}

/** A declaration as it is written: see src/graph/README.md. */
interface Declaration<I extends Parameters, O extends Parameters, A extends Attributes> {
  readonly name: string;
  /** ONNX's own domain when left out. */
  readonly domain?: string;
  /** The first opset version with this meaning; it holds until the next declaration of the same name. */
  readonly since: number;
  /** Type variables and the element types each may stand for. */
  readonly types?: Readonly<Record<string, readonly ElementType[]>>;
  readonly inputs: I;
  readonly outputs: O;
  readonly attrs?: A;
  readonly effects?: Readonly<Partial<Record<keyof O & string, Effect>>>;
  /** Types, shapes, and every argument check that needs no data. */
  infer(call: InferCall<I, O, A>): { readonly [N in keyof O]?: Held<O[N], OutputFact> };
  /**
   * Every argument check that needs data, on as much of the data as is known: a call that passes is not refused by the reference implementation. Made
   * before a run writes a cache wherever the operands named in `looksAt` are known by then.
   */
  validate?(call: InferCall<I, O, A>): void;
  /** The inputs whose contents `validate` reads; it sees the type and shape of the others. Goes with `validate`. */
  readonly looksAt?: readonly (keyof I & string)[];
  /** Contents of other element types than these need no check; all types where left out. */
  readonly looksAtTypes?: readonly ElementType[];
  /** For each output with an `update`: parts of it that hold every element that the call may write; where left out, the whole. */
  overwrites?(call: ReferenceCall<I, O, A>): { readonly [N in keyof O]?: readonly View[] };
  /** Integer contents of the first output from what symbols tell; for the operators that shape arithmetic is made of. */
  integers?(call: InferCall<I, O, A>): readonly Dim[] | undefined;
  /** The reference implementation. */
  reference(call: ReferenceCall<I, O, A>): void;
  /**
   * The steps that the reference implementation takes, roughly, where they are more than a few for each element that it reads or writes. Asked before a
   * node is computed at load, of operands whose contents are known.
   */
  work?(call: InferCall<I, O, A>): number;
  /** The result depends on chance: never folded, never compared. */
  readonly random?: boolean;
  /** The first output is this input with more joined to its end: how a cache that is made anew each step is recognised. */
  readonly appends?: { readonly to: keyof I & string; readonly along: keyof A & string };
  /** The first output holds exactly this input's elements in another order: a copy of all of them. */
  readonly permutes?: {
    readonly input: keyof I & string;
    /** Axis i of the output is this axis of the input. */
    order(attrs: AttributeResults<A>, rank: number): readonly number[];
  };
  /**
   * Inputs that say, per sample, where new rows start, or how many rows are valid once they are written. Where rows behind the last one go
   * to the first (`wraps`), a length may be more than a cache holds.
   */
  readonly lengths?: {
    readonly start?: keyof I & string;
    readonly end?: keyof I & string;
    wraps?(attrs: AttributeResults<A>): boolean;
  };
  /**
   * What is decided by the number of a cache's row, which is no position any more once rows are taken out from between: a window of so many
   * rows, the query's own among them, and inputs that have a column for each row. `fromFront`: a sample's rows are those in front, as many as
   * a length says, whatever a mask may mean by padding before them.
   */
  readonly rows?: {
    window?(attrs: AttributeResults<A>): number | undefined;
    readonly masks?: readonly (keyof I & string)[];
    readonly fromFront?: boolean;
  };
  /** Of one input, rows along the first axis are read that another one names, and nothing else, where the attribute `along` is 0. */
  readonly picksRows?: {
    readonly of: keyof I & string;
    readonly by: keyof I & string;
    readonly along: keyof A & string;
  };
  /** Inputs of which only the shape or the type is looked at, never the bytes. */
  readonly readsOnlyShape?: readonly (keyof I & string)[];
  /** The first output is the largest of the operands, element by element: a length that may be raised stays that length. */
  readonly largest?: boolean;
  /** Weights that lie as one device's kernels read them: undefined where they lie as the operator means them, or in no order that is known. */
  packed?(attrs: AttributeResults<A>, weights: (input: keyof I & string) => HeldWeight | undefined): Packed | undefined;
}

/** What a file holds of a constant input. */
export interface HeldWeight {
  readonly type: ElementType;
  readonly dims: readonly number[];
}

/** An input in another order: its shape in the operator's own, and how its bytes lie. */
export interface PackedInput {
  readonly dims: readonly number[];
  readonly packing: Packing;
}

/** Inputs in another order, and the attribute that is 0 once they are in the operator's own. */
export interface Packed {
  readonly attribute: string;
  readonly inputs: Readonly<Record<string, PackedInput>>;
}

/** A declared operator, as shared code sees it. */
export interface Op {
  readonly name: string;
  readonly domain: string;
  readonly since: number;
  readonly types: Readonly<Record<string, readonly ElementType[]>>;
  readonly inputs: Parameters;
  readonly outputs: Parameters;
  readonly attrs: Attributes;
  readonly effects: Readonly<Record<string, Effect>>;
  readonly random: boolean;
  readonly readsOnlyShape: readonly string[];
  readonly appends: { readonly to: string; readonly along: string } | undefined;
  readonly permutes:
    | { readonly input: string; order(attrs: AttributeRecord, rank: number): readonly number[] }
    | undefined;
  readonly lengths: { readonly start?: string; readonly end?: string; wraps(attrs: AttributeRecord): boolean };
  readonly rows: {
    window(attrs: AttributeRecord): number | undefined;
    readonly masks: readonly string[];
    readonly fromFront: boolean;
  };
  readonly picksRows: { readonly of: string; readonly by: string; readonly along: string } | undefined;
  readonly largest: boolean;
  readonly packed:
    | ((attrs: AttributeRecord, weights: (input: string) => HeldWeight | undefined) => Packed | undefined)
    | undefined;
  infer(
    call: InferCall<Parameters, Parameters, unknown>,
  ): Readonly<Record<string, OutputFact | readonly OutputFact[] | undefined>>;
  readonly validates: boolean;
  validate(call: InferCall<Parameters, Parameters, unknown>): void;
  readonly looksAt: readonly string[];
  readonly looksAtTypes: readonly ElementType[] | undefined;
  overwrites(
    call: ReferenceCall<Parameters, Parameters, unknown>,
  ): Readonly<Record<string, readonly View[] | undefined>>;
  integers(call: InferCall<Parameters, Parameters, unknown>): readonly Dim[] | undefined;
  reference(call: ReferenceCall<Parameters, Parameters, unknown>): void;
  readonly work: ((call: InferCall<Parameters, Parameters, unknown>) => number) | undefined;
}

/** A declared operator with the names and types that its declaration gave: what kernels are written against. */
export interface DeclaredOp<I extends Parameters, O extends Parameters, A extends Attributes> extends Op {
  readonly inputs: I;
  readonly outputs: O;
  readonly attrs: A;
}

/** No attributes. */
export type NoAttributes = Readonly<Record<never, never>>;

/** Declares an operator. */
export function defineOp<
  const I extends Parameters,
  const O extends Parameters,
  const A extends Attributes = NoAttributes,
>(declaration: Declaration<I, O, A>): DeclaredOp<I, O, A> {
  const { types = {}, attrs = {}, effects = {}, domain = "", random = false, readsOnlyShape = [] } = declaration;
  return {
    name: declaration.name,
    domain,
    since: declaration.since,
    types,
    inputs: declaration.inputs,
    outputs: declaration.outputs,
    attrs: attrs as A, // left out where there are none
    effects: effects as Readonly<Record<string, Effect>>,
    random,
    readsOnlyShape,
    appends: declaration.appends,
    permutes: declaration.permutes && {
      input: declaration.permutes.input,
      order: (given, rank) => declaration.permutes!.order(given as AttributeResults<A>, rank),
    },
    picksRows: declaration.picksRows,
    largest: declaration.largest ?? false,
    packed: declaration.packed && ((given, weights) => declaration.packed!(given as AttributeResults<A>, weights)),
    // The erased calls are made by shared code from this very declaration, so their contents have the declared types.
    lengths: {
      ...declaration.lengths,
      wraps: (given) => declaration.lengths?.wraps?.(given as AttributeResults<A>) ?? false,
    },
    rows: {
      window: (given) => declaration.rows?.window?.(given as AttributeResults<A>),
      masks: declaration.rows?.masks ?? [],
      fromFront: declaration.rows?.fromFront ?? false,
    },
    infer: (call) => declaration.infer(call as InferCall<I, O, A>) as Record<string, OutputFact>,
    validates: declaration.validate !== undefined,
    validate: (call) => declaration.validate?.(call as InferCall<I, O, A>),
    looksAt: declaration.looksAt ?? [],
    looksAtTypes: declaration.looksAtTypes,
    overwrites: (call) => declaration.overwrites?.(call as ReferenceCall<I, O, A>) ?? {},
    integers: (call) => declaration.integers?.(call as InferCall<I, O, A>),
    reference: (call) => declaration.reference(call as ReferenceCall<I, O, A>),
    work: declaration.work && ((call) => declaration.work!(call as InferCall<I, O, A>)),
  };
}

/**
 * A later version of an operator: what changed in its words; rules and reference implementation are those of the earlier one, which look for what is
 * new by its name.
 */
export const laterOp = <
  I extends Parameters,
  O extends Parameters,
  A extends Attributes,
  const J extends Parameters = I,
  const B extends Attributes = A,
>(
  op: DeclaredOp<I, O, A>,
  changes: Pick<Declaration<J, O, B>, "since" | "types"> & {
    readonly inputs?: J;
    readonly outputs?: O;
    readonly attrs?: B;
  },
): DeclaredOp<J, O, B> => ({ ...op, ...changes }) as DeclaredOp<J, O, B>; // what is not changed has the types of the earlier one

/** Finds operators by domain, name and opset version. */
export interface OperatorSet {
  /** The declaration in force at `opset`, or undefined. */
  find(domain: string, name: string, opset: number): Op | undefined;
  /** The error for an operator that is not there: names it, its domain and opset, and the nearest supported. */
  missing(domain: string, name: string, opset: number, label: string): InsituError;
  readonly all: readonly Op[];
}
