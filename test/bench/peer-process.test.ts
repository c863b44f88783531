// Processes of peers: one that hangs or ends is told in words, and what a process takes of a GPU is counted from what the machine says.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { DeviceMemory } from "../../tools/bench/models/device-memory.js";
import { PeerProcess } from "../../tools/bench/peer-process.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-peer-process-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A script that hangs in `hang`, ends in `die` and answers everything else. */
const script = join(folder, "peer.mjs");
writeFileSync(
  script,
  `process.on("message", ({ id, call }) => {
  if (call === "hang") for (;;);
  if (call === "die") { console.error("why"); process.exit(3); }
  process.send({ id, value: call });
});`,
);

test("one that does not answer in time is ended, and asked no more", async () => {
  const peer = new PeerProcess("a peer", script);
  expect(await peer.ask("open", [], 60_000)).toBe("open");
  await expect(peer.ask("hang", [], 300)).rejects.toThrow(
    'a peer: it did not answer "hang" within 0.3 s and was ended',
  );
  await expect(peer.ask("open", [])).rejects.toThrow("did not answer");
  await peer.end();
});

test("one that ends by itself says why", async () => {
  const peer = new PeerProcess("a peer", script);
  await expect(peer.ask("die", [], 60_000)).rejects.toThrow("a peer: its process ended with 3: why");
  await peer.end();
});

test("what a process takes of a GPU is what the machine has less of when it is done", async () => {
  const path = process.env["PATH"];
  const [bin, level] = [join(folder, "nvidia-smi"), join(folder, "level")];
  // Two GPUs: the second never changes.
  writeFileSync(bin, `#!/bin/sh\n[ "$1" = --query-gpu=memory.used ] || exit 1\ncat ${level}\necho 7\n`);
  chmodSync(bin, 0o755);
  const taken = (mebibytes: number): void => writeFileSync(level, `${mebibytes}\n`);
  try {
    process.env["PATH"] = `${folder}${delimiter}${path}`;
    const memory = new DeviceMemory();
    expect(memory.bytes).toBeUndefined();
    taken(100);
    expect(await memory.during(async () => (taken(350), "opened"))).toBe("opened");
    taken(9000); // Another process.
    await memory.during(async () => taken(9010));
    expect(memory.bytes).toBe(260 * 2 ** 20);
    // Where nobody tells any more, nothing more is counted.
    rmSync(bin);
    process.env["PATH"] = folder;
    await memory.during(async () => taken(1));
    expect(memory.bytes).toBe(260 * 2 ** 20);
  } finally {
    process.env["PATH"] = path;
  }
});
