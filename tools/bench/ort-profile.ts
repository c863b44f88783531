/**
 * What onnxruntime's own profiler says of the kernels of a run: the part of its time that is neither binding nor copying of
 * inputs and outputs. The profile goes through a file in a folder of its own.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Profile } from "./load.js";
import type { OrtSession, Peer } from "./peers.js";

interface ProfileEvent {
  readonly cat?: string;
  readonly name?: string;
  /** Microseconds since the session began, and how many it took. */
  readonly ts?: number;
  readonly dur?: number;
}

/** A profiled session, beside the one that is timed. */
export async function profileOf(
  peer: Peer,
  model: Uint8Array,
  run: (session: OrtSession) => Promise<unknown>,
): Promise<Profile> {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bench-"));
  const session = await peer.session(model, { enableProfiling: true, profileFilePrefix: join(folder, "profile") });
  return {
    run: async () => void (await run(session)),
    async stop() {
      try {
        session.endProfiling();
        await session.release();
        return kernelTimes(
          readdirSync(folder).flatMap((file) => JSON.parse(readFileSync(join(folder, file), "utf8")) as ProfileEvent[]),
        );
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  };
}

/** Milliseconds of all kernels, run by run: a kernel belongs to the run in whose time it began. */
function kernelTimes(events: readonly ProfileEvent[]): number[] {
  const runs = events
    .filter(({ name }) => name === "model_run")
    .map(({ ts = 0, dur = 0 }) => ({ from: ts, to: ts + dur }))
    .sort((a, b) => a.from - b.from);
  return runs.map(({ from, to }) => {
    const kernels = events.filter(
      ({ cat, name, ts = 0 }) => cat === "Node" && name?.endsWith("_kernel_time") && ts >= from && ts <= to,
    );
    return kernels.reduce((sum, { dur = 0 }) => sum + dur, 0) / 1000;
  });
}
