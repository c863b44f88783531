/** What rendering a chat template may cost. Templates come with models, and models come from anywhere. */
import { InsituError } from "#insitu/base/error.js";

/** Characters of a template, and of white space in one piece: reading one takes time for the product of the two. */
export const mostTemplateLength = 500_000;
export const mostWhiteSpace = 1_000;

/** Parts of a template that are evaluated, items that lists get; an iteration and a value of JSON are several. */
const mostTemplateSteps = 2_000_000;
export const stepsPerIteration = 5;
export const stepsPerJsonValue = 5;

/** Characters of all texts that are made or searched on the way. */
const mostTemplateCharacters = 100_000_000;

/** Expressions, blocks and calls inside each other. */
const mostTemplateDepth = 600;

/** Characters of a search pattern that cost as much as one. */
const patternShare = 16;

/** What is left to spend on one rendering; throws where nothing is. */
export class TemplateBudget {
  #steps = mostTemplateSteps;
  #characters = mostTemplateCharacters;
  #depth = 0;

  /** Counts work. */
  steps(count: number): void {
    if ((this.#steps -= count) < 0) refuse(`takes more than ${mostTemplateSteps} steps`);
  }

  /** Counts characters that are made or read; asked before they are. */
  characters(count: number): void {
    if ((this.#characters -= count) < 0) refuse(`makes more than ${mostTemplateCharacters} characters on its way`);
  }

  /** Counts a search for one text in another. */
  search(length: number, wanted: number): void {
    this.characters(length * Math.max(1, wanted / patternShare));
  }

  /** Goes one level further in; `leave` comes back. */
  enter(): void {
    if (++this.#depth > mostTemplateDepth) refuse(`nests more than ${mostTemplateDepth} blocks, expressions and calls`);
  }

  leave(): void {
    this.#depth--;
  }
}

function refuse(why: string): never {
  throw new InsituError(
    "invalid-model",
    `the chat template ${why}: load the model with a simpler chatTemplate, or give the prompt as text`,
  );
}
