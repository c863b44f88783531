/** Takes down what a kernel dispatches for one call. Buffers are found afterwards: what is still on the host is brought over then. */
import type { DeviceTraits, Dispatch, Temporary, WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";

class TemporaryMemory implements Temporary {
  readonly bytes: number;

  constructor(bytes: number) {
    this.bytes = bytes;
  }
}

/** True for memory that a recorder gave. */
export const isTemporary = (of: object): of is Temporary => of instanceof TemporaryMemory;

/** The dispatches of one call. */
export class CallRecorder implements WebgpuRecorder {
  readonly device: DeviceTraits;
  readonly dispatches: Dispatch[] = [];
  readonly temporaries: Temporary[] = [];

  constructor(device: DeviceTraits) {
    this.device = device;
  }

  temporary(bytes: number): Temporary {
    const memory = new TemporaryMemory(bytes);
    this.temporaries.push(memory);
    return memory;
  }

  dispatch(dispatch: Dispatch): void {
    if (dispatch.workgroups.every((count) => count === undefined || count > 0)) this.dispatches.push(dispatch);
  }
}
