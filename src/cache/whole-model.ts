/** `wholeModel()`: the step from what a file holds to the model that is meant, where other files say more of it. Runs before every other change. */
import type { Model } from "../onnx/model.js";

/** What other files say. */
interface BesideModel {
  /** The row where rotary tables for long texts begin, where they lie behind those for short ones. */
  readonly rotaryOffset?: number | undefined;
}

/** The model, and the length from which on its texts are long ones, where it has tables for two kinds. */
export async function wholeModel(
  model: Model,
  { rotaryOffset }: BesideModel,
): Promise<{ readonly model: Model; readonly longFrom: number | undefined }> {
  const { longTextsFrom, splitTables } = await import("../rewrite/rotary-tables.js");
  const whole = rotaryOffset === undefined ? model : splitTables(model, rotaryOffset);
  return { model: whole, longFrom: longTextsFrom(whole) };
}
