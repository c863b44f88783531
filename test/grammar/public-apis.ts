/** Fifty schemas in the manner of public APIs and of what programs ask models for: OpenAPI's, hand-written ones, and those that libraries write. */
import type { JsonSchema } from "../../packages/choice/constraint.js";

const text = (more: object = {}): object => ({ type: "string", ...more });
const short = text({ minLength: 1, maxLength: 12 });
const int = (minimum?: number, maximum?: number): object => ({
  type: "integer",
  ...(minimum === undefined ? {} : { minimum }),
  ...(maximum === undefined ? {} : { maximum }),
});
const list = (items: object, maxItems = 2, minItems = 0): object => ({ type: "array", items, minItems, maxItems });
const orNull = (of: object): object => ({ anyOf: [of, { type: "null" }] });
const one = (...values: readonly unknown[]): object => ({ enum: values });
/** A text, since an object with such a name would be taken for a promise. */
const byCountry =
  '{"if": {"properties": {"country": {"const": "US"}}, "required": ["country"]}, "then": {"properties": {"code": {"pattern": "^[0-9]{5}$"}}}, "else": {"properties": {"code": {"pattern": "^[0-9]{4} [A-Z]{2}$"}}}}';
const ref = (name: string): object => ({ $ref: `#/$defs/${name}` });

/** An object without others beside those that are listed; all are required but those whose names end with a question mark. */
function object(properties: Readonly<Record<string, unknown>>, more: object = {}): Record<string, unknown> {
  const entries = Object.entries(properties).map(([name, schema]) => [name.replace(/\?$/, ""), schema] as const);
  return {
    type: "object",
    properties: Object.fromEntries(entries),
    required: Object.keys(properties).filter((name) => !name.endsWith("?")),
    additionalProperties: false,
    ...more,
  };
}

const money = { type: "number", minimum: 0, maximum: 100_000, multipleOf: 0.01 };
const timestamp = text({ format: "date-time" });
const point = {
  type: "array",
  prefixItems: [
    { type: "number", minimum: -180, maximum: 180 },
    { type: "number", minimum: -90, maximum: 90 },
  ],
  items: false,
  minItems: 2,
};

