// A folder of pages: for its owner alone, within its bound however many write to it, made again where it was taken away, and never waited for.
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openPageFolder } from "../../packages/stores/page-folder.js";

const root = mkdtempSync(join(tmpdir(), "insitu-pages-"));
afterAll(() => rmSync(root, { recursive: true }));

const signal = new AbortController().signal;
const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);
const sizeOf = (folder: string): number =>
  readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
const values = (names: readonly string[], bytes: number): Map<string, Uint8Array> =>
  new Map(names.map((name) => [name, new Uint8Array(bytes).fill(7)]));

test("folder and files are for their owner alone, also one that was open before", async () => {
  const folder = join(root, "above", "own");
  const store = await openPageFolder(folder, 10_000);
  await store.save(values(["a"], 100), signal);
  expect([modeOf(folder), modeOf(join(folder, "a.page"))]).toEqual(["700", "600"]);
  chmodSync(folder, 0o755);
  await openPageFolder(folder, 10_000);
  expect(modeOf(folder)).toBe("700");
  // What is not only its own stays as it is.
  writeFileSync(join(folder, "a letter.txt"), "");
  chmodSync(folder, 0o755);
  await openPageFolder(folder, 10_000);
  expect(modeOf(folder)).toBe("755");
});

test("a folder that was taken away is made again", async () => {
  const folder = join(root, "taken");
  const store = await openPageFolder(folder, 10_000);
  await store.save(values(["a"], 100), signal);
  rmSync(folder, { recursive: true });
  expect(await store.load(["a"], signal)).toEqual([undefined]);
  await store.save(values(["b", "c"], 100), signal);
  expect([modeOf(folder), readdirSync(folder).toSorted()]).toEqual(["700", ["b.page", "c.page"]]);
  expect((await store.load(["b"], signal))[0]).toHaveLength(100);
});

test("two that write to one folder keep to its bound together", async () => {
  const folder = join(root, "shared");
  const bound = 100_000;
  const [one, other] = [await openPageFolder(folder, bound), await openPageFolder(folder, bound)];
  let most = 0;
  for (let at = 0; at < 200; at++) {
    await (at % 2 === 0 ? one : other).save(values([`page ${at}`], 1500), signal);
    most = Math.max(most, sizeOf(folder));
  }
  expect(most).toBeLessThanOrEqual(bound);
  expect(sizeOf(folder)).toBeGreaterThan(bound / 2);
  expect((await other.load(["page 199"], signal))[0]).toHaveLength(1500);
});

test.skipIf(process.platform === "win32")("what is no file, or larger than a page can be, is not read", async () => {
  const folder = join(root, "strange");
  mkdirSync(folder);
  symlinkSync("/dev/zero", join(folder, "link.page"));
  spawnSync("mkfifo", [join(folder, "pipe.page")]);
  mkdirSync(join(folder, "folder.page"));
  writeFileSync(join(folder, "large.page"), new Uint8Array(5000));
  writeFileSync(join(folder, "right.page"), new Uint8Array(500));
  const store = await openPageFolder(folder, 1_000_000);
  for (const name of ["link", "pipe", "folder", "large"])
    expect(await store.load([name], signal, 500), name).toEqual([undefined]);
  expect((await store.load(["right"], signal, 500))[0]).toHaveLength(500);
});

test.skipIf(!existsSync("/proc/self"))("a place where no folder can be made is refused at once", async () => {
  for (const folder of ["/proc/nope", "/proc/nope/deeper", "/dev/null", "/dev/null/below"])
    await expect(openPageFolder(folder, 1000)).rejects.toMatchObject({
      code: "invalid-argument",
      message: expect.stringContaining(`the folder of pages "${folder}" cannot be used`) as string,
    });
});
