// How much of the prompts of people who chat need not be read again, by how much a cache holds: pools of one worker and of ten, requests in turns or
// by conversation, with and without a store. Needs a build.
//   node scripts/simulate-hit-rate.mjs [--minutes 30] [--seed 1] [--json] [--svg file]
//   node scripts/simulate-hit-rate.mjs --validate    one point of it on two real workers and a Redis (needs redis-server)
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { hitRate, nameTrace, secondsToReuse } from "./block-caches.mjs";
import { describe, drawn, recordChat } from "./chat-trace.mjs";
import { picture } from "../dist/tools/pictures/draw-svg.js";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    seed: { type: "string", default: "1" },
    json: { type: "boolean" },
    svg: { type: "string" },
    validate: { type: "boolean" },
  },
});
const minutes = Number(values.minutes);
const seed = Number(values.seed);

/** Lines of the picture: what differs, and what the size is of. */
const lines = [
  { name: "1 worker", size: "pool", workers: 1, hash: true },
  { name: "10 workers, round-robin", size: "pool", workers: 10, hash: false },
  { name: "10 workers, hash", size: "pool", workers: 10, hash: true },
  { name: "10 workers, round-robin + store", size: "store", workers: 10, hash: false, blocks: 256 },
  { name: "10 workers, hash + store", size: "store", workers: 10, hash: true, blocks: 256 },
];
const sizes = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];

function simulate() {
  const trace = recordChat({ minutes, seed });
  const named = nameTrace(trace);
  const rows = lines.map(({ name, size, ...line }) => ({
    name,
    size,
    shares: sizes.map((all) => {
      // The whole of a cache: of all pools together, or of the store behind small ones.
      const setting = size === "store" ? { store: all } : { blocks: Math.floor(all / line.workers) };
      return hitRate(named, { ...line, ...setting }).share;
    }),
  }));
  const distinct = new Set(named.flatMap(({ names }) => names)).size;
  const mean = (of) => trace.reduce((sum, request) => sum + of(request), 0) / trace.length;
  const lengths = { prompt: mean(({ prompt }) => prompt.length), answer: mean(({ answer }) => answer.length) };
  // What a request brings to a store that lets go of nothing, and from it.
  const traffic = [true, false].map((hash) => {
    const { fetched, saved } = hitRate(named, { workers: 10, blocks: 1024, hash, store: Infinity });
    return { hash, fetched: fetched / trace.length, saved: saved / trace.length };
  });
  const reuse = secondsToReuse(named, [0.5, 0.95, 0.99]);
  return { minutes, seed, drawn, told: describe(trace, minutes, seed), distinct, sizes, rows, lengths, traffic, reuse };
}

const percent = (share) => `${(100 * share).toFixed(0)} %`;

function table({ told, distinct, rows, lengths, traffic, reuse }) {
  const head = ["blocks in all", ...sizes.map((size) => size.toLocaleString("en"))];
  const body = rows.map(({ name, shares }) => [name, ...shares.map(percent)]);
  const bar = (row) => `| ${row.join(" | ")} |`;
  return [
    told,
    `${distinct} blocks of 16 tokens that differ`,
    "",
    bar(head),
    bar(head.map((_, at) => (at === 0 ? "---" : "---:"))),
    ...body.map(bar),
    "",
    `prompts of ${lengths.prompt.toFixed(0)} tokens, answers of ${lengths.answer.toFixed(0)}`,
    ...traffic.map(
      ({ hash, fetched, saved }) =>
        `10 workers with pools of 1024 blocks, ${hash ? "hash" : "round-robin"}: a request fetches ${fetched.toFixed(1)} blocks and writes ${saved.toFixed(1)}`,
    ),
    `blocks are read again after ${Object.entries(reuse)
      .map(([share, seconds]) => `${seconds.toFixed(0)} s (${percent(share)})`)
      .join(", ")}`,
  ].join("\n");
}

function chart({ rows, told }) {
  const [width, height, left, right, top] = [880, 300, 54, 604, 40];
  const colours = ["muted", "third", "ours", "fourth", "theirs"];
  const rules = colours
    .map((colour, row) => `.key-${row}{fill:$${colour}}.line-${row}{fill:none;stroke:$${colour}}`)
    .join("");
  const x = (at) => left + (at / (sizes.length - 1)) * (right - left);
  const y = (share) => height - share * (height - top);
  const text = (at, up, said, more = "") => `<text x="${at.toFixed(1)}" y="${up.toFixed(1)}"${more}>${said}</text>`;
  const drawnLines = rows.flatMap(({ name, shares }, row) => [
    `<polyline class="line-${row}" stroke-width="2" points="${shares.map((share, at) => `${x(at).toFixed(1)},${y(share).toFixed(1)}`).join(" ")}"/>`,
    `<rect x="${right + 24}" y="${top + row * 22 - 10}" width="12" height="12" class="key-${row}"/>`,
    text(right + 42, top + row * 22, name),
  ]);
  const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    `<line x1="${left}" x2="${right}" y1="${y(share).toFixed(1)}" y2="${y(share).toFixed(1)}" class="rule"/>`,
    text(left - 8, y(share) + 4, percent(share), ' class="muted end"'),
  ]);
  const ticks = sizes.map((size, at) => text(x(at), height + 18, size.toLocaleString("en"), ' class="muted middle"'));
  const title = "prompt tokens that need not be read again, over blocks of 16 tokens in the pools or in the store";
  const parts = [
    text(left, 20, title, ' class="strong"'),
    ...grid,
    ...ticks,
    ...drawnLines,
    text(left, height + 44, told.split(":")[0], ' class="small"'),
    text(left, height + 58, `node scripts/simulate-hit-rate.mjs --minutes ${minutes} --seed ${seed}`, ' class="small"'),
  ];
  return picture(width, height + 70, title, parts, rules);
}

if (values.validate === true) {
  const { validate } = await import("./validate-hit-rate.mjs");
  await validate(seed);
} else {
  const found = simulate();
  console.log(values.json === true ? JSON.stringify(found, null, 2) : table(found));
  if (values.svg !== undefined) writeFileSync(values.svg, chart(found));
}
