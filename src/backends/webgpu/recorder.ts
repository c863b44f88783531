/** Takes down what a kernel dispatches for one call. Buffers are found afterwards: what is still on the host is brought over then. */
import type { Operand } from "../../graph/kernel.js";
import type {
  DeviceTraits,
  Dispatch,
  Temporary,
  WebgpuRecorder,
  WeightForm,
} from "../../webgpu-kernels/webgpu-kernel.js";

class TemporaryMemory implements Temporary {
  readonly bytes: number;

  constructor(bytes: number) {
    this.bytes = bytes;
  }
}

/** True for memory that a recorder gave. */
export const isTemporary = (of: object): of is Temporary => of instanceof TemporaryMemory;

/** A form of a weight, and the dispatch that makes it. */
export class RecordedForm implements WeightForm {
  readonly of: Operand;
  readonly key: string;
  readonly bytes: number;
  readonly dispatch: Dispatch;

  constructor(of: Operand, key: string, bytes: number, make: (form: WeightForm) => Dispatch) {
    this.of = of;
    this.key = key;
    this.bytes = bytes;
    this.dispatch = make(this);
  }
}

/** The dispatches of one call. */
export class CallRecorder implements WebgpuRecorder {
  readonly device: DeviceTraits;
  readonly dispatches: Dispatch[] = [];
  readonly temporaries: Temporary[] = [];
  readonly forms: RecordedForm[] = [];

  constructor(device: DeviceTraits) {
    this.device = device;
  }

  temporary(bytes: number): Temporary {
    const memory = new TemporaryMemory(bytes);
    this.temporaries.push(memory);
    return memory;
  }

  form(of: Operand, key: string, bytes: number, make: (form: WeightForm) => Dispatch): WeightForm {
    const form = new RecordedForm(of, key, bytes, make);
    this.forms.push(form);
    return form;
  }

  dispatch(dispatch: Dispatch): void {
    if (dispatch.workgroups.every((count) => count === undefined || count > 0)) this.dispatches.push(dispatch);
  }
}
