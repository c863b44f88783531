// The poison works: a shader of ours that reads what it did not write gets NaN, and one that wrote gets what it wrote.
import { expect, test } from "vitest";
import { nodePlatform } from "../../../src/platform/node.js";
import { noWebgpu } from "../../support/backends.js";
import { poisoned } from "../../support/poison.js";

const shader = (writes: string): string => `
@group(0) @binding(0) var<storage, read_write> result: array<vec4f>;
var<workgroup> sums: array<vec4f, 100>;
var<workgroup> counts: array<vec2<u32>, 3>;
var<workgroup> taken: atomic<u32>;
@compute @workgroup_size(32) fn main(@builtin(local_invocation_index) local: u32) {
  ${writes}
  workgroupBarrier();
  if (local == 0u) { result[0] = vec4f(sums[99].w, bitcast<f32>(counts[2].y), bitcast<f32>(atomicLoad(&taken)), 1.0); }
}`;

/** What a shader leaves. */
async function resultOf(code: string): Promise<readonly number[]> {
  const gpu = (await nodePlatform.gpu!()) as GPU;
  const device = await (await gpu.requestAdapter())!.requestDevice();
  const [storage, copy, map] = [0x80 | 0x4, 0x8 | 0x1, 1];
  const [made, read] = [
    device.createBuffer({ size: 16, usage: storage }),
    device.createBuffer({ size: 16, usage: copy }),
  ];
  const module = device.createShaderModule({ code });
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
  const entries = [{ binding: 0, resource: { buffer: made } }];
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(1);
  pass.end();
  encoder.copyBufferToBuffer(made, 0, read, 0, 16);
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(map);
  const result = [...new Float32Array(read.getMappedRange().slice(0))];
  device.destroy();
  return result;
}

test.skipIf(noWebgpu !== undefined)("what is not written is NaN, what is written stays", async () => {
  expect(await resultOf(shader(""))).toEqual([NaN, NaN, NaN, 1]);
  const writes = `if (local == 31u) { sums[99] = vec4f(2.0); counts[2].y = 0x3f800000u; atomicStore(&taken, 0u); }`;
  expect(await resultOf(shader(writes))).toEqual([2, 1, 0, 1]);
});

test("shaders without workgroup memory stay as they are", () => {
  const code = "@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) local: u32) { }";
  expect(poisoned(code)).toBe(code);
});
