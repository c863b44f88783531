// Workgroup memory that holds NaN when a shader begins: Node's devices are asked not to zero it (`disable_workgroup_init`), so that kernels must write what
// they read. Zeros would hide one that does not, and which bytes a device leaves there is luck.
/** The bits of a NaN. Constants that are none are refused: it is made when the shader runs. */
const bits = "0x7fc00000u";

/** What an item of a type is filled with, given the bits in `poison`. */
function filling(type: string, place: string): string {
  if (type === "atomic<u32>") return `atomicStore(&${place}, poison);`;
  if (type === "u32") return `${place} = poison;`;
  if (type.includes("f16")) return `${place} = ${type}(bitcast<vec2<f16>>(poison).y);`;
  const scalar = /^(?:vec[24])?([fi])(?:32)?$/.exec(type)?.[1];
  const value = scalar === undefined ? "poison" : `bitcast<${scalar}32>(poison)`;
  return `${place} = ${type}(${value});`;
}

/** A shader whose workgroup memory is filled with NaN before its first statement. */
export function poisoned(code: string): string {
  const memory = [...code.matchAll(/var<workgroup> (\w+): (?:array<([\w<>]+), (\d+)>|([\w<>]+));/g)];
  const main = /@workgroup_size\((\d+)\) fn main\([^{]*@builtin\(local_invocation_index\) (\w+): u32[^{]*\{/.exec(code);
  if (memory.length === 0 || main === null) return code;
  const [head, size, local] = main;
  const fills = memory.map(([, name, element, count, alone]) =>
    count === undefined
      ? `if (${local} == 0u) { ${filling(alone, name)} }`
      : `for (var at = ${local}; at < ${count}u; at += ${size}u) { ${filling(element, `${name}[at]`)} }`,
  );
  const end = main.index + head.length;
  return `${code.slice(0, end)}
  { var poison = ${bits}; ${fills.join(" ")} }
  workgroupBarrier();${code.slice(end)}`;
}
