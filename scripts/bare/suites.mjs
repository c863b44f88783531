// Runs suites that bundle.mjs made, several at once, whole, and sums up; on a GPU it notes the result as scripts/on-a-gpu.mjs does:
//   node scripts/bare/suites.mjs <folder of bundles> <commit> <record.json> [at once, 6]
// Run it in the root of the repository: the suites read their files from there.
import { spawn } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { adapterName, noteOnGpu } from "../on-a-gpu.mjs";

const [folder, commit, record, atOnce = "6"] = process.argv.slice(2);
if (record === undefined)
  throw new Error("usage: node scripts/bare/suites.mjs <folder of bundles> <commit> <record.json> [at once]");
const mostMinutes = 8;

const waiting = readdirSync(folder)
  .filter((name) => name.endsWith(".mjs"))
  .toSorted();
const env = { ...process.env, INSITU_SOAK: "1", INSITU_PARTS: "GPU" };
const total = { passed: 0, failed: 0 };

/** Runs one suite and prints what it printed; a suite that ends without a count has failed. */
const run = (name) =>
  new Promise((done) => {
    const began = performance.now();
    const child = spawn(process.execPath, [join(folder, name)], { env, stdio: ["ignore", "pipe", "pipe"] });
    let [text, told] = ["", ""];
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (text += chunk));
    // A driver's last words on the other one may come behind the count.
    child.stdout.on("data", (chunk) => (told += chunk));
    const clock = setTimeout(() => child.kill("SIGKILL"), mostMinutes * 60_000);
    child.on("close", (code, signal) => {
      clearTimeout(clock);
      const count = /: (\d+) passed, (\d+) failed$/m.exec(told);
      total.passed += Number(count?.[1] ?? 0);
      total.failed += Number(count?.[2] ?? 1);
      const ended = count === null ? `ended with ${signal ?? code}, without a count\n` : "";
      console.log(`${text.trimEnd()}\n${ended}${name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
      done();
    });
  });

const next = async () => {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) await run(name);
};
await Promise.all(Array.from({ length: Number(atOnce) }, next));
const result = `${total.passed} passed, ${total.failed} failed`;
const device = await adapterName();
if (device === undefined) console.log("no GPU here: no record");
else writeFileSync(record, noteOnGpu({ commit, device, result }));
console.log(result);
process.exit(total.failed > 0 ? 1 : 0);
