// The backends that suites run on: a new one is one line here, with its list of exceptions.
import { nodePlatform } from "../../src/platform/node.js";
import type { SessionOptions } from "../../src/session/options.js";
import { soak } from "./soak.js";
import { noteMissing } from "./missing.js";

/** What a backend does not do as the others, and why. One that starts passing fails the suite. */
export interface Exception {
  /** The name of the case, or its beginning. */
  readonly case: string;
  readonly reason: string;
  /** True where it is the device's own matter whether it holds. */
  readonly sometimes?: true;
}

export interface TestedBackend {
  readonly name: "reference" | "wasm" | "webgpu";
  readonly options: SessionOptions;
  /** How far results may be from the exact ones where a case asks for them to the bit: devices divide and take roots as they like. */
  readonly tolerance?: number;
  readonly exceptions: readonly Exception[];
  /** Suites run one case of so many where it is there, since all of them take long. */
  readonly every?: number;
}

/** What the kernels on WebGPU do otherwise. */
const webgpuExceptions: readonly Exception[] = [
  ...["float16", "bfloat16"].map((type) => ({
    case: `RotaryEmbedding-23: ${type}: products are rounded before they are added`,
    reason: "the kernel rounds once, after the sum: nearer to the exact result than the function body",
  })),
  {
    case: "Scatter-10: the old name",
    reason: "two updates of one element: ONNX leaves open which of them stays, and devices differ",
    sometimes: true,
  },
];

/** Why there is no GPU to test on; undefined where there is one. Set INSITU_NO_WEBGPU to do without. */
export const noWebgpu: string | undefined = await whyNoWebgpu();
if (noWebgpu !== undefined) noteMissing("GPU", noWebgpu);

async function whyNoWebgpu(): Promise<string | undefined> {
  if (process.env["INSITU_NO_WEBGPU"] !== undefined) return "INSITU_NO_WEBGPU is set";
  const gpu = await nodePlatform.gpu!();
  if (typeof gpu === "string") return gpu;
  const adapter = await (gpu as GPU).requestAdapter();
  return adapter === null ? "no adapter: apt-get install chromium libvulkan1 brings SwiftShader" : undefined;
}

/** Every backend, the reference implementation first: cases.test.ts has all cases of its operators, alone. */
export const backends: readonly TestedBackend[] = [
  { name: "reference", options: { backend: "reference" }, exceptions: [], ...(soak ? {} : { every: 3 }) },
  {
    name: "wasm",
    options: { backend: "wasm", threads: 1 },
    exceptions: ["float16", "bfloat16"].map((type) => ({
      case: `RotaryEmbedding-23: ${type}: products are rounded before they are added`,
      reason: "the kernel rounds once, after the sum: nearer to the exact result than the function body",
    })),
  },
  ...(noWebgpu === undefined
    ? [
        {
          name: "webgpu" as const,
          options: { backend: "webgpu" as const },
          tolerance: 1e-5,
          exceptions: webgpuExceptions,
          ...(soak ? {} : { every: 10 }),
        },
      ]
    : []),
];
