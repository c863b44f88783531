// Models by name: fetched from a hub that is a server on this machine, with cut connections, damage, and no network at all.
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { InsituError } from "../../src/base/error.js";
import { downloadFile as downloadInto } from "../../packages/hub/download-file.js";
import type { HubOptions } from "../../packages/hub/models-api.js";
import { folderStore } from "../../src/platform/model-folder-store.js";
import { fetchNamedModel } from "../../src/platform/node-models.js";
import { builtCommand } from "../support/built.js";
import { hubFolder } from "../generate/support.js";

const fetchHubModel = async (name: string, options: HubOptions): Promise<string> =>
  (await fetchNamedModel(name, options, false)).folder;
const downloadFile = async (
  file: Parameters<typeof downloadInto>[0],
  target: string,
  options?: Parameters<typeof downloadInto>[2],
): Promise<void> => downloadInto(file, await folderStore(dirname(target)).partial(basename(target)), options);

const gitHash = (bytes: Uint8Array): string =>
  createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

let files: Map<string, Uint8Array>;
let server: Server;
let hubUrl: string;
let cache: string;
let requests: { path: string; range: string | undefined }[];
/** What a token is asked for: the list of files, or the files. */
let gated: "list" | "files" | undefined;
/** How the list is served other than as it is. */
let list: ((query: string, entries: readonly object[], response: ServerResponse) => void) | undefined;
/** How a file is served other than whole. */
let serve: ((path: string, bytes: Uint8Array, response: ServerResponse) => boolean) | undefined;

