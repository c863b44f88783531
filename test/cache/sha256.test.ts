// The digest that names are made with is the platform's, for every length around the ends of its blocks.
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { sha256 } from "../../src/cache/sha256.js";

test("digests of 0 to 200 bytes, and of many", () => {
  for (const length of [...Array.from({ length: 201 }, (_, at) => at), 100_000]) {
    const bytes = Uint8Array.from({ length }, (_, at) => (at * 167 + length) & 255);
    expect(Buffer.from(sha256(bytes)).toString("hex")).toBe(createHash("sha256").update(bytes).digest("hex"));
  }
});
