// Decode attention over scattered pages of two layouts beside the same attention over a cache with pitch: 32 query heads, 8 key heads of 128,
// rotating over caches larger than the last cache. Numbers: rows in a block, rows (512 or fewer stay in the caches), rounds, threads, and 1 for
// float16 in place of float32.
import { interleave, Team } from "./team.mjs";

const [blockSize = 16, length = 4096, rounds = 61, threads = 2, half = 0] = process.argv.slice(2).map(Number);
const width = half ? 2 : 4;
const [heads, kvHeads, size, splits] = [32, 8, 128, threads];
const caches = Math.max(1, Math.ceil((96 << 20) / (2 * kvHeads * length * size * width)));
const resident = length * kvHeads * size * 8 < 8 << 20;
const team = new Team({ threads, megabytes: 1024 });
const query = team.fill(team.take(heads * size * 4), heads * size);
const output = team.take(heads * size * 4);
const partials = team.take(heads * splits * (2 + size) * 4);
const lengths = team.take(8);
team.words[lengths / 4] = length;
const blocks = length / blockSize;
const tables = team.take(blocks * 4);
const order = Array.from({ length: blocks }, (_, at) => at);
for (let at = blocks - 1; at > 0; at--) {
  const other = Math.floor(Math.random() * (at + 1));
  [order[at], order[other]] = [order[other], order[at]];
}
order.forEach((block, at) => (team.words[tables / 4 + at] = block));
const shared = {
  query,
  output,
  cacheType: half,
  batch: 1,
  heads,
  kvHeads,
  queries: 1,
  headSize: size,
  valueSize: size,
  queryHead: size,
  queryRow: size,
  outputHead: size,
  outputRow: size,
  total: length,
  past: length - 1,
  causal: 1,
  left: -1,
  right: -1,
  scale: 1 / Math.sqrt(size),
  splits,
  partials,
};
/** Elements from head to head and from row to row, within a block or a cache. */
const layouts = {
  linear: { head: length * size, row: size },
  NHSD: { head: blockSize * size, row: size },
  Norm: { head: size, row: kvHeads * size },
};
const stores = Array.from({ length: resident ? 1 : caches }, () => {
  const count = kvHeads * length * size;
  const store = () => {
    const at = team.take(count * width);
    if (half) new Uint16Array(team.memory.buffer, at, count).fill(0x3555);
    else team.fill(at, count);
    return at;
  };
  return { key: store(), value: store() };
});
const jobs = Object.entries(layouts).map(([name, { head, row }]) =>
  stores.map(({ key, value }) => {
    const strides = { key, value, keyHead: head, keyRow: row, valueHead: head, valueRow: row };
    if (name === "linear") return team.job("attentionDecode", { ...shared, ...strides });
    const block = kvHeads * blockSize * size;
    return team.job("pagedDecode", {
      ...shared,
      ...strides,
      lengths,
      lengthBytes: 4,
      tables,
      tableBytes: 4,
      blockSize,
      keyBlock: block,
      valueBlock: block,
      pageHeads: kvHeads,
    });
  }),
);
const times = interleave(
  jobs.map((each, at) => (round) => team.run(each[(round + at) % each.length])),
  { rounds, warm: 8 },
);
Object.keys(layouts).forEach((name, at) => {
  const { median, least } = times[at];
  const ratio = (times[0].median / median).toFixed(3);
  console.log(
    `${name.padEnd(8)} median ${median.toFixed(3)} ms, least ${least.toFixed(3)}: ${ratio} of linear's speed`,
  );
});
await team.stop();
