/** What keeps texts to rules, loaded with the first text that must obey one. */
import type { MakeGrammars } from "../engine/constraint.js";

/** Makes grammars for a vocabulary. */
export const makeGrammars: MakeGrammars = async (vocabulary) => {
  const grammars = await import("../grammar/grammars.js");
  return grammars.makeGrammars(vocabulary);
};
