// Requests that mean harm, by chance: wrong types, long lists, deep nesting, huge texts, names and numbers, fields that nobody knows, broken letters,
// bodies that stop. Among them are some that are right. Each is the bytes of a body, a path, and the way in which it is sent.

const mostBytes = (4 << 20) - 1;
const paths = [
  "/v1/completions",
  "/v1/chat/completions",
  "/v1/responses",
  "/v1/messages",
  "/v1/embeddings",
  "/tokenize",
  "/detokenize",
];
const tool = (description) => ({ type: "function", function: { name: "look_up", description, parameters: {} } });

/** A body that is right, which makes few tokens. */
const rightBody = (path, chance) => {
  const more = {
    stream: chance.happens(0.3),
    temperature: 0,
    ...(chance.happens(0.2) ? { seed: chance.below(99) } : {}),
  };
  const most = 1 + chance.below(8);
  switch (path) {
    case "/v1/completions":
      return { prompt: "There was once", max_tokens: most, ...more };
    case "/v1/chat/completions":
      return { messages: [{ role: "user", content: "There was once" }], max_tokens: most, ...more };
    case "/v1/responses":
      return { input: "There was once", max_output_tokens: most, ...more };
    case "/v1/messages":
      return { messages: [{ role: "user", content: "There was once" }], max_tokens: most, ...more };
    case "/v1/embeddings":
      return { input: "There was once" };
    case "/tokenize":
      return { prompt: "There was once" };
    default:
      return { tokens: [1, 2, 3] };
  }
};

const fields = (
  "model prompt messages input instructions max_tokens temperature top_p n stop stream stream_options logit_bias " +
  "seed tools tool_choice response_format text metadata include modalities chat_template_kwargs user tokens " +
  "content logprobs top_logprobs suffix functions background repetition_penalty priority echo encoding_format " +
  "system stop_sequences thinking nobody_knows"
).split(" ");

const scalars = [
  "0",
  "0.5",
  "-1",
  "1e999",
  "1e-40",
  "null",
  "true",
  '""',
  '"x"',
  "{}",
  "[]",
  "[[]]",
  '{"a":1}',
  "1e15",
];
const elements = [
  "0",
  "0.5",
  "-1",
  "null",
  '""',
  '"a"',
  "{}",
  "[]",
  "[-1]",
  "[1]",
  '{"type":"text","text":""}',
  '"\\ud800"',
  '{"role":"user","content":""}',
  '{"type":"function"}',
  '{"a":[]}',
  '{"type":"message"}',
  "1e3",
  '"\\u0000"',
];

/** Bytes, as many small ones as large ones. */
const sizeOf = (chance) => Math.floor(Math.exp(chance.between(Math.log(200), Math.log(mostBytes))));

const filled = (piece, bytes, between = ",") =>
  Array(Math.max(1, Math.floor(bytes / (piece.length + between.length))))
    .fill(piece)
    .join(between);

/** A text of a kind that takes a tokenizer's time. */
function hugeText(chance, bytes) {
  const letters = "etaoinshrdlu";
  const random = () => Array.from({ length: 4096 }, () => letters[chance.below(12)]).join("");
  const kinds = [" ", "a", "\n", " a", "漢字", "7", "'s", "e\u0301", "<|end|>", "<|en", "\u00a0", "👩‍👩‍👧", "\\", '"'];
  if (chance.happens(0.3)) {
    const some = random();
    return some.repeat(Math.ceil(bytes / some.length)).slice(0, bytes);
  }
  const kind = chance.oneOf(kinds);
  return kind.repeat(Math.max(1, Math.floor(bytes / Buffer.byteLength(JSON.stringify(kind).slice(1, -1)))));
}

/** The body with a field of it replaced by JSON that is given as text. */
const withField = (body, name, text) => {
  const rest = JSON.stringify({ ...body, [name]: undefined });
  return `${rest.slice(0, -1)}${rest === "{}" ? "" : ","}${JSON.stringify(name)}:${text}}`;
};

