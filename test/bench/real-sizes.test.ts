// The tables of real sizes: each kind of device has its own, from its own reports, and what nobody measured is not there.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "insitu-real-sizes-"));
afterAll(() => rmSync(folder, { recursive: true }));

const script = (...args: string[]): string =>
  execFileSync(process.execPath, [join(root, "scripts/real-sizes.mjs"), ...args], { encoding: "utf8" });

const figures = { "tokens a second": 500, "MiB at most": 1024, "of the file": 2 };

/** A report of one model, as `insitu bench models --json` prints it. */
function reportOf(gpu: string | null, more: Readonly<Record<string, number>>, failed: readonly object[] = []): string {
  const [insitu, peer] = gpu === null ? ["insitu", "a peer"] : ["insitu on webgpu", "a peer on its GPU"];
  const contestants = [
    { name: insitu, runtime: "insitu", medianMs: 2, problem: null, figures: { ...figures, ...more } },
    { name: peer, runtime: "peer", medianMs: 4, problem: null, figures },
  ];
  const group = (kind: string): object => ({ name: `Model-1B: ${kind}`, contestants, failed });
  const path = join(folder, `${gpu ?? "processor"}.json`);
  const report = {
    command: `npx insitu bench models${gpu === null ? "" : " --backend webgpu"}`,
    threads: 2,
    machine: { cpu: "a processor", cores: 16, node: "24.0.0", gpu, loadAverage: 0.5 },
    versions: { insitu: "0.1.0", peer: "1.0.0" },
    loads: [
      {
        groups: [
          group(`loading, 16 layers of 2048, vocabulary 128,256${gpu === null ? "" : ", float16"}`),
          group("the first token behind a prompt of 512"),
          group("one token at context 512"),
          group("one token at context 4096"),
        ],
      },
    ],
  };
  writeFileSync(path, JSON.stringify(report));
  return path;
}

const page =
  "before\n\n<!-- real sizes -->\n\nold\n\n<!-- end -->\n\n<!-- real sizes: gpu -->\n\n<!-- end -->\n\nbehind\n";

test("a page has the tables of those devices that were measured, and the others stay as they are", () => {
  const path = join(folder, "page.md");
  writeFileSync(path, page);
  script(reportOf(null, {}), path, `${folder}/`);
  const first = readFileSync(path, "utf8");
  expect(first).toContain("| Model-1B | insitu | 2 ms | 2 ms | 500 | 500 | 1,024 MiB (2.00 ×) |");
  expect(first).toContain("2 threads each; a processor, 16 cores");
  expect(first).toContain("<!-- real sizes: gpu -->\n\n<!-- end -->\n\nbehind\n");
  expect(first).not.toContain("old");
  expect(readdirSync(folder)).not.toContain("real-sizes-gpu.svg");

  script(reportOf("gpu-9, its driver", { "MiB on the device": 900 }), path, `${folder}/`);
  const second = readFileSync(path, "utf8");
  // The processor's table is the same as before.
  expect(second.startsWith(first.slice(0, first.indexOf("<!-- real sizes: gpu -->")))).toBe(true);
  expect(second).toContain("activations and caches in float16.");
  expect(second).toContain("| Model-1B | insitu on webgpu | 2 ms | 2 ms | 500 | 500 | 1,024 MiB | 900 MiB |");
  // Of the peer nobody told what it takes there.
  expect(second).toContain("| Model-1B | a peer on its GPU | 4 ms | 4 ms | 500 | 500 | 1,024 MiB |  |");
  expect(second).toContain("peer 1.0.0; gpu-9, its driver; a processor, 16 cores");
  expect(readFileSync(join(folder, "real-sizes-gpu.svg"), "utf8")).toContain("weights of 4 bits, on gpu-9; longer");
});

test("a column that nobody has a figure for is left out, and failures are told below the table, once", () => {
  const failed = [{ name: "another", problem: "it found no device" }];
  const printed = script(reportOf("gpu-9", {}, failed));
  expect(printed).toContain("| the host's memory at most, at 512 |\n");
  expect(printed.match(/Model-1B, another: it found no device/g)).toHaveLength(1);
});

test("the page has a place for either table", () => {
  for (const mark of ["real sizes", "real sizes: gpu"])
    expect(readFileSync(join(root, "docs/performance.md"), "utf8")).toMatch(
      new RegExp(`<!-- ${mark} -->\n[^]*?\n<!-- end -->`),
    );
});
