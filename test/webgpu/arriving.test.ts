// Weights that are read into memory which a device has mapped: of any length, in pieces of it that are used again, and where something fails on the way.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Platform, ReadableFile } from "../../src/base/platform.js";
import { backends } from "../../src/entry/backends.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import { Session } from "../../src/session/session.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { noWebgpu } from "../support/backends.js";
import { deviceOf, proxied, scopesOf } from "../support/gpu.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-arriving-"));
const path = join(folder, "model.onnx");
afterAll(() => rmSync(folder, { recursive: true }));

const mapWrite = 2;

/** Tables whose bytes are no whole words, one larger than all pieces together, and one without rows; each is looked up. */
function writeTables(): void {
  const tables = [
    { name: "large", type: "float32", shape: [1501, 4099] },
    { name: "bytes", type: "uint8", shape: [18001, 3] },
    { name: "halves", type: "float16", shape: [16067, 3] },
    { name: "shorts", type: "int16", shape: [10213, 5] },
    { name: "empty", type: "float32", shape: [0, 4] },
  ] as const;
  const bytes = { float32: Float32Array, uint8: Uint8Array, float16: Uint16Array, int16: Int16Array };
  const model = buildModel({
    opset: { "": 21 },
    inputs: [value("at", "int64", [3]), value("none", "int64", [0])],
    outputs: tables.map(({ name }) => value(`${name}_rows`)),
    initializers: tables.map(({ name, type, shape }) => {
      const data = new bytes[type](shape[0] * shape[1]);
      for (let at = 0; at < data.length; at++) data[at] = (7 * at + (at >> 9)) % (type === "float16" ? 0x7bff : 251);
      return initializer(name, type, data, [...shape]);
    }),
    nodes: tables.map(({ name, shape }) => node("Gather", [name, shape[0] === 0 ? "none" : "at"], [`${name}_rows`])),
  });
  const { model: moved, pieces } = moveToExternalData(model, { location: "weights.bin", threshold: 0 });
  writeFileSync(join(folder, "weights.bin"), Buffer.concat(pieces));
  writeFileSync(path, writeModel(moved));
}

class Opened extends Session {
  static async on(platform: Platform, backend: "webgpu" | "reference" = "webgpu"): Promise<Opened> {
    return new Opened(await Session.prepare(path, platform, backends, { backend }));
  }

  async rows(): Promise<unknown> {
    const results = await this.run({
      at: new Tensor("int64", BigInt64Array.of(0n, 1020n, 511n), [3]),
      none: new Tensor("int64", new BigInt64Array(0), [0]),
    });
    return Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, [...(data as Float32Array)]]));
  }
}

let openFiles = 0;
afterEach(() => expect.poll(() => openFiles).toBe(0));

/** The machine's platform whose reads of weights are seen first, and whose GPU is changed. */
function place(
  changed: (device: GPUDevice) => GPUDevice,
  seen: (offset: number, target: Uint8Array) => Promise<void> = async () => undefined,
  inTurn: (read: () => Promise<void>) => Promise<void> = (read) => read(),
): Platform {
  const watched = async (opening: Promise<ReadableFile>): Promise<ReadableFile> => {
    const file = await opening;
    openFiles++;
    const read = async (offset: number, target: Uint8Array): Promise<void> => {
      await seen(offset, target);
      await inTurn(() => file.read(offset, target));
    };
    const close = (): Promise<void> => {
      openFiles--;
      return file.close();
    };
    const { size, identity, version } = file;
    return { size, identity, version, isNear: true, read, close };
  };
  return {
    ...nodePlatform,
    gpu: deviceOf(changed),
    open: (...where) => watched(nodePlatform.open(...where)),
    openBeside: (...where) => watched(nodePlatform.openBeside(...where)),
  };
}

/** A device whose buffers that the host writes are made by `make`. */
const withPieces =
  (make: (descriptor: GPUBufferDescriptor, device: GPUDevice) => GPUBuffer) =>
  (device: GPUDevice): GPUDevice =>
    proxied(device, {
      createBuffer: (descriptor: GPUBufferDescriptor) =>
        (descriptor.usage & mapWrite) === 0 ? device.createBuffer(descriptor) : make(descriptor, device),
    });

describe.skipIf(noWebgpu !== undefined)("weights on their way to a GPU", () => {
  let wanted: unknown;
  beforeAll(async () => {
    writeTables();
    const session = await Opened.on(nodePlatform, "reference");
    wanted = await session.rows();
    await session.release();
  });

  test("bytes that are no whole words, tables without rows, and two sessions at once", async () => {
    const on = place((device) => device);
    const [first, second] = await Promise.all([Opened.on(on), Opened.on(on)]);
    expect(await first.rows()).toEqual(wanted);
    await first.release();
    expect(await second.rows()).toEqual(wanted);
    await second.release();
  });

  test("memory that the host cannot have is told as such", async () => {
    const refused = place(
      withPieces(() => {
        throw new RangeError("createBuffer failed, size is too large");
      }),
    );
    await expect(Opened.on(refused)).rejects.toMatchObject({ code: "out-of-memory" });
  });

  test("memory that the device does not have is told as such", async () => {
    const refused = place((device) => {
      let failed = false;
      return proxied(
        withPieces((descriptor) => {
          failed = true;
          const buffer = device.createBuffer({ ...descriptor, size: 2 ** 22 });
          buffer.mapAsync = () => Promise.reject(new DOMException("the buffer is none", "OperationError"));
          return buffer;
        })(device),
        scopesOf(device, () => failed && !(failed = false)),
      );
    });
    await expect(Opened.on(refused)).rejects.toMatchObject({ code: "out-of-memory" });
  });

  test("memory that is not mapped again ends the load", async () => {
    const unmapped = (error: Error): Platform =>
      place(
        withPieces((descriptor, device) => {
          const buffer = device.createBuffer(descriptor);
          const range = buffer.getMappedRange.bind(buffer);
          let isFirst = true;
          buffer.getMappedRange = (...args) => {
            if (!isFirst) throw error;
            isFirst = false;
            return range(...args);
          };
          return buffer;
        }),
      );
    const none = new RangeError("no address space is left");
    await expect(Opened.on(unmapped(none))).rejects.toMatchObject({ code: "out-of-memory", cause: none });
    await expect(Opened.on(unmapped(new TypeError("it is detached")))).rejects.toThrow("it is detached");
  });

  test("a read that fails in the middle is told, and the next load is whole", async () => {
    let reads = 0;
    const on = place(
      (device) => device,
      async (_, target) => {
        if (target.length > 2 ** 20 && ++reads === 3) throw new Error("the disk is wet");
      },
    );
    await expect(Opened.on(on)).rejects.toThrow("the disk is wet");
    const session = await Opened.on(on);
    expect(await session.rows()).toEqual(wanted);
    await session.release();
  });

  test("a device that is lost while weights come is told as lost", async () => {
    let lose: () => void = () => undefined;
    let reads = 0;
    let last: Promise<void> = Promise.resolve();
    const on = place(
      (device) => {
        lose = () => device.destroy();
        return proxied(device, { lost: device.lost.then(({ message }) => ({ reason: "unknown", message })) });
      },
      undefined,
      // One after the other: what is lost is read into by nobody.
      (read) =>
        (last = last.then(async () => {
          await read();
          if (++reads === 5) lose();
        })),
    );
    await expect(Opened.on(on)).rejects.toMatchObject({ code: "device-lost" });
    expect(reads).toBeGreaterThanOrEqual(5);
  });
});
