// Sessions on a GPU that tests look into: what is made on the device, and what becomes of it when the device goes away.
import { withDrawnTokens } from "../../src/decoder/model-changes.js";
import { backends } from "../../src/entry/backends.js";
import { nodePlatform } from "../../src/platform/node.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Session } from "../../src/session/session.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";

/** An object of the platform's with some members in the place of its own. */
function proxied<T extends object>(of: T, members: object): T {
  return new Proxy(of, {
    get(target, name) {
      if (name in members) return (members as Record<string | symbol, unknown>)[name];
      const member: unknown = Reflect.get(target, name);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
}

/** What a device makes that is counted. */
type Made = "createBuffer" | "createBindGroup" | "createShaderModule" | "createCommandEncoder";

/** A session whose device can be lost, and which counts what is made on it. */
export class WatchedSession extends Session {
  made: readonly string[] = [];
  lose: () => void = () => {};

  static async open(
    model: Uint8Array,
    options: SessionOptions = {},
    counts: readonly Made[] = ["createBuffer", "createBindGroup", "createShaderModule"],
  ): Promise<WatchedSession> {
    const made: string[] = [];
    let device: GPUDevice | undefined;
    const gpu = async (): Promise<GPU> => {
      const real = (await nodePlatform.gpu!()) as GPU;
      const adapter = (await real.requestAdapter())!;
      const requestDevice = async (descriptor?: GPUDeviceDescriptor): Promise<GPUDevice> => {
        device = await adapter.requestDevice(descriptor);
        const counted = Object.fromEntries(
          counts.map((name) => [
            name,
            (given: object) => {
              made.push(name);
              return (device![name] as (given: object) => unknown).call(device, given);
            },
          ]),
        );
        const lost = device.lost.then(({ message }) => ({ reason: "unknown", message: `${message} (in a test)` }));
        return proxied(device, { ...counted, lost });
      };
      return { requestAdapter: async () => proxied(adapter, { requestDevice }) } as GPU;
    };
    const platform = { ...nodePlatform, gpu };
    const session = new WatchedSession(
      await Session.prepare(model, platform, backends, { backend: "webgpu", change: withDrawnTokens(), ...options }),
    );
    session.made = made;
    session.lose = () => device!.destroy();
    return session;
  }
}

/** Rows that nothing was written to hold NaN: whoever reads one shows it. */
export function poison(state: State): void {
  for (const name of state.names) {
    const { size, dims: shape } = state.get(name);
    state.set(name, new Tensor("float32", new Float32Array(size).fill(NaN), shape));
  }
  // As if nothing had been written to them.
  state.rewind(0);
}
