/**
 * The dispatches of a program from when its steps are recorded until they can run: their pipelines are compiled side by side meanwhile, and
 * what stands for scratch memory and for other forms of operands becomes buffers once all of it is known.
 */
import { InsituError } from "../../base/error.js";
import type { Value } from "../../graph/graph.js";
import type { Operand } from "../../graph/kernel.js";
import type { Binding, Dispatch, Temporary, OperandForm } from "../../webgpu-kernels/webgpu-kernel.js";
import { type Action, type BoundDispatch, type HostNumber, type HostRange, sparing } from "./bound-run.js";
import { DeviceBuffer } from "./buffers.js";
import { KeptForms } from "./kept-forms.js";
import { ParameterMemory } from "./parameters.js";
import type { CallRecorder, RecordedForm } from "./recorder.js";
import type { ReadyDispatch, WebgpuSession } from "./session.js";

/** What a binding is by now. */
type Bound = DeviceBuffer | OperandForm | Temporary;

/** A form that each run makes, of what the host knows then. */
interface FormOfRuns {
  readonly form: RecordedForm;
  readonly of: readonly Value[];
  readonly buffer: DeviceBuffer;
}

/** A dispatch, its pipeline on the way. */
interface DraftDispatch {
  readonly kind: "draft";
  readonly dispatch: Dispatch;
  readonly pipeline: Promise<GPUComputePipeline>;
  readonly bound: ReadonlyMap<Binding, Bound>;
  /** In which runs it is done. */
  readonly only: readonly HostRange[];
}

/** Those of one program. */
export class DraftDispatches {
  readonly #session: WebgpuSession;
  readonly #all: DraftDispatch[] = [];
  /** Forms of weights, with the weights. */
  readonly #forms = new Map<OperandForm, { readonly weights: readonly Value[]; readonly form: RecordedForm }>();
  /** Forms that each run makes anew, for all steps that ask for them. */
  readonly #ofRuns = new Map<OperandForm, DeviceBuffer>();
  readonly #madeInRuns = new KeptForms<Value>();
  /** Memory that a step's dispatches hand on: the slot of each piece, and the most that each slot must hold. */
  readonly #slots = new Map<Temporary, number>();
  readonly #slotBytes: number[] = [];
  /** The numbers that they are chosen by. */
  readonly #numbers: HostNumber[] = [];
  readonly #releases: (() => void)[] = [];

  constructor(session: WebgpuSession) {
    this.#session = session;
  }

