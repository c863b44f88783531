/** External data: what may be opened, what must fit, and how often bytes are copied. */
import { execFileSync } from "node:child_process";
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Files, ReadableFile } from "../../src/base/platform.js";
import { buildModel, graph, initializer, modelFunction, node } from "../../src/onnx/build.js";
import { loadExternalData } from "../../src/onnx/external.js";
import { loadModel, openModel } from "../../src/onnx/load.js";
import type { ExternalReference, Model, ModelTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { nodePlatform } from "../../src/platform/node.js";
import { expectRejection } from "./support.js";

let root: string;
let folder: string;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "insitu-external-"));
  folder = join(root, "model");
  mkdirSync(join(folder, "sub"), { recursive: true });
  writeFileSync(join(folder, "weights.bin"), new Uint8Array(Float32Array.from({ length: 64 }, (_, i) => i).buffer));
  writeFileSync(join(folder, "sub", "weights.bin"), new Uint8Array(Float32Array.of(5, 6).buffer));
  writeFileSync(join(folder, "..data"), new Uint8Array(8));
  writeFileSync(join(root, "secret.bin"), new Uint8Array(256));
  mkdirSync(join(root, "model-evil"));
  writeFileSync(join(root, "model-evil", "secret.bin"), new Uint8Array(256));
});
afterAll(() => rmSync(root, { recursive: true }));

const far = (name: string, external: ExternalReference, dims: readonly number[] = [2]): ModelTensor => ({
  ...initializer(name, "float32", new Float32Array(0)),
  dims,
  data: undefined,
  external,
});

const modelWith = (...initializers: ModelTensor[]): Model => ({
  ...buildModel({ opset: 24, initializers }),
  path: join(folder, "model.onnx"),
});

const load = (location: string, more: Partial<ExternalReference> = {}): Promise<Model> => {
  writeFileSync(join(folder, "model.onnx"), "");
  return loadExternalData(modelWith(far("w", { location, offset: 0, ...more })), nodePlatform);
};