beforeEach(async () => {
  const folder = hubFolder("llama_op24");
  const names = ["onnx/model.onnx", "tokenizer.json", "tokenizer_config.json", "config.json"];
  files = new Map(names.map((name) => [name, new Uint8Array(readFileSync(join(folder.path, name)))]));
  folder.remove();
  cache = mkdtempSync(join(tmpdir(), "insitu-cache-"));
  requests = [];
  serve = undefined;
  list = undefined;
  gated = undefined;
  server = createServer((request, response) => {
    const path = decodeURIComponent(request.url!.split("?")[0]);
    const { range, authorization } = request.headers;
    requests.push({ path, range });
    if (gated === (path.startsWith("/api/") ? "list" : "files") && authorization !== "Bearer hf_let_me_in") {
      response.writeHead(gated === "list" ? 401 : 403).end();
      return;
    }
    if (path === "/api/models/tales/small/tree/main") {
      const entries = [...files].map(([name, bytes]) => ({
        type: "file",
        path: name,
        size: bytes.length,
        oid: gitHash(bytes),
        ...(name.endsWith(".onnx") ? { lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 100 } } : {}),
      }));
      response.setHeader("content-type", "application/json");
      if (list === undefined) response.end(JSON.stringify(entries));
      else list(request.url!, entries, response);
      return;
    }
    const bytes = files.get(path.replace("/tales/small/resolve/main/", ""));
    if (bytes === undefined) response.writeHead(404).end();
    else if (serve?.(path, bytes, response) !== true) {
      const from = range === undefined ? 0 : Number(/bytes=(\d+)-/.exec(range)![1]);
      response.writeHead(from > 0 ? 206 : 200, { "content-length": bytes.length - from }).end(bytes.subarray(from));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  hubUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(cache, { recursive: true, force: true });
});

async function refusal(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(InsituError);
  expect((error as InsituError).code).toBe("download");
  return (error as InsituError).message;
}

const filesBelow = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /\.\w+$/.test(name))
    : [];

test("a model by its name is fetched once, and then needs no network", async () => {
  const progress: string[] = [];
  const hub = { hubUrl, cache, onProgress: ({ file }: { file: string }) => progress.push(file) };
  const lm = await CausalLM.load("tales/small", { hub });
  const text = await lm.generate("abc", { maxTokens: 4, temperature: 0 }).text();
  await lm.release();
  expect(new Set(progress)).toEqual(new Set(files.keys()));
  const before = requests.length;
  const again = await CausalLM.load("tales/small", { hub: { hubUrl: "http://127.0.0.1:1", cache } });
  expect(await again.generate("abc", { maxTokens: 4, temperature: 0 }).text()).toBe(text);
  await again.release();
  expect(requests.length).toBe(before);
});

test("a connection that is cut is taken up where it ended", async () => {
  let cuts = 0;
  serve = (path, bytes, response) => {
    if (!path.endsWith(".onnx") || cuts++ > 0) return false;
    response.writeHead(200, { "content-length": bytes.length });
    response.write(bytes.subarray(0, 200_000), () => setTimeout(() => response.destroy(), 50));
    return true;
  };
  const folder = await fetchHubModel("tales/small", { hubUrl, cache });
  const asked = requests.filter(({ path }) => path.endsWith(".onnx")).map(({ range }) => range);
  expect(asked).toHaveLength(2);
  expect(asked[0]).toBeUndefined();
  expect(Number(/^bytes=(\d+)-$/.exec(asked[1]!)![1])).toBeGreaterThan(0);
  expect(sha256(readFileSync(join(folder, "onnx/model.onnx")))).toBe(sha256(files.get("onnx/model.onnx")!));
});

test("what was fetched before a process ended is not fetched again", async () => {
  serve = (path, bytes, response) => {
    if (!path.endsWith(".onnx")) return false;
    response.writeHead(200, { "content-length": bytes.length });
    response.write(bytes.subarray(0, 100_000), () => setTimeout(() => response.destroy(), 50));
    return true;
  };
  const bytes = files.get("onnx/model.onnx")!;
  const file = {
    url: `${hubUrl}/tales/small/resolve/main/onnx/model.onnx`,
    size: bytes.length,
    checksum: { kind: "sha256", value: sha256(bytes) },
  } as const;
  const target = join(cache, "model.onnx");
  expect(await refusal(downloadFile(file, target, { retries: 0 }))).toMatch(/cannot be fetched/);
  expect([existsSync(target), existsSync(`${target}.part`)]).toEqual([false, true]);
  serve = undefined;
  await downloadFile(file, target);
  expect(requests.at(-1)!.range).toMatch(/^bytes=[1-9]\d*-$/);
  expect(sha256(readFileSync(target))).toBe(sha256(bytes));
});

test.each(["onnx/model.onnx", "config.json"])("damage in %s is found, and nothing of it is kept", async (name) => {
  serve = (path, bytes, response) => {
    if (!path.endsWith(name)) return false;
    const damaged = bytes.slice();
    damaged[10] ^= 1;
    response.writeHead(200).end(damaged);
    return true;
  };
  expect(await refusal(fetchHubModel("tales/small", { hubUrl, cache }))).toMatch(
    /is damaged: its checksum is \w+, not \w+/,
  );
  expect(filesBelow(cache).filter((path) => path.includes(name.split("/").at(-1)!))).toEqual([]);
  expect(filesBelow(cache).some((path) => path.includes("complete"))).toBe(false);
});

test("a disk that fills up: one sentence, nothing half-written", async () => {
  if (!existsSync("/dev/full")) return;
  const bytes = files.get("onnx/model.onnx")!;
  mkdirSync(join(cache, "full"));
  const target = join(cache, "full/model.onnx");
  symlinkSync("/dev/full", `${target}.part`);
  const file = {
    url: `${hubUrl}/tales/small/resolve/main/onnx/model.onnx`,
    size: bytes.length,
    checksum: { kind: "sha256", value: sha256(bytes) },
  } as const;
  expect(await refusal(downloadFile(file, target))).toMatch(/model\.onnx cannot be written: the disk is full/);
  expect(readdirSync(join(cache, "full"))).toEqual([]);
});

test("no such model, no such variant, no tokenizer, no network: one sentence each", async () => {
  const hub = { hubUrl, cache };
  expect(await refusal(fetchHubModel("tales/none", hub))).toMatch(
    /"tales\/none" is neither a folder nor a model on the hub \(404\)/,
  );
  expect(await refusal(fetchHubModel("tales/small", { ...hub, variant: "q4" }))).toMatch(
    /has no ONNX file of that kind; it has onnx\/model\.onnx/,
  );
  expect(await refusal(fetchHubModel("tales/small", { ...hub, hubUrl: "http://127.0.0.1:1" }))).toMatch(
    /the hub cannot be reached: /,
  );
  files.delete("tokenizer.json");
  expect(await refusal(fetchHubModel("tales/small", hub))).toMatch(/has no tokenizer\.json/);
  expect(filesBelow(cache)).toEqual([]);
});

test("a connection that brings something each time may be cut as often as it likes", async () => {
  const bytes = files.get("onnx/model.onnx")!;
  const step = Math.ceil(bytes.length / 9);
  serve = (path, whole, response) => {
    if (!path.endsWith(".onnx")) return false;
    const from = Number(/\d+/.exec(requests.at(-1)!.range ?? "0")![0]);
    response.writeHead(from > 0 ? 206 : 200, { "content-length": whole.length - from });
    const part = whole.subarray(from, from + step);
    if (from + step >= whole.length) response.end(part);
    else response.write(part, () => setTimeout(() => response.destroy(), 20));
    return true;
  };
  const folder = await fetchHubModel("tales/small", { hubUrl, cache });
  expect(requests.filter(({ path }) => path.endsWith(".onnx")).length).toBeGreaterThan(6);
  expect(sha256(readFileSync(join(folder, "onnx/model.onnx")))).toBe(sha256(bytes));
});

test("a server in trouble is asked again, a refusal is not", async () => {
  let troubles = 2;
  serve = (path, _, response) => {
    if (!path.endsWith("config.json") || troubles-- <= 0) return false;
    response.writeHead(troubles === 1 ? 503 : 429).end();
    return true;
  };
  await fetchHubModel("tales/small", { hubUrl, cache });
  rmSync(cache, { recursive: true });
  serve = (path, _, response) => {
    if (!path.endsWith("config.json")) return false;
    response.writeHead(410).end();
    return true;
  };
  requests.length = 0;
  expect(await refusal(fetchHubModel("tales/small", { hubUrl, cache }))).toMatch(/config\.json answered 410 Gone$/);
  expect(requests.filter(({ path }) => path.endsWith("config.json"))).toHaveLength(1);
});

test.each(["list", "files"] as const)("a gated model (%s) says what it wants, and opens with a token", async (what) => {
  gated = what;
  expect(await refusal(fetchHubModel("tales/small", { hubUrl, cache }))).toMatch(
    what === "list"
      ? /shows no such model without permission \(401\): .*HF_TOKEN/
      : /answered 403 Forbidden: .*HF_TOKEN/,
  );
  await fetchHubModel("tales/small", { hubUrl, cache, accessToken: "hf_let_me_in" });
});

test("a variant by any of its names, with its weights beside it", async () => {
  for (const name of ["onnx/model_q4.onnx", "onnx/model_q4.onnx_data", "onnx/model_q4.onnx_data_1"])
    files.set(name, Uint8Array.of(1));
  files.set("onnx/model_quantized.onnx", Uint8Array.of(2));
  const fetched = async (variant?: string): Promise<string[]> => {
    rmSync(cache, { recursive: true, force: true });
    await fetchHubModel("tales/small", { hubUrl, cache, ...(variant === undefined ? {} : { variant }) });
    return filesBelow(cache)
      .map((name) => name.split("/").at(-1)!)
      .filter((name) => name.startsWith("model"))
      .toSorted();
  };
  expect(await fetched()).toEqual(["model_q4.onnx", "model_q4.onnx_data", "model_q4.onnx_data_1"]);
  expect(await fetched("fp32")).toEqual(["model.onnx"]);
  expect(await fetched("q8")).toEqual(["model_quantized.onnx"]);
  expect(await fetched("q4")).toEqual(["model_q4.onnx", "model_q4.onnx_data", "model_q4.onnx_data_1"]);
});

test("models in folders of their own, and in two files: what one needs is fetched, and nothing else", async () => {
  const fetched = async (variant?: string): Promise<string[]> => {
    rmSync(cache, { recursive: true, force: true });
    const folder = await fetchHubModel("tales/small", { hubUrl, cache, ...(variant === undefined ? {} : { variant }) });
    return filesBelow(folder)
      .filter((name) => !name.startsWith("complete"))
      .toSorted();
  };
  files.delete("onnx/model.onnx");
  for (const folder of ["gpu/gpu-int4", "cpu/cpu-int4", "cpu/cpu-fp32"])
    for (const name of ["genai_config.json", "model.onnx", "model.onnx.data", "tokenizer.json"])
      files.set(`${folder}/${name}`, Uint8Array.of(1));
  const common = ["config.json", "tokenizer.json", "tokenizer_config.json"];
  const own = (folder: string): string[] =>
    ["genai_config.json", "model.onnx", "model.onnx.data", "tokenizer.json"].map((name) => `${folder}/${name}`);
  expect(await fetched()).toEqual([...own("cpu/cpu-int4"), ...common].toSorted());
  expect(await fetched("gpu-int4")).toEqual([...own("gpu/gpu-int4"), ...common].toSorted());
  for (const name of ["decoder_model_merged_q4.onnx", "decoder_model_merged_q4.onnx_data", "embed_tokens.onnx"])
    files.set(`onnx/${name}`, Uint8Array.of(1));
  files.set("onnx/vision_encoder.onnx", Uint8Array.of(1));
  const split = ["decoder_model_merged_q4.onnx", "decoder_model_merged_q4.onnx_data", "embed_tokens.onnx"];
  expect(await fetched("q4")).toEqual([...split.map((name) => `onnx/${name}`), ...common].toSorted());
  files.set("onnx/model_int8.onnx", Uint8Array.of(1));
  expect(await fetched("int8")).toEqual(["onnx/embed_tokens.onnx", "onnx/model_int8.onnx", ...common].toSorted());
});

test("a cache that cannot be written: one sentence", async () => {
  writeFileSync(join(cache, "file"), "");
  const inside = join(cache, "file", "models");
  expect(await refusal(fetchHubModel("tales/small", { hubUrl, cache: inside }))).toMatch(
    /models.* cannot be written: ENOTDIR/,
  );
});

describe("on the command line", () => {
  const insitu = (
    args: string[],
    { endpoint = hubUrl, onStart }: { endpoint?: string; onStart?: (child: ChildProcess) => void } = {},
  ): Promise<{ status: number | null; stdout: string; stderr: string }> => {
    const env = { ...process.env, HF_ENDPOINT: endpoint, INSITU_CACHE: cache, HF_TOKEN: "" };
    const child = spawn(process.execPath, [builtCommand, "generate", "abc", "--max-tokens", "4", ...args], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    onStart?.(child);
    return new Promise((resolve) => child.on("close", (status) => resolve({ status, stdout, stderr })));
  };
  const model = ["--model", "tales/small"];

  test("a model is fetched by its name, then found without a network", async () => {
    const first = await insitu(model);
    expect(first.stderr).toMatch(
      /^fetching tales\/small, fp32: \d.* into .*\n(fetching \S+, .*\n){4}\[3 prompt tokens, 4 new.*\n$/,
    );
    expect(first.status).toBe(0);
    const second = await insitu(model, { endpoint: "http://127.0.0.1:1" });
    expect([second.status, second.stderr]).toEqual([0, expect.stringMatching(/^\[3 prompt tokens, 4 new.*\n$/)]);
  });

  test.each([
    ["an unknown name", ["--model", "tales/none"], undefined, /"tales\/none" is neither a folder nor a model/],
    ["no network", model, "http://127.0.0.1:59999", /the hub cannot be reached: .*ECONNREFUSED.*; check the network/],
    [
      "an option that means nothing, before anything is fetched",
      [...model, "--top-p", "2"],
      undefined,
      /--top-p must be/,
    ],
  ])("%s", async (_, args, endpoint, message) => {
    const { status, stdout, stderr } = await insitu(args, endpoint === undefined ? {} : { endpoint });
    expect([status, stdout, stderr.trim().split("\n").length]).toEqual([args.includes("--top-p") ? 2 : 1, "", 1]);
    expect(stderr).toMatch(message);
    expect(filesBelow(cache)).toEqual([]);
    if (args.includes("--top-p")) expect(requests).toEqual([]);
  });

  test("Ctrl-C while a model comes: one sentence, and what came is kept", async () => {
    let child: ChildProcess;
    serve = (path, bytes, response) => {
      if (!path.endsWith(".onnx")) return false;
      response.writeHead(200, { "content-length": bytes.length });
      response.write(bytes.subarray(0, 100_000), () => setTimeout(() => child.kill("SIGINT"), 100));
      return true;
    };
    const { status, stdout, stderr } = await insitu(model, { onStart: (started) => (child = started) });
    expect([status, stdout, stderr.trim().split("\n").at(-1)]).toEqual([
      130,
      "",
      "insitu: interrupted; what was downloaded so far is kept",
    ]);
    expect(filesBelow(cache).some((name) => name.endsWith("model.onnx.part"))).toBe(true);
    serve = undefined;
    expect((await insitu(model)).status).toBe(0);
    expect(requests.findLast(({ path }) => path.endsWith(".onnx"))!.range).toBe("bytes=100000-");
  });
});

test("paths that lead out of the folder are not fetched", async () => {
  files.set("../evil.json", Uint8Array.of(1));
  await fetchHubModel("tales/small", { hubUrl, cache });
  expect(requests.some(({ path }) => path.includes("evil"))).toBe(false);
});

describe("a hub that cannot be trusted", () => {
  const fetched = (): Promise<string> => fetchHubModel("tales/small", { hubUrl, cache });

  test("a listing without end is left after so many pages", async () => {
    const endings: readonly ((page: number) => object[])[] = [
      () => [],
      (page) => [{ type: "file", path: `other/${page}`, size: 1, oid: "0" }],
    ];
    for (const entriesOf of endings) {
      let page = 0;
      list = (_, __, response) => {
        const next = `${hubUrl}/api/models/tales/small/tree/main?cursor=${++page}`;
        response.setHeader("link", `<${next}>; rel="next"`).end(JSON.stringify(entriesOf(page)));
      };
      expect(await refusal(fetched())).toMatch(/listing of "tales\/small" cannot be used: it has more than 200 pages/);
      expect(page).toBe(200);
    }
  });

  test("a listing that goes round in a circle", async () => {
    list = (_, entries, response) => {
      const next = `${hubUrl}/api/models/tales/small/tree/main`;
      response.setHeader("link", `<${next}>; rel="next"`).end(JSON.stringify(entries));
    };
    expect(await refusal(fetched())).toMatch(/it has "onnx\/model\.onnx" twice/);
  });

  test("a page without end", async () => {
    list = (_, __, response) => {
      const chunk = " ".repeat(1 << 20);
      const more = (): void => void (response.destroyed || response.write(chunk, () => setImmediate(more)));
      response.write("[");
      more();
    };
    expect(await refusal(fetched())).toMatch(/a page of it has more than 33554432 bytes/);
  });

  test("the next page is asked of the hub itself, wherever it is said to be", async () => {
    const tokens: (string | undefined)[] = [];
    const elsewhere = createServer((request, response) => {
      tokens.push(request.headers.authorization);
      response.end("[]");
    });
    await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
    list = (query, entries, response) => {
      const next = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/api/models/tales/small/tree/main?cursor=2`;
      if (!query.includes("cursor")) response.setHeader("link", `<${next}>; rel="next"`);
      response.end(JSON.stringify(query.includes("cursor") ? entries.slice(2) : entries.slice(0, 2)));
    };
    await fetchHubModel("tales/small", { hubUrl, cache, accessToken: "hf_secret" });
    await new Promise((resolve) => elsewhere.close(resolve));
    expect(tokens).toEqual([]);
  });

  const wrongEntries: readonly (readonly [string, (entry: Record<string, unknown>) => object, RegExp])[] = [
    ["a size below 0", (entry) => ({ ...entry, size: -1, lfs: undefined }), /the size of ".+" is -1/],
    ["half a byte", (entry) => ({ ...entry, size: 1.5, lfs: undefined }), /the size of ".+" is 1\.5/],
    ["a size in words", (entry) => ({ ...entry, size: "many", lfs: undefined }), /the size of ".+" is many/],
    ["no checksum", (entry) => ({ ...entry, oid: undefined, lfs: undefined }), /has no checksum/],
    ["a checksum of nothing", (entry) => ({ ...entry, lfs: { size: 5 }, oid: 5 }), /has no checksum/],
  ];
  test.each(wrongEntries)("%s", async (_, change, message) => {
    list = (__, entries, response) =>
      void response.end(JSON.stringify(entries.map((entry) => change(entry as Record<string, unknown>))));
    expect(await refusal(fetched())).toMatch(message);
  });

  test.each(["null", "5", '"x"', "{}", "[null]", "[5]", '[{"type":"file"}]', "[[]]", "not JSON", ""])(
    "a listing of %s",
    async (text) => {
      list = (_, __, response) => void response.end(text);
      await refusal(fetched());
    },
  );

  test("names that lead out of the folder are no files of the model", async () => {
    const outside = [
      "../tokenizer.json",
      "onnx/../../x",
      "/etc/passwd",
      "onnx/model.onnx_data/../../../x",
      "a\\b",
      "a\u0000b",
      "C:x",
      "./x",
      "x//y",
    ];
    list = (_, entries, response) =>
      void response.end(
        JSON.stringify([...entries, ...outside.map((path) => ({ type: "file", path, size: 1, oid: "0" }))]),
      );
    const folder = await fetched();
    expect(filesBelow(folder).toSorted()).toEqual([...files.keys(), "complete-fp32.json"].toSorted());
    expect(filesBelow(cache)).toHaveLength(filesBelow(folder).length);
    expect(requests).toHaveLength(1 + files.size);
  });

  test("redirections without end, of the list and of a file", async () => {
    list = (_, __, response) =>
      void response.writeHead(302, { location: `${hubUrl}/api/models/tales/small/tree/main` }).end();
    expect(await refusal(fetched())).toMatch(/cannot be reached: .*redirect/);
    list = undefined;
    const target = join(cache, "file");
    serve = (path, _, response) => {
      response.writeHead(302, { location: `${hubUrl}${path}` }).end();
      return true;
    };
    const [[name, bytes]] = files;
    const file = {
      url: `${hubUrl}/tales/small/resolve/main/${name}`,
      size: bytes.length,
      checksum: { kind: "sha256", value: sha256(bytes) },
    } as const;
    expect(await refusal(downloadFile(file, target, { retries: 1 }))).toMatch(/cannot be fetched: .*redirect/);
    expect(existsSync(target)).toBe(false);
  });

  test("a connection that brings now more, now less, is not taken up forever", async () => {
    const [[name, bytes]] = files;
    let times = 0;
    serve = (_, all, response) => {
      // From the beginning each time, whatever was asked for.
      response.writeHead(200, { "content-length": all.length });
      response.write(all.subarray(0, 1_000 + 500 * (times++ % 2)), () => setTimeout(() => response.destroy(), 5));
      return true;
    };
    const file = {
      url: `${hubUrl}/tales/small/resolve/main/${name}`,
      size: bytes.length,
      checksum: { kind: "sha256", value: sha256(bytes) },
    } as const;
    expect(await refusal(downloadFile(file, join(cache, "file"), { retries: 2 }))).toMatch(/cannot be fetched/);
    expect(times).toBeLessThan(8);
  });

  test("a length that is not that of the file", async () => {
    const [[name, bytes]] = files;
    const url = `${hubUrl}/tales/small/resolve/main/${name}`;
    const checksum = { kind: "sha256", value: sha256(bytes) } as const;
    const target = join(cache, "file");
    expect(await refusal(downloadFile({ url, size: bytes.length - 1, checksum }, target, { retries: 1 }))).toMatch(
      /sends more than/,
    );
    rmSync(`${target}.part`, { force: true });
    expect(await refusal(downloadFile({ url, size: bytes.length + 1, checksum }, target, { retries: 1 }))).toMatch(
      /cannot be fetched|416/,
    );
    rmSync(`${target}.part`, { force: true });
    // What the header says does not count: the bytes do.
    serve = (_, all, response) => {
      response.writeHead(200, { "transfer-encoding": "chunked" }).end(all);
      return true;
    };
    await downloadFile({ url, size: bytes.length, checksum }, target);
    expect(existsSync(target)).toBe(true);
  });

  const wrong: readonly unknown[] = [5, true, {}, [], () => 1];
  test.each(["revision", "variant", "cache", "hubUrl", "accessToken", "signal", "onProgress"])(
    "the option %s",
    async (name) => {
      for (const value of wrong) {
        if (name === "onProgress" && typeof value === "function") continue;
        const error: unknown = await fetchHubModel("tales/small", { hubUrl, cache, [name]: value }).catch(
          (reason: unknown) => reason,
        );
        expect(error, String(value)).toBeInstanceOf(InsituError);
        expect((error as InsituError).message).toContain(`hub.${name}`.replace("hub.signal", "signal"));
      }
      // What is null was left out; without a place to ask, that is the public hub.
      if (name !== "hubUrl" && name !== "cache") await fetchHubModel("tales/small", { hubUrl, cache, [name]: null });
    },
  );

  test("a revision or a variant that leads out of the folder", async () => {
    for (const options of [{ revision: ".." }, { revision: "." }, { variant: "../x" }, { variant: "a/b" }])
      await expect(fetchHubModel("tales/small", { hubUrl, cache, ...options })).rejects.toThrow(/option hub\./);
  });
});
