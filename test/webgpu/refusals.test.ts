// What goes wrong on a GPU, each told with the thing, the reason and the way out: shaders that do not compile, work that is refused, a device that
// is lost in the middle of a text, indices that only the device knows. Caches are as before, or the state says that it is lost.
import { describe, expect, test, vi } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { Session } from "../../src/session/session.js";
import type { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { adapterOf, deviceOf, PlacedSession, proxied } from "../support/gpu.js";

/** Rows that are appended to a cache, and the sum of all it holds. */
const appending = writeModel(
  buildModel({
    opset: 24,
    inputs: [
      value("past", "float32", [2, 1, 6, 2]),
      value("rows", "float32", [2, 1, 1, 2]),
      value("at", "float32", [2]),
    ],
    outputs: [value("present", "float32", [2, 1, 6, 2]), value("sum", "float32")],
    nodes: [
      node("Mul", ["at", "two"], ["doubled"]),
      node("Cast", ["doubled"], ["indices"], { to: 7 }),
      node("TensorScatter", ["past", "rows", "indices"], ["present"], { axis: 2 }, { name: "append" }),
      node("ReduceSum", ["present"], ["sum"], { keepdims: 0 }),
    ],
    initializers: [initializer("two", "float32", [2], [1])],
  }),
);
const pairs = { past: "present" };
const feeds = (...at: readonly number[]): Record<string, Tensor> => ({
  rows: new Tensor("float32", [1, 2, 3, 4], [2, 1, 1, 2]),
  at: new Tensor("float32", at, [2]),
});
const append = (session: Session, state: State, ...at: readonly number[]): Promise<Record<string, Tensor>> =>
  session.run(feeds(...at), { state });
const matching = (text: RegExp): string => expect.stringMatching(text) as string;

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  test("an adapter or device that is refused is told with the reason and the way out, and auto takes the next", async () => {
    const refuse = async (): Promise<never> => {
      throw new Error("the driver is blocked (in a test)");
    };
    const noDevice = adapterOf((adapter) => proxied(adapter, { requestDevice: refuse }));
    const noAdapter = async (): Promise<GPU> => ({ requestAdapter: refuse }) as object as GPU;
    for (const [gpu, what] of [
      [noDevice, "device"],
      [noAdapter, "adapter"],
    ] as const) {
      const platform = PlacedSession.place(gpu);
      await expect(PlacedSession.on(platform, appending)).rejects.toMatchObject({
        code: "invalid-argument",
        message: `WebGPU gives no ${what} here: the driver is blocked (in a test); ask for another backend`,
      });
      const session = await PlacedSession.on(platform, appending, { backend: "auto" });
      expect(session.backend).toBe("wasm");
      await session.release();
    }
  });

  test("a shader that does not compile is told by name and line, before anything is written", async () => {
    let broken = true;
    const gpu = deviceOf((device) =>
      proxied(device, {
        createShaderModule: ({ label, code }: GPUShaderModuleDescriptor) =>
          device.createShaderModule({
            ...(label === undefined ? {} : { label }),
            code: broken && /reduce/.test(label ?? "") ? `${code}\nfn wrong() -> u32 { return 1.5; }` : code,
          }),
      }),
    );
    const platform = PlacedSession.place(gpu);
    const session = await PlacedSession.on(platform, appending, { inPlace: "require" });
    const state = session.createState({ pairs });
    const before = await state.save();
    await expect(append(session, state, 0, 1)).rejects.toMatchObject({
      code: "internal",
      message: matching(
        /shader reduce\w+ does not compile on .*: line \d+: .*; webgpu: \{ subgroups: false, f16: false \}/,
      ),
    });
    expect(await state.save()).toEqual(before);
    await session.release();
    broken = false;
    // The next session on the device asks for it again.
    const other = await PlacedSession.on(platform, appending);
    const fresh = other.createState({ pairs });
    expect((await append(other, fresh, 0, 1)).sum.data).toEqual(Float32Array.of(10));
    await other.release();
  });

  test("what WebGPU refuses behind one's back is no result, and what is asked afterwards says so", async () => {
    let refuses = false;
    const gpu = deviceOf((device) =>
      proxied(device, {
        createCommandEncoder: () => {
          const encoder = device.createCommandEncoder();
          if (refuses) encoder.clearBuffer(device.createBuffer({ size: 16, usage: 1 }));
          return encoder;
        },
      }),
    );
    const platform = PlacedSession.place(gpu);
    const [session, neighbour] = [
      await PlacedSession.on(platform, appending, { inPlace: "require" }),
      await PlacedSession.on(platform, appending, { inPlace: "require" }),
    ];
    const [state, other] = [session.createState({ pairs }), neighbour.createState({ pairs })];
    await append(session, state, 0, 1);
    await append(neighbour, other, 0, 1);
    refuses = true;
    await expect(append(session, state, 1, 1)).rejects.toMatchObject({
      code: matching(/^(internal|state-lost)$/),
      message: matching(
        /the GPU .* refused what it was given, and what lies there cannot be vouched for: .*; create a new session/s,
      ),
    });
    refuses = false;
    await expect(append(session, state, 1, 1)).rejects.toThrow(/lost|vouched/);
    expect(() => session.createState({ pairs })).toThrow(/cannot be vouched for/);
    await session.release();
    // Another session on the device has not been refused anything.
    await append(neighbour, other, 1, 1);
    await neighbour.release();
  });

  test("a lost device: the state, its reads and new ones say so", async () => {
    let device: GPUDevice | undefined;
    const gpu = deviceOf((own) => {
      device = own;
      // What is destroyed from outside is lost to everybody.
      const lost = own.lost.then(({ message }) => ({ reason: "unknown", message: `${message} (in a test)` }));
      return proxied(own, { lost });
    });
    const session = await PlacedSession.on(PlacedSession.place(gpu), appending, { inPlace: "require" });
    const state = session.createState({ pairs });
    await append(session, state, 0, 1);
    const running = append(session, state, 1, 1);
    device!.destroy();
    await expect(running).rejects.toMatchObject({
      code: matching(/^(device|state)-lost$/),
      message: matching(/the GPU .* was lost, and all that lay on it: .*in a test.*; create a new session/s),
    });
    await expect(state.save()).rejects.toThrow(/lost/);
    await expect(state.get(state.names[0]).getData()).rejects.toThrow(/lost/);
    expect(() => session.createState({ pairs })).toThrow(/lost/);
    await session.release();
  });

  test.each(["given up", "lost"] as const)(
    "a device that was %s is taken by no other session, and ends with its last",
    async (how) => {
      const devices: GPUDevice[] = [];
      const destroyed: GPUDevice[] = [];
      let lose = (): void => undefined;
      const gpu = deviceOf((own) => {
        devices.push(own);
        const lost = new Promise<object>((done) => (lose = () => done({ reason: "unknown", message: "in a test" })));
        return proxied(own, { lost, destroy: () => void destroyed.push(own) });
      });
      const platform = PlacedSession.place(gpu);
      const session = await PlacedSession.on(platform, appending, { inPlace: "require" });
      // What WebGPU refuses where no session was listening, or a device that goes away.
      if (how === "lost") lose();
      else devices[0].createBuffer({ size: 16, usage: 1 | 128 });
      const asked = async (): Promise<unknown> => append(session, session.createState({ pairs }), 0, 1);
      await expect.poll(() => asked().then(String, String)).toMatch(/lost|vouched/);
      const next = await PlacedSession.on(platform, appending, { inPlace: "require" });
      expect((await append(next, next.createState({ pairs }), 0, 1)).sum.data).toEqual(Float32Array.of(10));
      expect(devices).toHaveLength(2);
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
      try {
        await Promise.all([session.release(), next.release()]);
        vi.runAllTimers();
      } finally {
        vi.useRealTimers();
      }
      // One that went away has nothing to give back.
      expect(destroyed).toEqual(how === "lost" ? [devices[1]] : devices);
    },
  );

  test("write indices that only the device knows are checked before anything is written", async () => {
    const session = await InferenceSession.create(appending, { backend: "webgpu", inPlace: "require" });
    const state = session.createState({ pairs });
    await append(session, state, 0, 2.5);
    const before = await state.get("past").getData();
    for (const at of [
      [0, 3],
      [-0.5, 1],
      [1, 1e6],
    ])
      await expect(append(session, state, ...at)).rejects.toThrow(/append.*(6|capacity|negative|-1)/);
    expect(await state.get("past").getData()).toEqual(before);
    const { sum } = await append(session, state, 1, 1);
    expect(sum.data).toEqual(Float32Array.of(20));
    await session.release();
  });
});