describe("locations", () => {
  it("are taken inside the model's folder", async () => {
    for (const location of [
      "weights.bin",
      "./weights.bin",
      "././/weights.bin",
      "sub/weights.bin",
      "sub/./weights.bin",
      "sub//weights.bin",
      "..data",
    ]) {
      expect((await load(location)).graph.initializers[0].data, location).toHaveLength(2);
    }
  });

  const refused: readonly [string, RegExp][] = [
    ["../secret.bin", /climbs/],
    ["./../secret.bin", /climbs/],
    ["sub/../../secret.bin", /climbs/],
    ["sub/../weights.bin", /climbs/],
    ["a/../../b", /climbs/],
    ["..", /climbs/],
    ["../model-evil/secret.bin", /climbs/],
    ["/etc/passwd", /is absolute/],
    ["//server/share/x", /is absolute/],
    ["..\\secret.bin", /backslash/],
    ["sub\\..\\..\\secret.bin", /backslash/],
    ["\\\\server\\share\\x", /backslash/],
    ["C:/Windows/win.ini", /drive or a scheme/],
    ["C:secret.bin", /drive or a scheme/],
    ["file:///etc/passwd", /drive or a scheme/],
    ["https://example.com/x", /drive or a scheme/],
    ["weights.bin\0.txt", /NUL/],
    ["sub", /not a regular file/],
    ["sub/", /names a folder/],
    [".", /names a folder/],
    ["sub/.", /names a folder/],
    ["missing.bin", /cannot be opened.*ENOENT/],
    ["weights.bin/x", /ENOTDIR/],
  ];
  for (const [location, message] of refused) {
    it(`refuses ${JSON.stringify(location)}`, () => expectRejection(load(location), "external-data", message));
  }

  it("refuses links that lead outside, and takes those that stay", async () => {
    symlinkSync(join(root, "secret.bin"), join(folder, "out.bin"));
    symlinkSync(root, join(folder, "up"));
    symlinkSync("../secret.bin", join(folder, "relative.bin"));
    symlinkSync(join(root, "model-evil"), join(folder, "sibling"));
    symlinkSync("/dev/zero", join(folder, "zero"));
    symlinkSync("weights.bin", join(folder, "in.bin"));
    symlinkSync("loop.bin", join(folder, "loop.bin"));
    for (const location of ["out.bin", "up/secret.bin", "relative.bin", "sibling/secret.bin", "zero"]) {
      await expectRejection(load(location), "external-data", /leads outside the model's folder/);
    }
    await expectRejection(load("loop.bin"), "external-data", /ELOOP/);
    expect((await load("in.bin")).graph.initializers[0].data).toEqual(Float32Array.of(0, 1));
  });

  it("refuses hard links and pipes without waiting", async () => {
    linkSync(join(root, "secret.bin"), join(folder, "hard.bin"));
    await expectRejection(load("hard.bin"), "external-data", /hard link/);
    execFileSync("mkfifo", [join(folder, "pipe")]);
    await expectRejection(load("pipe"), "external-data", /not a regular file/);
    await expectRejection(openModel(join(folder, "pipe"), nodePlatform), "invalid-argument", /not a regular file/);
  });

  it("follows a model that is itself a link into a store", async () => {
    const store = join(root, "store");
    mkdirSync(join(root, "snapshot"));
    mkdirSync(store);
    writeFileSync(
      join(store, "aa"),
      writeModel(buildModel({ opset: 24, initializers: [far("w", { location: "model.onnx_data", offset: 0 })] })),
    );
    writeFileSync(join(store, "bb"), new Uint8Array(Float32Array.of(7, 8).buffer));
    symlinkSync("../store/aa", join(root, "snapshot", "model.onnx"));
    symlinkSync("../store/bb", join(root, "snapshot", "model.onnx_data"));
    const model = await loadModel(join(root, "snapshot", "model.onnx"), nodePlatform);
    expect(model.graph.initializers[0].data).toEqual(Float32Array.of(7, 8));
  });
});

describe("sizes", () => {
  it("must agree with dims and file", async () => {
    await expectRejection(
      load("weights.bin", { offset: 252 }),
      "external-data",
      /tensor "w": .*"weights.bin" has 256 bytes, the tensor needs 8 from offset 252/,
    );
    await expectRejection(load("weights.bin", { offset: 2 ** 50 }), "external-data", /has 256 bytes/);
    await expectRejection(load("weights.bin", { length: 12 }), "external-data", /has length 12, float32\[2\] needs 8/);
    await expectRejection(
      loadExternalData(modelWith(far("w", { location: "weights.bin", offset: 0 }, [2 ** 40])), nodePlatform),
      "external-data",
      /has 256 bytes/,
    );
  });

  it("overlapping tensors cannot multiply a file", async () => {
    const many = Array.from({ length: 60 }, (_, i) => far(`w${i}`, { location: "weights.bin", offset: i * 4 }, [4]));
    await expect(loadExternalData(modelWith(...many), nodePlatform)).resolves.toBeDefined();
    const more = Array.from({ length: 30 }, (_, i) => far(`w${i}`, { location: "weights.bin", offset: i * 4 }, [32]));
    await expectRejection(
      loadExternalData(modelWith(...more), nodePlatform),
      "external-data",
      /overlapping tensors ask for 3840/,
    );
  });

  it("by whatever names they reach it", async () => {
    symlinkSync("weights.bin", join(folder, "again.bin"));
    symlinkSync(folder, join(folder, "sub", "here"));
    const spellings = [
      "weights.bin",
      "./weights.bin",
      ".//weights.bin",
      "././weights.bin",
      "again.bin",
      "./again.bin",
      "sub/here/weights.bin",
      "sub//here/./weights.bin",
      "sub/here/again.bin",
      "sub/here/sub/here/weights.bin",
    ];
    const whole = (names: readonly string[], length = 64): ModelTensor[] =>
      names.map((location, i) => far(`w${i}`, { location, offset: 4 * (64 - length) * (i % 2) }, [length]));
    // The whole file under names that are spelt apart is read once: they are one file.
    const loaded = await loadExternalData(modelWith(...whole(spellings.slice(0, 4))), nodePlatform);
    expect(new Set(loaded.graph.initializers.map(({ data }) => data)).size).toBe(1);
    // Under names that only the file system knows to be one, each counts: five times is too much.
    const links = ["weights.bin", "again.bin", "sub/here/weights.bin", "sub/here/again.bin"];
    await expect(loadExternalData(modelWith(...whole(links)), nodePlatform)).resolves.toBeDefined();
    await expectRejection(
      loadExternalData(modelWith(...whole([...links, "sub/here/sub/here/weights.bin"])), nodePlatform),
      "external-data",
      /has 256 bytes, overlapping tensors ask for 1280/,
    );
    // However many names there are, and however each spells its part.
    const many = Array.from({ length: 40 }, (_, depth) => `${"sub/here/".repeat(depth % 20)}weights.bin`);
    await expectRejection(
      loadExternalData(modelWith(...whole(many, 60)), nodePlatform),
      "external-data",
      /has 256 bytes, overlapping tensors ask for/,
    );
    // Parts that do not overlap are what files are for.
    const parts = links.map((location, i) => far(`w${i}`, { location, offset: 64 * i }, [16]));
    const apart = await loadExternalData(modelWith(...parts), nodePlatform);
    expect(apart.graph.initializers.map(({ data }) => data?.[0])).toEqual([0, 16, 32, 48]);
  });

  it("nor one memory that the caller gives under many names", async () => {
    const bytes = new Uint8Array(256);
    const names = Array.from({ length: 12 }, (_, i) => `file${i}`);
    const tensors = names.map((location, i) => far(`w${i}`, { location, offset: 0 }, [64]));
    const externalData = names.map((path) => ({ path, data: bytes }));
    const copied = (sizes: readonly number[]): Uint8Array[] => sizes.map((size) => new Uint8Array(size));
    await expectRejection(
      loadExternalData(modelWith(...tensors), undefined, { externalData }, copied),
      "external-data",
      /has 256 bytes, overlapping tensors ask for 1280/,
    );
    const apart = names.map((path) => ({ path, data: new Uint8Array(256) }));
    await expect(
      loadExternalData(modelWith(...tensors), undefined, { externalData: apart }, copied),
    ).resolves.toBeDefined();
  });
});

/** A platform over memory that counts. */
function memoryPlatform(
  files: Readonly<Record<string, Uint8Array>>,
): Files & { opened: string[]; closed: number; most: number } {
  const open = async (path: string): Promise<ReadableFile> => {
    platform.opened.push(path);
    const bytes = files[path];
    if (bytes === undefined) throw new Error("no such file");
    return {
      size: bytes.length,
      async read(offset, target) {
        platform.most = Math.max(platform.most, target.length);
        target.set(bytes.subarray(offset, offset + target.length));
      },
      async close() {
        platform.closed++;
      },
    };
  };
  const platform = {
    opened: [] as string[],
    closed: 0,
    most: 0,
    open,
    openBeside: (_: string, location: string) => open(location),
  };
  return platform;
}

describe("loading", () => {
  it("finds tensors everywhere, and opens each file once", async () => {
    const bytes = new Uint8Array(Float32Array.from({ length: 16 }, (_, i) => i).buffer);
    const platform = memoryPlatform({ a: bytes, b: bytes });
    const at = (name: string, location: string, index: number) => far(name, { location, offset: index * 8 });
    const body = graph({ initializers: [at("inner", "./a", 1)] });
    const model: Model = {
      ...buildModel({
        opset: 24,
        initializers: [at("w", "a", 3), at("v", "b", 0)],
        nodes: [
          node("Constant", [], ["c"], { value: at("", "a", 2) }),
          node("If", ["x"], ["y"], { then_branch: body }),
        ],
        functions: [
          modelFunction({
            name: "F",
            domain: "d",
            opset: 24,
            nodes: [node("Constant", [], ["c"], { value: at("", "b", 1) })],
          }),
        ],
      }),
      path: "model.onnx",
    };
    const reports: number[][] = [];
    const loaded = await loadExternalData(model, platform, {
      onProgress: (done, total) => reports.push([done, total]),
    });
    expect(platform).toMatchObject({ opened: ["a", "b"], closed: 2 });
    expect(loaded.graph.initializers.map(({ data }) => data)).toEqual([Float32Array.of(6, 7), Float32Array.of(0, 1)]);
    expect(loaded.graph.nodes[0].attributes.get("value")).toMatchObject({ value: { data: Float32Array.of(4, 5) } });
    expect(loaded.graph.nodes[1].attributes.get("then_branch")).toMatchObject({
      value: { initializers: [{ data: Float32Array.of(2, 3) }] },
    });
    expect(loaded.functions[0].nodes[0].attributes.get("value")).toMatchObject({
      value: { data: Float32Array.of(2, 3) },
    });
    expect(reports.at(-1)).toEqual([40, 40]);
    expect(await loadExternalData(loaded, undefined)).toBe(loaded);
  });

  it("shares one array between tensors of one range", async () => {
    const loaded = await load("weights.bin").then(() =>
      loadExternalData(
        modelWith(far("a", { location: "weights.bin", offset: 8 }), far("b", { location: "weights.bin", offset: 8 })),
        nodePlatform,
      ),
    );
    expect(loaded.graph.initializers[0].data).toBe(loaded.graph.initializers[1].data);
  });

  it("takes the caller's bytes without a copy where they are aligned", async () => {
    const given = new Uint8Array(24);
    const model = modelWith(far("a", { location: "x/y.bin", offset: 8 }), far("b", { location: "x/y.bin", offset: 1 }));
    const loaded = await loadExternalData(model, undefined, { externalData: [{ path: "x/y.bin", data: given }] });
    expect((loaded.graph.initializers[0].data as Float32Array).buffer).toBe(given.buffer);
    expect((loaded.graph.initializers[1].data as Float32Array).buffer).not.toBe(given.buffer);
    const again = await loadExternalData(model, undefined, {
      externalData: [{ path: "./x/y.bin", data: given.buffer }],
    });
    expect((again.graph.initializers[0].data as Float32Array).buffer).toBe(given.buffer);
    const url = pathToFileURL(join(root, "secret.bin")).href;
    const named = await loadExternalData(model, nodePlatform, { externalData: [{ path: "x/y.bin", data: url }] });
    expect(named.graph.initializers[0].data).toEqual(Float32Array.of(0, 0));
    await expectRejection(
      loadExternalData(model, undefined, { externalData: [{ path: "x/y.bin", data: new Uint8Array(4) }] }),
      "external-data",
      /has 4 bytes/,
    );
    await expectRejection(loadExternalData(model, undefined), "external-data", /pass it in externalData/);
    await expectRejection(
      loadExternalData({ ...model, path: undefined }, nodePlatform),
      "external-data",
      /path is not known/,
    );
  });

  it("reads large tensors in pieces", async () => {
    const bytes = new Uint8Array(2 ** 26 + 40);
    bytes[bytes.length - 1] = 64;
    const platform = memoryPlatform({ big: bytes });
    const model = modelWith(far("w", { location: "big", offset: 0 }, [bytes.length / 4]));
    const loaded = await loadExternalData(model, platform);
    expect(platform.most).toBe(2 ** 26);
    expect((loaded.graph.initializers[0].data as Float32Array).at(-1)).toBe(2);
  });

  it("loads a model by path and by file: URL", async () => {
    const path = join(folder, "real.onnx");
    writeFileSync(
      path,
      writeModel(buildModel({ opset: 24, initializers: [far("w", { location: "sub/weights.bin", offset: 0 })] })),
    );
    for (const name of [path, pathToFileURL(path).href]) {
      const model = await loadModel(name, nodePlatform);
      expect(model.graph.initializers[0].data).toEqual(Float32Array.of(5, 6));
      expect(model.path).toBe(name);
    }
    await expectRejection(
      loadModel(join(folder, "none.onnx"), nodePlatform),
      "invalid-argument",
      /none\.onnx cannot be opened: there is no such file/,
    );
    await expectRejection(
      loadModel(folder, nodePlatform),
      "invalid-argument",
      /it is a folder: give the ONNX file in it/,
    );
  });
});