const kinds = {
  right: ({ body }) => JSON.stringify(body),
  "wrong types": ({ body, chance }) => withField(body, chance.oneOf(fields), chance.oneOf(scalars)),
  "long lists": ({ body, chance, bytes }) =>
    withField(body, chance.oneOf(fields), `[${filled(chance.oneOf(elements), bytes)}]`),
  "long lists inside": ({ chance, bytes }) => {
    const list = `[${filled(chance.oneOf(elements), bytes)}]`;
    const name = chance.oneOf(["content", "tool_calls", "nobody_knows"]);
    return `{"messages":[{"role":"assistant","${name}":${list}}],"input":[{"role":"user","${name}":${list.slice(0, 2e6)}`.concat(
      list.length > 2e6 ? '"x"]' : "",
      "}]}",
    );
  },
  deep: ({ body, chance, bytes }) => {
    const [open, close] = chance.oneOf([
      ["[", "]"],
      ['{"a":', "}"],
      ['[{"items":', "}]"],
    ]);
    const depth = Math.max(1, Math.floor(bytes / (open.length + close.length)));
    const nested = `${open.repeat(depth)}0${close.repeat(depth)}`;
    if (chance.happens(0.3)) return withField(body, "text", `{"format":{"type":"text","y":${nested}}}`);
    return withField(body, chance.oneOf(fields), nested);
  },
  "huge texts": ({ body, chance, bytes }) => {
    const text = hugeText(chance, bytes);
    switch (chance.below(6)) {
      case 0:
        return JSON.stringify({ ...body, tools: [tool(text)], tool_choice: chance.oneOf(["auto", "none"]) });
      case 1: {
        const calls = [{ id: "1", type: "function", function: { name: "x", arguments: JSON.stringify(text) } }];
        return JSON.stringify({ ...body, messages: [{ role: "assistant", content: "", tool_calls: calls }] });
      }
      case 2:
        return JSON.stringify({ ...body, messages: [{ role: "user", content: text }], input: text, prompt: text });
      case 3:
        return JSON.stringify({ ...body, prompt: Array(16).fill(text.slice(0, bytes / 16)) });
      case 4:
        return JSON.stringify({ ...body, chat_template_kwargs: { messages: [text], system: text } });
      default:
        return JSON.stringify({ ...body, [chance.oneOf(fields)]: text });
    }
  },
  "many names": ({ body, chance, bytes }) => {
    const count = Math.floor(bytes / 14);
    const value = chance.oneOf(["1", '"x"', "null", "[]"]);
    const names = Array.from({ length: count }, (_, at) => `"${at % 4096}${"0".repeat(at % 7)}":${value}`);
    return withField(
      body,
      chance.oneOf(["logit_bias", "metadata", "chat_template_kwargs", "nobody_knows"]),
      `{${names}}`,
    );
  },
  "unknown fields": ({ body, chance, bytes }) =>
    withField(body, "nobody_knows", `[${filled(chance.oneOf(elements), bytes)}]`),
  "long numbers": ({ body, chance, bytes }) =>
    withField(body, chance.oneOf(fields), chance.oneOf(["9", "0.0", "1e"]) + "1".repeat(bytes)),
  "no JSON": ({ chance, bytes }) => filled(chance.oneOf(["{", "[", '"', "x", ":", '{"a"', "\\"]), bytes, ""),
  "repeated to the reader": ({ chance, bytes }) =>
    JSON.stringify({
      input: "There was once",
      max_output_tokens: 1 + chance.below(4),
      stream: chance.happens(0.5),
      metadata: { note: "x".repeat(bytes) },
    }),
  // Compiling these is bounded elsewhere.
  schemas: ({ body, chance }) => {
    const integer = (at) => ({ type: "integer", minimum: -8765432109876543 + at, maximum: 8765432109876543 - at });
    const properties = Object.fromEntries(
      Array.from({ length: chance.below(490) }, (_, at) => [`p${at}`, chance.oneOf([integer(at), { type: "string" }])]),
    );
    const schema = { type: "object", properties, required: Object.keys(properties) };
    return JSON.stringify({ ...body, response_format: { type: "json_schema", json_schema: { name: "x", schema } } });
  },
};

const headersOf = (chance) =>
  chance.happens(0.95)
    ? { "content-type": "application/json" }
    : chance.oneOf([
        { "content-type": "application/json; charset=utf-16" },
        { "content-type": "text/plain", "content-encoding": "gzip" },
        {
          "content-type": "application/json",
          "x-forwarded-host": "elsewhere.example",
          origin: "http://elsewhere.example",
        },
      ]);

/** One request: how it is sent, where to, and its bytes. */
export function hostileAsk(chance, hasSchemas) {
  const names = Object.keys(kinds).filter((name) => hasSchemas || name !== "schemas");
  const kind = chance.happens(0.15) ? "right" : chance.oneOf(names);
  const path = chance.oneOf(paths);
  let bytes = Buffer.from(kinds[kind]({ body: rightBody(path, chance), chance, bytes: sizeOf(chance) }));
  let what = kind;
  if (kind !== "right" && chance.happens(0.08)) {
    for (let count = 1 + chance.below(8); count > 0; count--)
      bytes[chance.below(bytes.length)] = 128 + chance.below(128);
    what = "broken letters";
  }
  if (kind !== "right" && chance.happens(0.08)) bytes = bytes.subarray(0, chance.below(bytes.length));
  const sending = chance.happens(0.88)
    ? "at once"
    : chance.oneOf(["slowly", "by half", "and leaves", "and reads nothing"]);
  return { what, path, bytes, headers: headersOf(chance), sending };
}
