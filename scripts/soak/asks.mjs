// What the clients of the soak ask: requests that are right, with options by chance, and bodies that are not. Each says which statuses it may get.

const words = (
  "once upon a time there was king who had three sons and the youngest went into wood to seek his fortune old woman said my child " +
  "take this bread water when wolf came house door golden bird tree sat sang night until morning prince rode over hill"
).split(" ");

const beginnings = [17, 60, 150].map((count, at) =>
  Array.from({ length: count }, (_, word) => words[(word * 7 + at) % words.length]).join(" "),
);

const schema = {
  type: "object",
  properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer", minimum: 0, maximum: 99 } },
  required: ["name", "age"],
  additionalProperties: false,
};

const tools = [{ type: "function", function: { name: "look_up", description: "looks a word up", parameters: schema } }];

/** Chance in the forms that asks need; the same numbers ask the same. */
export class Chance {
  #next;

  constructor(seed) {
    let state = seed >>> 0;
    this.#next = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
  }

  below = (bound) => Math.floor(this.#next() * bound);
  between = (least, most) => least + this.#next() * (most - least);
  happens = (share) => this.#next() < share;
  oneOf = (list) => list[this.below(list.length)];
}

const someWords = (chance, most) => Array.from({ length: 1 + chance.below(most) }, () => chance.oneOf(words)).join(" ");

/** A prompt: the beginning of many, or nobody else's. */
const promptOf = (chance) =>
  chance.happens(0.6) ? `${chance.oneOf(beginnings)} ${someWords(chance, 8)}` : someWords(chance, 90);

/** Options of sampling, each there or not. */
function samplingOf(chance) {
  const may = (share, name, value) => (chance.happens(share) ? { [name]: value() } : {});
  return {
    ...may(0.5, "seed", () => chance.below(1000)),
    ...may(0.5, "temperature", () => chance.oneOf([0, 0.5, 1, 2])),
    ...may(0.2, "top_p", () => chance.between(0.1, 1)),
    ...may(0.2, "top_k", () => chance.below(50)),
    ...may(0.1, "min_p", () => chance.between(0, 0.3)),
    ...may(0.1, "presence_penalty", () => chance.between(-2, 2)),
    ...may(0.1, "frequency_penalty", () => chance.between(-2, 2)),
    ...may(0.1, "repetition_penalty", () => chance.between(1, 1.5)),
    ...may(0.1, "logit_bias", () => ({ [chance.below(4000)]: chance.between(-100, 20) })),
    ...may(0.1, "user", () => "somebody"),
    ...may(0.1, "a_field_of_tomorrow", () => [1, { two: 3 }]),
  };
}

/** What must come out, where there is a package that enforces it. */
function formOf(chance) {
  if (chance.happens(0.75)) return {};
  const kind = chance.below(3);
  if (kind === 0) return { response_format: { type: "json_object" } };
  if (kind === 1)
    return { response_format: { type: "json_schema", json_schema: { name: "person", strict: true, schema } } };
  return { tools, tool_choice: "required" };
}

function chatAsk(chance) {
  const form = formOf(chance);
  const some = Object.keys(form).length === 0;
  const logprobs = chance.happens(0.15) ? { logprobs: true, top_logprobs: chance.below(21) } : {};
  return {
    path: "/v1/chat/completions",
    body: {
      messages: [
        ...(chance.happens(0.3) ? [{ role: "system", content: beginnings[0] }] : []),
        { role: "user", content: promptOf(chance) },
      ],
      max_tokens: 1 + chance.below(60),
      ...(chance.happens(0.2) ? { n: 1 + chance.below(3) } : {}),
      ...(some && chance.happens(0.3) ? { stop: [" the", chance.oneOf(words)] } : {}),
      ...(some && chance.happens(0.1) ? { tools, tool_choice: "auto" } : {}),
      ...logprobs,
      ...samplingOf(chance),
      ...form,
    },
    statuses: [200, 429],
  };
}

function completionAsk(chance) {
  const prompt = chance.happens(0.1)
    ? Array.from({ length: 1 + chance.below(200) }, () => 1 + chance.below(4000))
    : chance.happens(0.1)
      ? [promptOf(chance), promptOf(chance)]
      : promptOf(chance);
  return {
    path: "/v1/completions",
    body: {
      prompt,
      max_tokens: 1 + chance.below(60),
      ...(chance.happens(0.3) ? { ignore_eos: true } : {}),
      ...(chance.happens(0.1) ? { logprobs: chance.below(6) } : {}),
      ...(chance.happens(0.2) ? { n: 1 + chance.below(3) } : {}),
      ...samplingOf(chance),
    },
    statuses: [200, 429],
  };
}

const responseAsk = (chance) => ({
  path: "/v1/responses",
  body: { input: promptOf(chance), max_output_tokens: 16 + chance.below(40), ...samplingOf(chance) },
  statuses: [200, 429],
});

const smallAsk = (chance) =>
  chance.oneOf([
    { path: "/tokenize", body: { prompt: promptOf(chance) }, statuses: [200, 429] },
    { path: "/detokenize", body: { tokens: [5, 6, 7] }, statuses: [200, 429] },
    // The model hands out no hidden state.
    { path: "/v1/embeddings", body: { input: promptOf(chance) }, statuses: [400, 429] },
  ]);

/** A request that is right. */
export function rightAsk(chance) {
  const kind = chance.below(10);
  if (kind < 5) return chatAsk(chance);
  if (kind < 8) return completionAsk(chance);
  return kind < 9 ? responseAsk(chance) : smallAsk(chance);
}

/** A long text with much to say about each token: more than a reader that reads nothing can have waiting. */
export const longAsk = (chance) => ({
  path: "/v1/chat/completions",
  body: {
    messages: [{ role: "user", content: promptOf(chance) }],
    stream: true,
    n: 3,
    max_tokens: 300,
    ignore_eos: true,
    logprobs: true,
    top_logprobs: 20,
  },
  statuses: [200, 429],
});

/** A request that is wrong, as text; undefined bytes and half objects among them. */
export function wrongAsk(chance) {
  const path = chance.oneOf([
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/tokenize",
    "/v1/embeddings",
  ]);
  const right = JSON.stringify(chatAsk(chance, false).body);
  const text = chance.oneOf([
    () => "",
    () => "nonsense",
    () => "[".repeat(20_000),
    () => right.slice(0, chance.below(right.length)),
    () => JSON.stringify({ model: "nobody's", messages: [], prompt: 1, input: {} }),
    () =>
      JSON.stringify({
        messages: [{ role: "user", content: "a ".repeat(3000) }],
        input: "a ".repeat(3000),
        prompt: "a ".repeat(3000),
      }),
    () => JSON.stringify({ prompt: "x", input: "x", messages: [{ role: "nobody", content: "x" }], temperature: 9 }),
    () => JSON.stringify({ prompt: "x", input: "x", messages: [{ role: "user", content: "x" }], temperature: 9 }),
    () =>
      JSON.stringify({
        messages: [{ role: "user", content: "x" }],
        response_format: {
          type: "json_schema",
          json_schema: { name: "x", schema: { type: "string", pattern: "(a)\\1" } },
        },
        input: "x",
        prompt: "x",
      }),
    () => JSON.stringify({ messages: "x".repeat(5 << 20) }),
  ])();
  return { path, text, statuses: [200, 400, 404, 413, 429] };
}
