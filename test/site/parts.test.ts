// Parts of the page that need no browser: code in colours, files that go with a message, and which cell is under a point.
import { describe, expect, test } from "vitest";
import { attach, attached, attachProblem, withAttached } from "../../site/src/state/attached.js";
import { piecesOf } from "../../site/src/highlight.js";
import { cellAt, gridOf, Painting, type Picture, pictureOf } from "../../site/src/cache-picture.js";
import { seededRandom } from "../../src/graph/call.js";
import { soak } from "../support/soak.js";

const languages = ["js", "py", "sql", "html", "nonsense", "text", "", undefined];

describe("code in colours", () => {
  test("no character is lost, whatever the code", () => {
    const random = seededRandom(3);
    const alphabet = [
      "/",
      "*",
      "-",
      "#",
      '"',
      "'",
      "`",
      "\\",
      "\n",
      " ",
      "a",
      "if",
      "return",
      "7",
      "0x1f",
      "<!--",
      "-->",
      "é",
      "𝄞",
    ];
    for (let round = 0; round < (soak ? 20_000 : 500); round++) {
      const length = Math.floor(random() * 60);
      const code = Array.from({ length }, () => alphabet[Math.floor(random() * alphabet.length)]).join("");
      for (const language of languages)
        expect(
          piecesOf(code, language)
            .map(([, text]) => text)
            .join(""),
        ).toBe(code);
    }
  });

  test.each([
    ["js", "return 1; // two", ["word:return", "number:1", "comment:// two"]],
    ["js", "a = 'if' + `b`", ["text:'if'", "text:`b`"]],
    ["python", "def f(): # return", ["word:def", "comment:# return"]],
    ["sql", "SELECT a -- FROM", ["word:SELECT", "comment:-- FROM"]],
    ["js", "ifs.format(x1)", []],
    ["text", "return 1", []],
  ])("%s: %s", (language, code, expected) => {
    const coloured = piecesOf(code, language).filter(([kind]) => kind !== undefined);
    expect(coloured.map(([kind, text]) => `${kind}:${text}`)).toEqual(expected);
  });

  test("long code, and quotes without an end, are shown whole", () => {
    for (const code of ["'".repeat(19_999), "/*".repeat(9_999), `"${"\\".repeat(19_000)}`, "<!--".repeat(4_999)])
      expect(
        piecesOf(code, "js")
          .map(([, text]) => text)
          .join(""),
      ).toBe(code);
  });
});

describe("files that go with a message", () => {
  test("stand before it in fences that nothing in them closes", () => {
    const files = [
      { name: "a.md", text: "```js\nlet a;\n```\n" },
      { name: "b.txt", text: "plain" },
    ];
    expect(withAttached(files, "What is this?")).toBe(
      "a.md\n````\n```js\nlet a;\n```\n````\n\nb.txt\n```\nplain\n```\n\nWhat is this?",
    );
    expect(withAttached([], "Alone")).toBe("Alone");
    expect(withAttached(files.slice(1), "  ")).toBe("b.txt\n```\nplain\n```");
  });

  test("are texts; what is none is told by its name", async () => {
    attached.value = [];
    await attach([new File(["some text"], "a.txt"), new File([Uint8Array.of(1, 0, 255)], "b.bin")]);
    expect(attached.value).toEqual([{ name: "a.txt", text: "some text" }]);
    expect(attachProblem.value).toBe("“b.bin” was not attached: it is no text.");
    await attach([new File(["x".repeat(2_000_001)], "c.txt")]);
    expect(attachProblem.value).toMatch(/“c.txt” was not attached: it is larger than 2 MB/);
    await attach([new File(["y"], "d`\n.txt")]);
    expect([attachProblem.value, attached.value.at(-1)!.name]).toEqual(["", "d.txt"]);
  });
});

test("the cell under a point is the one that is painted there, at any width and block size", () => {
  const colours = { cells: new Proxy({}, { get: () => "#000" }) as never, mark: "#fff" };
  for (const blockSize of [1, 16, 30, 256])
    for (const width of [120, 333, 361, 900]) {
      const facts = {
        blockSize,
        rowBytes: 1,
        texts: [],
        blocks: Array.from({ length: 67 }, () => ({ use: "free" as const, rows: 0 })),
      };
      const picture: Picture = pictureOf(facts, 512, undefined, new Set());
      const grid = gridOf(picture, width);
      const painted: (readonly [number, number, number, number])[] = [];
      const context = {
        canvas: { width, height: grid.height },
        setTransform() {},
        clearRect() {},
        fillRect: (...given: [number, number, number, number]) => void painted.push(given),
      };
      new Painting().draw(context as never, picture, grid, colours, undefined);
      expect(painted.length).toBe(67 * blockSize);
      // All that are wrong in one list: there are some ten thousand.
      const wrong = painted.filter(([x, y, wide, high], at) => {
        const found = cellAt(picture, grid, x + wide / 2, y + high / 2);
        const isInside = Math.min(x, y) >= 1 && y + high <= grid.height && (grid.across === 1 || x + wide <= width);
        return found?.block !== Math.floor(at / blockSize) || found.row !== at % blockSize || !isInside;
      });
      expect(wrong).toEqual([]);
      expect(cellAt(picture, grid, -5, -5)).toBeUndefined();
    }
});
