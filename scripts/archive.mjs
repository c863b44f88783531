// Test data archives: tar inside brotli, which Node reads without help.
// `node scripts/archive.mjs pack FOLDER OUT.tar.br` makes one; readArchive gives its files by path.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, brotliDecompressSync, constants } from "node:zlib";

const block = 512;

/** The files of an archive: path → bytes. */
export function readArchive(path) {
  const bytes = brotliDecompressSync(readFileSync(path));
  const text = (start, length) => bytes.toString("utf8", start, start + length).replace(/\0.*$/s, "");
  const files = new Map();
  for (let at = 0; at + block <= bytes.length && bytes[at] !== 0;) {
    const prefix = text(at + 345, 155);
    const name = (prefix === "" ? "" : `${prefix}/`) + text(at, 100);
    const size = parseInt(text(at + 124, 12), 8);
    if (text(at + 156, 1) === "0") files.set(name, bytes.subarray(at + block, at + block + size));
    at += block + Math.ceil(size / block) * block;
  }
  return files;
}

function header(name, size) {
  const bytes = Buffer.alloc(block);
  // ustar: a long path is split at a slash into prefix and name.
  const cut = Buffer.byteLength(name) <= 100 ? -1 : name.indexOf("/", name.length - 100);
  bytes.write(cut < 0 ? name : name.slice(cut + 1), 0);
  bytes.write("0000644\0" + "0000000\0" + "0000000\0", 100);
  bytes.write(`${size.toString(8).padStart(11, "0")}\0${"0".repeat(11)}\0${" ".repeat(8)}0`, 124);
  bytes.write("ustar\x0000", 257);
  if (cut >= 0) bytes.write(name.slice(0, cut), 345);
  let sum = 0;
  for (const byte of bytes) sum += byte;
  bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return bytes;
}

/** Packs every file below a folder, in order of path. */
export function packArchive(folder, out) {
  const parts = [];
  const visit = (path) => {
    for (const entry of readdirSync(path).sort()) {
      const full = join(path, entry);
      if (statSync(full).isDirectory()) visit(full);
      else {
        const bytes = readFileSync(full);
        parts.push(
          header(relative(folder, full), bytes.length),
          bytes,
          Buffer.alloc((block - (bytes.length % block)) % block),
        );
      }
    }
  };
  visit(folder);
  const tar = Buffer.concat([...parts, Buffer.alloc(2 * block)]);
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = constants;
  const params = { [BROTLI_PARAM_QUALITY]: 11, [BROTLI_PARAM_LGWIN]: 24, [BROTLI_PARAM_SIZE_HINT]: tar.length };
  writeFileSync(out, brotliCompressSync(tar, { params }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , verb, folder, out] = process.argv;
  if (verb !== "pack" || !out) throw new Error("usage: node scripts/archive.mjs pack FOLDER OUT.tar.br");
  packArchive(folder, out);
}
