import type { InferenceSession } from "onnxruntime-common";

export function describe(session: InferenceSession): string[] {
  const told = (value: InferenceSession.ValueMetadata): string =>
    value.isTensor ? `${value.name}: ${value.type} [${value.shape.join(", ")}]` : value.name;
  const metadata: readonly InferenceSession.ValueMetadata[] = [...session.inputMetadata, ...session.outputMetadata];
  return metadata.map(told);
}
export const symbols = (session: InferenceSession): string[] =>
  session.inputMetadata.flatMap((value) =>
    value.isTensor ? value.shape.filter((size): size is string => typeof size === "string") : [],
  );
