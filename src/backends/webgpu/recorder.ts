/** Takes down what a kernel dispatches for one call. Buffers are found afterwards: what is still on the host is brought over then. */
import { InsituError } from "../../base/error.js";
import type { Operand } from "../../graph/kernel.js";
import { byteLengthOf, type ElementType } from "../../tensor/element-type.js";
import { elementCount, Placed } from "../../tensor/placed.js";
import type { View } from "../../tensor/view.js";
import { piecesFor } from "../../webgpu-kernels/shader-part.js";
import type {
  DeviceTraits,
  Dispatch,
  Pieces,
  Temporary,
  WebgpuRecorder,
  OperandForm,
} from "../../webgpu-kernels/webgpu-kernel.js";

class TemporaryMemory implements Temporary {
  readonly bytes: number;

  constructor(bytes: number) {
    this.bytes = bytes;
  }
}

/** Temporary memory with the type and shape of what lies in it. */
class TemporaryOperand extends TemporaryMemory implements Operand {
  readonly type: ElementType;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly contiguous = true;
  readonly constant = false;
  readonly known = false;
  readonly place: Placed;

  constructor(type: ElementType, shape: readonly number[]) {
    super(byteLengthOf(type, elementCount(shape)));
    this.type = type;
    this.shape = shape;
    // Which buffer it will be is not known yet: the place tells shape and strides alone.
    this.place = new Placed(type, shape, this);
    this.strides = this.place.strides;
  }

  get view(): View {
    throw new InsituError("internal", "scratch memory has no bytes on the host");
  }
}

/** True for memory that a recorder gave. */
export const isTemporary = (of: object): of is Temporary => of instanceof TemporaryMemory;

/** A form of operands, and the dispatch that makes it. */
export class RecordedForm implements OperandForm {
  readonly of: readonly Operand[];
  readonly key: string;
  readonly bytes: number;
  readonly dispatch: Dispatch;
  /** At which byte each operand's begin, where the form is nothing else. */
  readonly laidAt: readonly number[] | undefined;
  /** How it lies, for kernels. */
  readonly inPieces: Pieces | undefined;

  constructor(
    of: readonly Operand[],
    key: string,
    bytes: number,
    make: (form: OperandForm) => Dispatch,
    laidAt: readonly number[] | undefined,
    mostBytes: number,
  ) {
    this.of = of;
    this.inPieces = this.lasts ? piecesFor(bytes, mostBytes) : undefined;
    this.laidAt = laidAt;
    this.key = key;
    this.bytes = bytes;
    this.dispatch = make(this);
  }

  /** True if it holds for as long as the session: else it is made anew in each run. */
  get lasts(): boolean {
    return this.of.every(({ constant }) => constant);
  }
}

/** The dispatches of one call. */
export class CallRecorder implements WebgpuRecorder {
  readonly device: DeviceTraits;
  readonly dispatches: Dispatch[] = [];
  readonly temporaries: Temporary[] = [];
  readonly forms: RecordedForm[] = [];
  readonly #onHost: ReadonlySet<Placed>;

  /** `onHost`: places of operands that the host knows of before each run. */
  constructor(device: DeviceTraits, onHost: ReadonlySet<Placed>) {
    this.device = device;
    this.#onHost = onHost;
  }

  isOnHost({ place }: Operand): boolean {
    return this.#onHost.has(place);
  }

  temporary(bytes: number): Temporary {
    const memory = new TemporaryMemory(bytes);
    this.temporaries.push(memory);
    return memory;
  }

  between(type: ElementType, shape: readonly number[]): Operand & Temporary {
    const memory = new TemporaryOperand(type, shape);
    this.temporaries.push(memory);
    return memory;
  }

  form(
    of: readonly Operand[],
    key: string,
    bytes: number,
    make: (form: OperandForm) => Dispatch,
    laidAt?: readonly number[],
  ): OperandForm {
    if (!of.every(({ constant }) => constant) && !of.every((operand) => this.isOnHost(operand)))
      throw new InsituError("internal", `"${key}" was asked for of what neither stays nor is known before a run`);
    const form = new RecordedForm(of, key, bytes, make, laidAt, this.device.mostBindingBytes);
    this.forms.push(form);
    return form;
  }

  dispatch(dispatch: Dispatch): void {
    if (dispatch.workgroups.every((count) => count === undefined || count > 0)) this.dispatches.push(dispatch);
  }
}
