// Texts compared token by token, and folders in the hub's layout made of exported decoders.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import type { GeneratedToken } from "../../src/generate/generation.js";

/** The folder of the embedded model. */
export const embedded: string = fileURLToPath(new URL("../../models/embedded", import.meta.url));

/** All tokens of a generation. */
export async function tokensOf(generation: AsyncIterable<GeneratedToken>): Promise<GeneratedToken[]> {
  const tokens: GeneratedToken[] = [];
  for await (const token of generation) tokens.push(token);
  return tokens;
}

/** Two logits this close may change places where sums are taken in another order. */
export const tie = 1e-3;

/**
 * Fails unless the tokens are those of `wanted`, or differ first at a step whose two best logits are a tie; such a step is listed.
 * `wanted` must have its two likeliest tokens (logprobs: 2).
 */
export function expectSameTokens(
  actual: readonly { readonly token: number }[],
  wanted: readonly GeneratedToken[],
  what: string,
): void {
  const at = wanted.findIndex(({ token }, index) => actual[index]?.token !== token);
  if (at < 0) {
    expect(actual.length, what).toBe(wanted.length);
    return;
  }
  const [best, second] = wanted[at].top!;
  console.log(
    `${what}: differs from step ${at} on, where the best two logits are ${(best.logprob - second.logprob).toExponential(1)} apart`,
  );
  expect(best.logprob - second.logprob, `${what}, step ${at}`).toBeLessThan(tie);
}

/** A byte is a token: tokenizer.json of a vocabulary of 256, as byte-level tokenizers spell bytes. */
export function byteTokenizer(): object {
  const printable = (byte: number): boolean => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let next = 256;
  const spelling = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
  return {
    version: "1.0",
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: false },
    post_processor: null,
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab: Object.fromEntries(spelling.map((text, byte) => [text, byte])), merges: [] },
  };
}

/** A folder in the hub's layout with one of the exported decoders of test/models; `more` are further files. */
export function hubFolder(
  decoder: string,
  more: Readonly<Record<string, string | Uint8Array | object | undefined>> = {},
): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "insitu-hub-"));
  mkdirSync(join(path, "onnx"));
  const archive = fileURLToPath(new URL("../models/decoders.tar.br", import.meta.url));
  const files: Record<string, string | Uint8Array | object | undefined> = {
    "onnx/model.onnx": (readArchive(archive) as Map<string, Uint8Array>).get(`${decoder}/model.onnx`)!,
    "tokenizer.json": byteTokenizer(),
    "tokenizer_config.json": { eos_token: "\u0100" },
    "config.json": { vocab_size: 256, max_position_embeddings: 128, model_type: "llama" },
    ...more,
  };
  for (const [name, contents] of Object.entries(files)) {
    if (contents === undefined) continue;
    const plain = typeof contents === "string" || contents instanceof Uint8Array;
    writeFileSync(join(path, name), plain ? contents : JSON.stringify(contents));
  }
  return { path, remove: () => rmSync(path, { recursive: true }) };
}
