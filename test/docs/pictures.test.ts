// Every picture that insitu draws, those of docs/ and those of its commands: plain colours that any program understands, nothing cut off in a
// browser, and no black boxes in librsvg, where it is installed.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { reportSvg } from "../../tools/bench/chart.js";
import type { Report } from "../../tools/bench/report.js";
import { serveSvg } from "../../tools/bench/serve/print.js";
import type { ServeReport } from "../../tools/bench/serve/run.js";
import { themed } from "../../tools/pictures/draw-svg.js";
import { findChromium, howToInstall, startChromium } from "../browser/chromium.js";

const docs = new URL("../../docs/", import.meta.url);
const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);
const hasRsvg = spawnSync("rsvg-convert", ["--version"]).status === 0;
if (!hasRsvg) console.log("pictures were not tried in librsvg: Debian has it as librsvg2-bin");

const machine = { cpu: "a processor with a name that is as long as some of them are", cores: 128, node: "20.20.2" };

/** Long names, times far apart, and one that is no time at all. */
const report = {
  command: "npx insitu bench scatter",
  versions: { insitu: "0.1.0", "onnxruntime-node": "1.30.0" },
  machine,
  loads: [
    {
      groups: [
        {
          name: "one token into a 64.0 MiB cache, float32 [4,8,4096,128]",
          contestants: [
            { name: "insitu, in place", runtime: "insitu", medianMs: 0.0048, ratio: 1, kernelMs: null },
            {
              name: "a runtime with a long name, and a way of doing it with a longer one",
              runtime: "other",
              medianMs: 4870,
              ratio: 8681,
              kernelMs: 0,
            },
            { name: "wrong", runtime: "other", medianMs: 14.7, ratio: null, kernelMs: 6.7 },
          ],
        },
      ],
    },
  ],
};

const serving = {
  command: "npx insitu bench serve --concurrency 1,2,4,8",
  machine,
  loads: [{ name: "chat" }, { name: "documents" }],
  rows: ["chat", "documents"].flatMap((load) =>
    ["insitu", "insitu, one text at a time", "another server"].flatMap((server, at) =>
      [1, 2, 4].map((concurrency) => ({
        load,
        server,
        pace: { concurrency },
        figures: { tokensPerSecond: 1234.5 * at + concurrency },
      })),
    ),
  ),
};

/** The parts of a report that a picture needs, taken for a whole one. */
const taken = <T>(parts: object): T => JSON.parse(JSON.stringify(parts)) as T;

const pictures = new Map([
  ...["", "img/"].flatMap((folder) =>
    readdirSync(new URL(folder, docs))
      .filter((name) => name.endsWith(".svg"))
      .map((name) => [`docs/${folder}${name}`, readFileSync(new URL(folder + name, docs), "utf8")] as const),
  ),
  ["bench --svg", reportSvg(taken<Report>(report))],
  ["bench serve --svg", serveSvg(taken<ServeReport>(serving))],
]);

test("colours are plain, and there are dark ones for dark readers", () => {
  expect(pictures.size).toBeGreaterThan(20);
  for (const [name, svg] of pictures) {
    expect(svg, name).not.toMatch(/var\(|light-dark\(|currentColor|color-mix|\$\w/i);
    expect(svg, name).toMatch(/@media \(prefers-color-scheme:dark\)\{[^@]*\.ground\{fill:#0d1117/);
    expect(svg, name).toMatch(/^<svg [^>]*viewBox="0 0 \d+ \d+"/);
  }
  expect(themed(".a{fill:$x;r:2}.b{r:3}", { x: ["#fff", "#000"] })).toBe(
    ".a{fill:#fff;r:2}.b{r:3}@media (prefers-color-scheme:dark){.a{fill:#000}}",
  );
  expect(() => themed(".a{fill:$y}", {})).toThrow(/no colour y/);
});

test("a chart on a logarithmic scale says so, has an axis, and no bars", () => {
  for (const name of ["docs/img/tensorscatter-versus-scatternd.svg", "bench --svg"]) {
    const svg = pictures.get(name)!;
    expect(svg).toContain("logarithmic scale");
    expect(svg).toMatch(/>10 µs<\/text>[^]*>100 µs<\/text>[^]*>1 ms<\/text>/);
    // The ground alone.
    expect(svg.match(/<rect /g)).toHaveLength(1);
  }
});

describe.skipIf(chromium === undefined)("drawn", () => {
  let browser: Browser;
  let page: Page;
  beforeAll(async () => {
    browser = await startChromium(chromium!);
    page = await browser.newPage();
  });
  afterAll(() => browser?.close());

  test("no text is cut off in a browser", async () => {
    const outside = await page.evaluate(
      (all) =>
        all.flatMap(([name, svg]) => {
          document.body.innerHTML = svg;
          const whole = document.querySelector("svg")!.getBoundingClientRect();
          return [...document.querySelectorAll("text")].flatMap((text) => {
            const { left, right, top, bottom } = text.getBoundingClientRect();
            const isInside =
              left >= whole.left && right <= whole.right && top >= whole.top && bottom <= whole.bottom && right > left;
            return isInside || text.textContent === "" ? [] : [`${name}: ${text.textContent}`];
          });
        }),
      [...pictures],
    );
    expect(outside).toEqual([]);
  });

  test.skipIf(!hasRsvg)("librsvg paints no black boxes", async () => {
    for (const [name, svg] of pictures) {
      const { status, stdout } = spawnSync("rsvg-convert", ["--zoom", "0.5"], { input: svg, maxBuffer: 2 ** 26 });
      expect(status, name).toBe(0);
      const black = await page.evaluate(async (png) => {
        const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
        const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d")!;
        canvas.drawImage(image, 0, 0);
        const { data } = canvas.getImageData(0, 0, image.width, image.height);
        let count = 0;
        for (let at = 0; at < data.length; at += 4)
          if (data[at] + data[at + 1] + data[at + 2] < 60 && data[at + 3] > 200) count++;
        return count / (data.length / 4);
      }, stdout.toString("base64"));
      expect(black, name).toBeLessThan(0.05);
    }
  });
});