/** By what they are. */
export const publicApis: Readonly<Record<string, JsonSchema>> = {
  weather: object({ location: short, unit: one("celsius", "fahrenheit"), days: int(1, 14) }),
  forecast: object({
    days: list(object({ date: text({ format: "date" }), high: int(-60, 60), low: int(-60, 60) }), 2, 1),
  }),
  "issue of a tracker": object({
    number: int(1, 99_999),
    state: one("open", "closed"),
    title: short,
    labels: list(object({ name: short, color: text({ pattern: "^[0-9a-f]{6}$" }) })),
    assignee: orNull(object({ login: text({ pattern: "^[a-z\\d](?:[a-z\\d]|-(?=[a-z\\d])){0,38}$" }), id: int(1) })),
  }),
  "pull request": object({
    head: object({ ref: short, sha: text({ pattern: "^[0-9a-f]{40}$" }) }),
    draft: { type: "boolean" },
    mergeable: { type: ["boolean", "null"] },
  }),
  commit: object({
    message: short,
    author: object({ name: short, email: text({ format: "email" }), date: timestamp }),
  }),
  charge: object({
    id: text({ pattern: "^ch_[A-Za-z0-9]{8}$" }),
    amount: int(50, 99_999_999),
    currency: one("usd", "eur", "gbp"),
    captured: { type: "boolean" },
    metadata: { type: "object", additionalProperties: short, maxProperties: 2 },
  }),
  "payment method": {
    oneOf: [
      object({ type: { const: "card" }, last4: text({ pattern: "^\\d{4}$" }), exp_month: int(1, 12) }),
      object({ type: { const: "sepa" }, iban: text({ pattern: "^[A-Z]{2}\\d{2}[A-Z0-9]{11,30}$" }) }),
    ],
  },
  invoice: object({
    lines: list(object({ description: short, quantity: int(1, 99), unit_price: money }), 2, 1),
    total: money,
    due: text({ format: "date" }),
  }),
  "subscription, OpenAPI 3.0": {
    type: "object",
    properties: {
      plan: { type: "string", enum: ["free", "pro"] },
      cancelled_at: { type: "string", format: "date-time", nullable: true },
      seats: { type: "integer", format: "int32", minimum: 1, maximum: 500, example: 5 },
    },
    required: ["plan", "cancelled_at"],
    "x-internal": true,
  },
  pet: {
    type: "object",
    required: ["name", "photoUrls"],
    properties: {
      id: { type: "integer", format: "int64", minimum: 0, maximum: 9999 },
      name: short,
      photoUrls: list(text({ format: "uri", maxLength: 30 })),
      status: { type: "string", description: "in the store", enum: ["available", "pending", "sold"] },
    },
  },
  "animal by reference": {
    $defs: {
      Animal: { type: "object", properties: { name: short }, required: ["name"] },
      Dog: { allOf: [ref("Animal"), { type: "object", properties: { breed: short }, required: ["breed"] }] },
      Cat: { allOf: [ref("Animal"), { type: "object", properties: { lives: int(0, 9) }, required: ["lives"] }] },
    },
    oneOf: [ref("Dog"), ref("Cat")],
  },
  "message of a channel": object({
    channel: text({ pattern: "^C[A-Z0-9]{8}$" }),
    text: short,
    thread_ts: text({ pattern: "^\\d{10}\\.\\d{6}$" }),
    "blocks?": list({
      anyOf: [
        object({ type: { const: "divider" } }),
        object({ type: { const: "section" }, text: object({ type: one("mrkdwn", "plain_text"), text: short }) }),
      ],
    }),
  }),
  "event of a calendar": object({
    summary: short,
    start: timestamp,
    end: timestamp,
    attendees: list(object({ email: text({ format: "email" }), optional: { type: "boolean" } })),
    recurrence: orNull(text({ pattern: "^RRULE:FREQ=(DAILY|WEEKLY|MONTHLY)$" })),
  }),
  "GeoJSON point": object({ type: { const: "Point" }, coordinates: point }),
  "GeoJSON geometry": {
    oneOf: [
      object({ type: { const: "Point" }, coordinates: point }),
      object({ type: { const: "LineString" }, coordinates: { type: "array", items: point, minItems: 2, maxItems: 3 } }),
    ],
  },
  "package manifest": {
    type: "object",
    properties: {
      name: text({ pattern: "^(?:@[a-z0-9-~][a-z0-9-._~]*/)?[a-z0-9-~][a-z0-9-._~]*$", maxLength: 24 }),
      version: text({ pattern: "^(0|[1-9]\\d{0,3})\\.(0|[1-9]\\d{0,3})\\.(0|[1-9]\\d{0,3})$" }),
      private: { type: "boolean" },
      dependencies: { type: "object", additionalProperties: text({ maxLength: 8 }), maxProperties: 2 },
    },
    required: ["name", "version"],
  },
  "port of a pod": {
    type: "object",
    properties: {
      containerPort: int(1, 65_535),
      protocol: one("TCP", "UDP", "SCTP"),
      name: text({ pattern: "^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$" }),
    },
    required: ["containerPort"],
  },
  container: {
    type: "object",
    properties: {
      image: short,
      env: list({
        type: "object",
        properties: { name: text({ pattern: "^[A-Z_]{1,8}$" }), value: short },
        required: ["name"],
      }),
      resources: {
        type: "object",
        properties: { cpu: text({ pattern: "^[0-9]{1,4}m?$" }), memory: text({ pattern: "^[0-9]{1,4}(Ki|Mi|Gi)$" }) },
        minProperties: 1,
      },
    },
    required: ["image", "resources"],
  },
  "labels of a resource": {
    type: "object",
    patternProperties: { "^[a-z]([-a-z0-9]{0,8}[a-z0-9])?$": text({ maxLength: 8 }) },
    additionalProperties: false,
    maxProperties: 2,
  },
  person: {
    title: "Person",
    type: "object",
    properties: { firstName: short, lastName: short, age: { type: "integer", minimum: 0, exclusiveMaximum: 130 } },
    required: ["firstName", "lastName"],
  },
  address: {
    type: "object",
    properties: { street: short, country: one("US", "DE"), postal_code: text({ pattern: "^[0-9]{5}(?:-[0-9]{4})?$" }) },
    required: ["street", "postal_code"],
    dependentRequired: { country: ["street"] },
  },
  "address by country": {
    type: "object",
    properties: { country: one("US", "NL"), code: text({ maxLength: 7 }) },
    required: ["country", "code"],
    ...(JSON.parse(byCountry) as object),
  },
  order: {
    type: "object",
    properties: {
      sku: text({ pattern: "^[A-Z]{3}-\\d{4}$" }),
      count: { type: "integer", minimum: 12, maximum: 144, multipleOf: 12 },
    },
    required: ["sku", "count"],
    additionalProperties: false,
  },
  "price range": object({
    from: { type: "number", exclusiveMinimum: 0, maximum: 999.99 },
    to: { type: "number", minimum: 0.01, maximum: 9999 },
  }),
  percentages: object({
    share: { type: "number", minimum: 0, maximum: 1 },
    step: { type: "number", multipleOf: 0.25, minimum: 0, maximum: 10 },
  }),
  "sensor readings": {
    type: "array",
    items: object({
      sensor: text({ format: "uuid" }),
      at: timestamp,
      value: { type: "number", minimum: -40, maximum: 125 },
    }),
    minItems: 1,
    maxItems: 2,
  },
  "addresses of a host": object({
    v4: text({ format: "ipv4" }),
    "v6?": text({ format: "ipv6" }),
    name: text({ format: "hostname", maxLength: 20 }),
  }),
  webhook: object({
    url: text({ format: "uri", pattern: "^https://", maxLength: 40 }),
    events: { type: "array", items: one("push", "release", "fork"), minItems: 1, uniqueItems: true },
    active: { type: "boolean" },
  }),
  "JSON patch": {
    type: "array",
    maxItems: 2,
    items: {
      oneOf: [
        object({ op: { const: "remove" }, path: text({ format: "json-pointer", maxLength: 8 }) }),
        object({ op: one("add", "replace"), path: text({ format: "json-pointer", maxLength: 8 }), value: int(0, 9) }),
      ],
    },
  },
  "function call": object({
    name: one("search", "open"),
    arguments: { anyOf: [object({ query: short }), object({ url: text({ format: "uri", maxLength: 30 }) })] },
  }),
  "tree of comments": {
    $ref: "#/$defs/comment",
    $defs: { comment: object({ text: short, replies: { type: "array", items: ref("comment"), maxItems: 1 } }) },
  },
  "linked list": {
    $defs: { node: object({ value: int(0, 9), next: { anyOf: [ref("node"), { type: "null" }] } }) },
    ...ref("node"),
  },
  "filter of a search": {
    $defs: {
      filter: {
        anyOf: [
          object({ field: one("age", "size"), op: one("<", "=", ">"), value: int(0, 99) }),
          object({ and: { type: "array", items: ref("filter"), minItems: 1, maxItems: 2 } }),
        ],
      },
    },
    $ref: "#/$defs/filter",
  },
  sentiment: object({
    sentiment: one("positive", "neutral", "negative"),
    confidence: { type: "number", minimum: 0, maximum: 1 },
  }),
  "entities of a text": object({ entities: list(object({ text: short, type: one("PERSON", "PLACE", "TIME") }), 2) }),
  "steps of a proof": object({ steps: list(object({ explanation: short, output: short }), 2, 1), final_answer: short }),
  classification: object(
    { label: one("spam", "ham"), reasons: list(short, 2) },
    { $schema: "http://json-schema.org/draft-07/schema#" },
  ),
  "a tuple of draft 7": {
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "array",
    items: [short, int(0, 9)],
    additionalItems: false,
    minItems: 2,
  },
  "bounds of draft 4": { type: "number", minimum: 0, exclusiveMinimum: true, maximum: 10 },
  "model of pydantic": {
    $defs: { Kind: { enum: ["wolf", "fox"], title: "Kind", type: "string" } },
    properties: {
      kind: ref("Kind"),
      name: { anyOf: [text({ maxLength: 8 }), { type: "null" }], default: null, title: "Name" },
    },
    required: ["kind"],
    title: "Animal",
    type: "object",
  },
  "merged by a tool": {
    allOf: [
      { type: "object", properties: { id: int(1, 99) }, required: ["id"] },
      { properties: { name: short }, required: ["name"] },
    ],
    unevaluatedProperties: false,
  },
  "reference with more beside it": {
    $defs: { named: { type: "object", properties: { name: short }, required: ["name"] } },
    $ref: "#/$defs/named",
    properties: { name: { maxLength: 4 }, age: int(0, 9) },
    required: ["age"],
  },
  "either of two keys": {
    type: "object",
    properties: { email: text({ format: "email" }), phone: text({ pattern: "^\\+[1-9]\\d{6,14}$" }) },
    anyOf: [{ required: ["email"] }, { required: ["phone"] }],
    additionalProperties: false,
  },
  "no reserved name": object({ name: { type: "string", maxLength: 8, not: { enum: ["admin", "root"] } } }),
  "a union of all": {
    type: ["object", "array", "string", "number", "boolean", "null"],
    maxLength: 6,
    maxItems: 1,
    maxProperties: 1,
    minimum: 0,
  },
  "colours of a theme": object({
    primary: text({ pattern: "^#(?:[0-9a-fA-F]{3}){1,2}$" }),
    scale: { type: "array", items: text({ pattern: "^#[0-9a-f]{6}$" }), minItems: 2, maxItems: 3 },
  }),
  recipe: object({
    title: short,
    minutes: { type: "integer", minimum: 5, maximum: 240, multipleOf: 5 },
    ingredients: {
      type: "object",
      propertyNames: { pattern: "^[a-z]{2,8}$" },
      additionalProperties: int(1, 9),
      minProperties: 1,
      maxProperties: 2,
    },
  }),
  flight: object({
    number: text({ pattern: "^[A-Z]{2}\\d{1,4}$" }),
    from: text({ pattern: "^[A-Z]{3}$" }),
    departs: text({ format: "time" }),
    duration: text({ format: "duration", maxLength: 10 }),
  }),
  "settings of a chat": object({
    model: one("small", "large"),
    temperature: { type: "number", minimum: 0, maximum: 2 },
    "stop?": { anyOf: [short, list(short, 2, 1)] },
  }),
  "log line": object({
    level: one("debug", "info", "warn", "error"),
    at: timestamp,
    message: short,
    "trace?": text({ pattern: "^[0-9a-f]{16}$" }),
  }),
};
