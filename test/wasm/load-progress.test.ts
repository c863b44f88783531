// Progress of loading on a terminal: silent while it is quick, then one line that is wiped at the end; silent elsewhere.
import { expect, test, vi } from "vitest";
import { loadProgress } from "../../packages/cli/load-progress.js";

function told(isTTY: boolean, seconds: number): string[] {
  const lines: string[] = [];
  const now = vi.spyOn(performance, "now").mockReturnValue(0);
  const progress = loadProgress({ isTTY, write: (text: string) => lines.push(text) > 0 });
  const of = { phase: "weights", pipelines: { ready: 0, total: 0 } } as const;
  progress(1, 4, of);
  now.mockReturnValue(seconds * 1000);
  progress(2 * 2 ** 20, 4 * 2 ** 20, of);
  progress(4 * 2 ** 20, 4 * 2 ** 20, of);
  now.mockRestore();
  return lines;
}

test("is told after two seconds, on a terminal", () => {
  expect(told(true, 3)).toEqual(["\r\x1b[Kloading weights: 2.0 MiB of 4.0 MiB (50 %)", "\r\x1b[K"]);
  expect(told(true, 1)).toEqual([]);
  expect(told(false, 3)).toEqual([]);
});

test("tells of planning, and of shaders that are compiled meanwhile", () => {
  const lines: string[] = [];
  const now = vi.spyOn(performance, "now").mockReturnValue(0);
  const progress = loadProgress({ isTTY: true, write: (text: string) => lines.push(text) > 0 });
  progress(1, 4, { phase: "plan", pipelines: { ready: 0, total: 0 } });
  now.mockReturnValue(3000);
  progress(1, 4, { phase: "plan", pipelines: { ready: 0, total: 0 } });
  progress(2, 4, { phase: "weights", pipelines: { ready: 3, total: 20 } });
  now.mockRestore();
  expect(lines).toEqual([
    "\r\x1b[Kplanning, weights: 1 bytes of 4 bytes (25 %)",
    "\r\x1b[Kloading weights: 2 bytes of 4 bytes, shaders: 3 of 20 (50 %)",
  ]);
});
