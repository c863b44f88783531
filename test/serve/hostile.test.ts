// The server in a process of its own under requests that mean harm, with its health asked for by another: each ends, memory is bounded, the process
// goes on and makes the known text. A sample here, always the same; in the soak 10,000, and the clock is judged too.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { soak } from "../support/soak.js";

const script = fileURLToPath(new URL("../../scripts/soak/hostile.mjs", import.meta.url));
const counts = soak ? ["--count", "10000", "--judge-time"] : ["--count", "60", "--timeout", "5"];

test("requests that mean harm harm nobody", () => {
  const seed = process.env["INSITU_SEED"] ?? (soak ? undefined : "20");
  const env = { ...process.env, ...(seed === undefined ? {} : { INSITU_SEED: seed }) };
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...counts], { encoding: "utf8", env });
  console.log(stdout);
  expect([status, stderr]).toEqual([0, ""]);
});
