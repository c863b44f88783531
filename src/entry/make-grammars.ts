/** Structured output, whose code is loaded with the first text that asks for it. */
import type { MakeGrammars } from "#insitu/choice/constraint.js";

/** Makes grammars for a vocabulary. */
export const makeGrammars: MakeGrammars = async (vocabulary) => {
  const grammars = await import("#insitu/grammar/grammars.js");
  return grammars.makeGrammars(vocabulary);
};
