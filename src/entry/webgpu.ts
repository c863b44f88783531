/** The WebGPU backend with its kernels: loaded where a session asks for it, so that what does without never fetches its shaders. */
import type { Backend } from "../backends/backend.js";
import { webgpuBackend } from "../backends/webgpu/webgpu.js";
import { webgpuKernels } from "../ops/webgpu.js";

/** The backend. */
export const webgpu: Backend = webgpuBackend(webgpuKernels);
