// The server of the soak, in a process of its own: the embedded model with a template that knows tools, on few blocks and a short queue, so that
// texts give blocks back and requests are refused; beginnings are kept in a folder that is soon full.
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const place = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const main = place("dist/lib/cli.js");

const template = `{%- if tools %}{{- 'tools:' }}{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}{{- '\\n' }}{%- endif %}
{%- for message in messages %}{{- message.content or '' }}{%- for call in message.tool_calls or [] %}{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}{%- endfor %}{{- '\\n' }}{%- endfor %}`;

/** Keys that the server knows: prefixes are shared within each. */
export const keys = ["first-soak-key", "second-soak-key", "third-soak-key"];

/** Starts the server, with options of its own where they are given; those that are undefined are left out. */
export async function startServer(more = {}) {
  const folder = mkdtempSync(join(tmpdir(), "insitu-soak-"));
  const model = join(folder, "model");
  cpSync(place("models/embedded"), model, { recursive: true });
  writeFileSync(join(model, "chat_template.jinja"), template);
  const options = {
    model,
    name: "embedded",
    port: 0,
    context: 512,
    blocks: 96,
    "max-queue": 24,
    "prefix-cache": join(folder, "prefixes"),
    "prefix-cache-size": 64 << 20,
    "metrics-dialect": "vllm",
    ...more,
  };
  const child = spawn(
    process.execPath,
    [
      "--expose-gc",
      "--import",
      place("scripts/soak/probe.mjs"),
      main,
      "serve",
      "--quiet",
      ...Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, String(value)])),
    ],
    { stdio: ["ignore", "pipe", "inherit", "ipc"], env: { ...process.env, INSITU_API_KEY: keys.join() } },
  );
  const ended = once(child, "exit");
  const line = await Promise.race([once(child.stdout, "data"), ended.then(() => undefined)]);
  const address = /http:\S+/.exec(String(line?.[0]))?.[0];
  if (address === undefined) throw new Error("the server ended before it listened");
  return {
    address,
    /** Bytes that it takes; the heap is what is left of it once garbage was collected. */
    async memory(collects) {
      const told = once(child, "message");
      child.send(collects ? "collect" : "look");
      return (await Promise.race([told, ended.then(() => Promise.reject(new Error("the server ended")))]))[0];
    },
    /** Figures of /metrics by name. */
    async figures() {
      const text = await (await fetch(`${address}/metrics`)).text();
      return (name) => Number(new RegExp(`^insitu_${name} (.*)$`, "m").exec(text)?.[1]);
    },
    /** Tells it to end; how it did. */
    async stop() {
      child.kill("SIGTERM");
      const [code, signal] = await ended;
      rmSync(folder, { recursive: true, force: true });
      return signal ?? code;
    },
    kill: () => void child.kill("SIGKILL"),
  };
}

/** A text as the command line makes it alone, on linear caches. */
export async function textAlone(prompt, maxTokens) {
  const args = ["generate", prompt, "--temperature", "0", "--max-tokens", String(maxTokens), "--json"];
  const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  for await (const chunk of child.stdout.setEncoding("utf8")) said += chunk;
  return JSON.parse(said).text;
}
