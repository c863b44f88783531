/** `wholeModel()`: the step from what a file holds to the decoder that is meant, where other files say more of it. Runs before every other change. */
import { InsituError } from "../base/error.js";
import type { Files } from "../base/platform.js";
import { loadModel } from "../onnx/load.js";
import type { Model } from "../onnx/model.js";
import { withOperators } from "../ops/late.js";
import type { LongTexts } from "#insitu/rewrite/rotary-tables.js";

export type { LongTexts } from "#insitu/rewrite/rotary-tables.js";

/** What other files say. */
interface BesideModel {
  /** The path or URL of the file, for messages. */
  readonly model: string;
  /** That of the ONNX file which makes embeddings of tokens, where it is another. */
  readonly embedding?: string | undefined;
  /** Looks for that one where nothing names it. */
  readonly findEmbedding: () => Promise<string | undefined>;
  /** The row where rotary tables for long texts begin, where they lie behind those for short ones. */
  readonly rotaryOffset?: number | undefined;
}

/** A context's length that the model has tables for; throws for one that was asked for and is longer. */
type Within = (length: number, asked: number | undefined, file: string) => number;

/** Loads what changes models: before weights are read, or it would wait behind them. */
export async function loadChanges(): Promise<void> {
  await importChanges();
}

const importChanges = () =>
  Promise.all([
    import("#insitu/rewrite/rotary-tables.js"),
    import("#insitu/rewrite/rotary-reach.js"),
    import("#insitu/rewrite/flat-positions.js"),
    import("#insitu/rewrite/join-embedding.js"),
    import("#insitu/rewrite/plain-states.js"),
    import("#insitu/rewrite/unpaged.js"),
  ]);

/** The model, and which of its texts are long ones, where it has tables for two kinds. `open` reads the file of embeddings. */
export async function wholeModel(
  model: Model,
  { model: path, embedding, findEmbedding, rotaryOffset }: BesideModel,
  files: Files,
  open: (path: string, files: Files) => Promise<Model> = loadModel,
): Promise<{ readonly model: Model; readonly longTexts: LongTexts | undefined; readonly within: Within }> {
  const [rotaryTables, reaching, { flatPositions }, joining, { plainStates }, { withoutPages }] = await importChanges();
  const { longTextsOf, splitTables } = rotaryTables;
  const { rotaryReach, withinReach } = reaching;
  const { joinEmbedding, readsEmbeddings } = joining;
  let whole = withoutPages(plainStates(flatPositions(model)));
  if (readsEmbeddings(whole)) {
    const beside = embedding ?? (await findEmbedding());
    if (beside === undefined)
      throw new InsituError(
        "invalid-model",
        `"${path}" reads embeddings, "inputs_embeds", and no file beside it computes them from tokens: add embed_tokens.onnx, or what genai_config.json names as model.embedding`,
      );
    whole = joinEmbedding(await withOperators(await open(beside, files)), whole);
  }
  if (rotaryOffset !== undefined) whole = splitTables(whole, rotaryOffset);
  const reach = rotaryReach(whole);
  return {
    model: whole,
    longTexts: longTextsOf(whole),
    within: (length, asked, file) => withinReach(length, asked, reach, file),
  };
}
