import { of, type OpCase } from "./shared/case.js";

const x = of("float32", [1, 2], [3, 4]);
const scale = of("float32", [2], [1, 2]);

export const cases: readonly OpCase[] = [
  {
    op: "SimplifiedLayerNormalization",
    opset: 17,
    shows: "in ONNX's domain, with the inverse deviation",
    attrs: { epsilon: { float: 0 } },
    inputs: [x, scale],
    outputs: [
      of("float32", [1, 2], [0.8485281374238571, 2.262741699796952]),
      of("float32", [1, 1], [0.282842712474619]),
    ],
    tolerance: 1e-6,
  },
  {
    op: "SimplifiedLayerNormalization",
    domain: "com.microsoft",
    opset: 1,
    shows: "in onnxruntime's domain, over all axes",
    attrs: { axis: 0, epsilon: { float: 0 } },
    inputs: [x, scale],
    outputs: [of("float32", [1, 2], [0.8485281374238571, 2.262741699796952])],
    tolerance: 1e-6,
  },
  {
    op: "SimplifiedLayerNormalization",
    opset: 17,
    shows: "a scale that does not broadcast is refused",
    inputs: [x, of("float32", [3], [1, 2, 3])],
    throws: /scale must broadcast to X \[1,2\], got \[3\]/,
  },
];