  /** Takes what one step asks for beside its operands, before its dispatches are added. Forms that are to be made before it, in each run. */
  take({ temporaries, forms }: CallRecorder, valueOf: (operand: Operand) => Value): readonly FormOfRuns[] {
    const making = forms.flatMap((form) => this.#takeForm(form, form.of.map(valueOf)) ?? []);
    // The largest first, so that what shares a slot differs in size as little as can be.
    temporaries
      .toSorted((a, b) => b.bytes - a.bytes)
      .forEach((temporary, slot) => {
        this.#slots.set(temporary, slot);
        this.#slotBytes[slot] = Math.max(this.#slotBytes[slot] ?? 0, temporary.bytes);
      });
    return making;
  }

  /** One that runs have to make, and that no step before asked for. */
  #takeForm(form: RecordedForm, of: readonly Value[]): FormOfRuns | undefined {
    if (form.lasts) {
      if (this.#session.weights.form(of, form) === undefined) void this.#session.pipelineOf(form.dispatch);
      this.#forms.set(form, { weights: of, form });
      return undefined;
    }
    const made = this.#madeInRuns.get(of, form.key);
    const { memory } = this.#session;
    const buffer =
      made ?? memory.allocate(form.bytes, `${of.map(({ name }) => `"${name}"`).join(" and ")} as ${form.key}`);
    this.#ofRuns.set(form, buffer);
    if (made !== undefined) return undefined;
    this.#releases.push(() => memory.free(buffer));
    this.#madeInRuns.set(of, form.key, buffer);
    return { form, of, buffer };
  }

  /** True for what is no operand: scratch memory, or another form of some. */
  makes({ of }: Binding): boolean {
    const own = of as OperandForm;
    return this.#slots.has(own) || this.#forms.has(own) || this.#ofRuns.has(own);
  }

  /** In which runs one is done. */
  rangesOf({ only }: Dispatch, valueOf: (operand: Operand) => Value): readonly HostRange[] | undefined {
    return only?.map(({ of, measure, least, most }) => {
      const values = of.map(valueOf);
      const isAsked = (known: HostNumber): boolean =>
        known.measure === measure &&
        known.of.length === values.length &&
        known.of.every((value, at) => value === values[at]);
      const number = this.#numbers.find(isAsked) ?? { of: values, measure };
      if (!this.#numbers.includes(number)) this.#numbers.push(number);
      return { number, least, most };
    });
  }

  /** Adds one; `bufferOf` finds the buffers of operands. */
  add(
    dispatch: Dispatch,
    bufferOf: (binding: Binding) => DeviceBuffer,
    only: readonly HostRange[] = [],
  ): DraftDispatch {
    const bound = new Map(
      dispatch.bindings.map((binding): [Binding, Bound] => [
        binding,
        this.#ofRuns.get(binding.of as OperandForm) ??
          (this.makes(binding) ? (binding.of as Temporary | OperandForm) : bufferOf(binding)),
      ]),
    );
    this.#checkCount(dispatch);
    const pipeline = this.#session.pipelineOf(dispatch);
    const draft: DraftDispatch = { kind: "draft", dispatch, pipeline, bound, only };
    this.#all.push(draft);
    return draft;
  }

  /** Fails where a shader would bind more buffers than the device allows, for weights that are in pieces. */
  #checkCount({ name, bindings }: Dispatch): void {
    const { device, memory } = this.#session;
    const { maxStorageBuffersPerShaderStage: most } = device.limits;
    const count = bindings.length;
    if (count > most)
      throw new InsituError(
        "out-of-memory",
        `kernel ${name} would bind ${count} buffers, since weights lie in pieces of the ${memory.pieceBytes} bytes that one binding holds, and a shader of ${device.description} binds ${most}; take a model of fewer bits a weight, or use another backend`,
      );
  }

  /** All of them with pipelines and buffers. */
  async ready(): Promise<ReadonlyMap<DraftDispatch, ReadyDispatch>> {
    const session = this.#session;
    const scratch = session.scratch.take(this.#slotBytes);
    this.#releases.push(() => scratch.release());
    const making = [...this.#forms.values()].map(({ form }) => session.pipelineOf(form.dispatch));
    const pipelines = await session.compiled([...this.#all.map(({ pipeline }) => pipeline), ...making]);
    await session.weights.arrive();
    const forms = new Map<OperandForm, DeviceBuffer>();
    // One after the other: each brings its weights to the device for as long as it is made.
    for (const [key, { weights, form }] of this.#forms) forms.set(key, await session.form(weights, form));
    const parameters = new ParameterMemory(
      session.memory,
      this.#all.map(({ dispatch }) => dispatch),
    );
    this.#releases.push(() => parameters.release());
    await session.memory.settle();
    const bufferOf = (bound: Bound): DeviceBuffer =>
      bound instanceof DeviceBuffer
        ? bound
        : (forms.get(bound as OperandForm) ?? scratch.buffers[this.#slots.get(bound)!]);
    return session.device.guard(
      () =>
        new Map(
          this.#all.map((draft, at) => {
            const ready = session.bind(
              draft.dispatch,
              pipelines[at],
              (binding) => bufferOf(draft.bound.get(binding)!),
              parameters.of(at),
            );
            return [draft, ready];
          }),
        ),
    );
  }

  /** Lets go of what was taken for them. */
  release(): void {
    for (const release of this.#releases.splice(0)) release();
  }
}

/** What a run does, before its dispatches are ready. */
export type DraftAction = Exclude<Action, { readonly kind: "dispatches" }> | DraftDispatch;

/** The same with the dispatches as they became, those together that follow each other; `written` are the buffers that dispatches write. */
export function readyActions(
  drafted: readonly DraftAction[],
  ready: ReadonlyMap<DraftDispatch, ReadyDispatch>,
  written: ReadonlySet<DeviceBuffer>,
): readonly Action[] {
  const actions: Action[] = [];
  let together: BoundDispatch[] | undefined;
  for (const action of drafted)
    if (action.kind !== "draft") {
      actions.push(sparing(action, written));
      together = undefined;
    } else {
      if (together === undefined) actions.push({ kind: "dispatches", all: (together = []) });
      together.push({ ...ready.get(action)!, only: action.only });
    }
  return actions;
}
