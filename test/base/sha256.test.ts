// The digest that names are made with is the platform's, for every length around the ends of its blocks.
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { seededRandom } from "../../src/graph/call.js";
import { Sha256, sha256 } from "../../src/base/sha256.js";

test("digests of 0 to 200 bytes, and of many", () => {
  for (const length of [...Array.from({ length: 201 }, (_, at) => at), 100_000]) {
    const bytes = Uint8Array.from({ length }, (_, at) => (at * 167 + length) & 255);
    expect(Buffer.from(sha256(bytes)).toString("hex")).toBe(createHash("sha256").update(bytes).digest("hex"));
  }
});

test("of bytes that come in pieces of any size", () => {
  const random = seededRandom(3);
  for (let round = 0; round < 200; round++) {
    const bytes = Uint8Array.from({ length: Math.floor(random() * 700) }, () => random() * 256);
    const digest = new Sha256();
    for (let at = 0; at < bytes.length;) {
      const end = at + Math.floor(random() * 150);
      digest.update(bytes.subarray(at, end));
      at = end;
    }
    expect(Buffer.from(digest.end()).toString("hex")).toBe(createHash("sha256").update(bytes).digest("hex"));
  }
});
