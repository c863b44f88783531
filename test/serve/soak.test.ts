// The server in a process of its own under clients of every kind: every block free and the known text right after each phase. Memory is judged
// by runs of twenty minutes and more: INSITU_SOAK_MINUTES says how long the soak's is.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { soak } from "../support/soak.js";

const script = fileURLToPath(new URL("../../scripts/soak/serve.mjs", import.meta.url));
const minutes = soak ? (process.env["INSITU_SOAK_MINUTES"] ?? "20") : "0.03";

test("clients that come, leave, stall and send nonsense: nothing is left behind", () => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [script, "--minutes", minutes, "--phase", soak ? "20" : "2"],
    { encoding: "utf8" },
  );
  console.log(stdout);
  expect([status, stderr]).toEqual([0, ""]);
});
