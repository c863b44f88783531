// Subgroups of a size where the device's are smaller: shaders that enable them exchange through workgroup memory instead. So kernels compute as they do on a GPU with such subgroups;
// that they also wait as a workgroup, which subgroups do not, hides what is missing of it.
import { adapterOf, infoOf, proxied } from "./gpu.js";

/** Bytes that shaders are to leave for what is exchanged. */
const exchanged = 4096;

const types = ["vec4f", "vec2f", "f32"] as const;

/** The type of a value as the last declaration says it of the first name in it; what has no type that is told is a float. */
function typeOf(code: string, value: string): (typeof types)[number] {
  const name = [...value.matchAll(/[a-z_]\w*/gi)].map(([word]) => word).find((word) => word !== "select")!;
  const declared = [...code.matchAll(new RegExp(`\\b${name}\\s*(?::\\s*(\\w+)|=\\s*(vec[24]f)\\()`, "g"))].at(-1);
  return types.find((type) => type === (declared?.[1] ?? declared?.[2])) ?? "f32";
}

/** The end of the call whose arguments begin at a place, and the commas between those. */
function argumentsFrom(code: string, begin: number): { readonly end: number; readonly commas: readonly number[] } {
  const commas: number[] = [];
  let open = 1;
  let at = begin;
  for (; open > 0; at++) {
    if (code[at] === "(") open++;
    else if (code[at] === ")") open--;
    else if (code[at] === "," && open === 1) commas.push(at);
  }
  return { end: at - 1, commas };
}

/** What each call does with the values of a subgroup, `own` the invocation's own. */
const bodies = {
  Add: "var made = vec4f(); for (var lane = 0u; lane < SIZE; lane++) { made += exchanged[front + lane]; }",
  Max: "var made = own; for (var lane = 0u; lane < SIZE; lane++) { made = max(made, exchanged[front + lane]); }",
  ShuffleXor: "let made = exchanged[invocation ^ by];",
} as const;

function functionsFor(size: number, threads: number): string {
  const functions = Object.entries(bodies).flatMap(([name, body]) => {
    const more = name === "ShuffleXor" ? [", by: u32", ", by"] : ["", ""];
    return [
      `fn imagined${name}_vec4f(own: vec4f${more[0]}) -> vec4f {
  workgroupBarrier();
  exchanged[invocation] = own;
  workgroupBarrier();
  let front = invocation / ${size}u * ${size}u;
  ${body.replace("SIZE", `${size}u`)}
  workgroupBarrier();
  return made;
}`,
      `fn imagined${name}_vec2f(own: vec2f${more[0]}) -> vec2f { return imagined${name}_vec4f(own.xyxy${more[1]}).xy; }`,
      `fn imagined${name}_f32(own: f32${more[0]}) -> f32 { return imagined${name}_vec4f(vec4f(own)${more[1]}).x; }`,
    ];
  });
  return `
var<workgroup> exchanged: array<vec4f, ${threads}>;
var<private> invocation: u32;
${functions.join("\n")}`;
}

/** WGSL without subgroups. */
function withoutSubgroups(code: string, size: number): string {
  if (!code.includes("enable subgroups;")) return code;
  let replaced = code.replace("enable subgroups;", "");
  for (;;) {
    const call = /\bsubgroup(Add|Max|ShuffleXor)\(/.exec(replaced);
    if (call === null) break;
    const begin = call.index + call[0].length;
    const { end, commas } = argumentsFrom(replaced, begin);
    const value = replaced.slice(begin, call[1] === "ShuffleXor" ? commas[0] : end);
    const before = replaced.slice(0, call.index);
    replaced = `${before}imagined${call[1]}_${typeOf(before, value)}(${replaced.slice(begin)}`;
  }
  const lane = /@builtin\(subgroup_invocation_id\) (\w+): u32,?/.exec(replaced);
  replaced = replaced.replace(lane?.[0] ?? "", "");
  const [, local] = /@builtin\(local_invocation_index\) (\w+): u32/.exec(replaced)!;
  const body = replaced.indexOf(") {", replaced.lastIndexOf("@builtin(")) + 3;
  const threads = Number(/@workgroup_size\((\d+)\)/.exec(replaced)![1]);
  if (threads % size !== 0) throw new Error(`a workgroup of ${threads} is not divided into subgroups of ${size}`);
  const begin = `invocation = ${local}; ${lane === null ? "" : `let ${lane[1]} = ${local} % ${size}u;`}`;
  return `${replaced.slice(0, body)} ${begin} ${replaced.slice(body)}${functionsFor(size, threads)}`;
}

/** The machine's GPU with subgroups of a size, and without matrices of them. */
export const gpuWithSubgroups = (size: number): (() => Promise<GPU | string>) =>
  adapterOf((adapter) =>
    proxied(adapter, {
      info: {
        ...infoOf(adapter),
        isFallbackAdapter: adapter.info.isFallbackAdapter,
        subgroupMinSize: size,
        subgroupMaxSize: size,
      },
      requestDevice: async (descriptor?: GPUDeviceDescriptor) => {
        const device = await adapter.requestDevice(descriptor);
        const { maxComputeWorkgroupStorageSize: most } = device.limits;
        return proxied(device, {
          limits: proxied(device.limits, { maxComputeWorkgroupStorageSize: most - exchanged }),
          createShaderModule: (given: GPUShaderModuleDescriptor) =>
            device.createShaderModule({ ...given, code: withoutSubgroups(given.code, size) }),
        });
      },
    }),
  );
