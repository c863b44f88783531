// A device with an H200's limits that computes nothing (Dawn's null backend), where there is no GPU: what the host does can be counted and timed on it.
import { create, globals } from "webgpu";
import { nodePlatform } from "../../../dist/platform/node.js";

/** An object of the platform's with some members in the place of its own. */
const changed = (of, members) =>
  new Proxy(of, {
    get(target, name) {
      if (name in members) return members[name];
      const member = Reflect.get(target, name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });

/** A shader that binds what it bound and does nothing: the null backend has no more than 16 KiB of workgroup memory. */
function emptied(code) {
  const start = code.indexOf("{", code.indexOf(") ", code.search(/fn main\(/)));
  let [depth, end] = [0, start];
  do depth += { "{": 1, "}": -1 }[code[end++]] ?? 0;
  while (depth > 0);
  const names = [...code.matchAll(/@binding\(\d+\) var(?:<[^>]*>)? (\w+)/g)].map(([, name]) => `_ = &${name};`);
  return `${code.slice(0, start)}{ ${names.join(" ")} }${code.slice(end)}`;
}

/** Has Node's platform find such a device, with so many bytes of workgroup memory. Tokens that come from it are all 0. */
export async function imagineDevice(memory = 49_152) {
  Object.assign(globalThis, globals);
  // What it brings back is whatever lay there: tokens are 0 instead.
  const { getMappedRange } = globals.GPUBuffer.prototype;
  globals.GPUBuffer.prototype.getMappedRange = function (...given) {
    const range = getMappedRange.apply(this, given);
    if (this.usage & 1) new Uint8Array(range).fill(0);
    return range;
  };
  const gpu = create(["backend=null", "enable-dawn-features=allow_unsafe_apis"]);
  nodePlatform.gpu = async () => ({
    requestAdapter: async () => {
      const adapter = await gpu.requestAdapter();
      const { vendor, architecture, description } = adapter.info;
      const matrix = { componentType: "f16", resultComponentType: "f32", M: 16, N: 16, K: 16 };
      const sizes = { subgroupMinSize: 32, subgroupMaxSize: 32, isFallbackAdapter: false };
      const info = { vendor, architecture, description, ...sizes, subgroupMatrixConfigs: [matrix] };
      return changed(adapter, {
        info,
        limits: changed(adapter.limits, { maxComputeWorkgroupStorageSize: memory, maxStorageBuffersPerShaderStage: 8 }),
        requestDevice: async (descriptor) => {
          const device = await adapter.requestDevice({ ...descriptor, requiredLimits: {} });
          return changed(device, {
            limits: changed(device.limits, { maxComputeWorkgroupStorageSize: memory }),
            createShaderModule: (given) => device.createShaderModule({ ...given, code: emptied(given.code) }),
          });
        },
      });
    },
  });
}
