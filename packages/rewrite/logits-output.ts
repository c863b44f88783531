/** Which output of a decoder has the logits. */
import type { Model, ModelValue } from "#insitu/onnx/model.js";

/** The output with logits: the one of that name, else the only one of three dimensions. */
export function logitsOf({ graph: { outputs } }: Model): ModelValue | undefined {
  const [first, ...others] = outputs.filter(({ type }) => type?.kind === "tensor" && type.shape?.length === 3);
  return outputs.find(({ name }) => name === "logits") ?? (others.length === 0 ? first : undefined);
}
