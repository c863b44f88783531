/** What a model's reply tells while it comes: text, reasoning and calls of tools. Blanks around calls and reasoning belong to neither. */

/** One thing that a reply tells. */
export type DialogueEvent =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "reasoning"; readonly text: string }
  /** A call begins; calls are numbered from 0. */
  | { readonly kind: "call"; readonly call: number; readonly name: string }
  /** A piece of its arguments, which are JSON as a whole. */
  | { readonly kind: "arguments"; readonly call: number; readonly text: string }
  /** Its arguments are whole; a call that was cut or broke has no such event. */
  | { readonly kind: "call-done"; readonly call: number };

/** Gathers events, and holds blanks back until it is known what they stand before. */
export class Telling {
  #events: DialogueEvent[] = [];
  #blank = "";
  /** True right behind a call or reasoning: blanks there are no text. */
  #skips = false;
  #calls = 0;
  state: "text" | "reasoning" | "call" = "text";

  /** How many calls have begun. */
  get calls(): number {
    return this.#calls;
  }

  text(text: string): void {
    this.#enter("text");
    this.#tell("text", text);
  }

  reasoning(text: string): void {
    this.#enter("reasoning");
    this.#tell("reasoning", text);
  }

  call(name: string): void {
    this.#enter("call");
    this.#events.push({ kind: "call", call: this.#calls++, name });
  }

  arguments(text: string): void {
    if (text !== "") this.#events.push({ kind: "arguments", call: this.#calls - 1, text });
  }

  callDone(): void {
    this.#events.push({ kind: "call-done", call: this.#calls - 1 });
    this.#enter("text");
    this.#skips = true;
  }

  /** Blanks at the end of a text are text. */
  end(): void {
    if (this.state === "text" && this.#blank !== "") this.#events.push({ kind: "text", text: this.#blank });
    this.#blank = "";
  }

  /** What was told since it was last asked for. */
  taken(): DialogueEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #enter(state: Telling["state"]): void {
    if (this.state === state) return;
    // Thoughts begin without blanks, and so does what follows on thoughts and calls.
    this.#skips = state === "reasoning" || this.state !== "text";
    this.#blank = "";
    this.state = state;
  }

  #tell(kind: "text" | "reasoning", given: string): void {
    const text = this.#skips ? given.trimStart() : given;
    if (text === "") return;
    this.#skips = false;
    const all = this.#blank + text;
    const visible = all.trimEnd().length;
    this.#blank = all.slice(visible);
    if (visible > 0) this.#events.push({ kind, text: all.slice(0, visible) });
  }
}
