// examples/kubernetes: no cluster is here, so that what can be checked without one is: the files are read, what they name is what the server has, a
// worker starts and ends with just that environment and the rights that its store gives it, and HAProxy takes its settings.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { serve } from "../../packages/cli/serve.js";
import { Redis, redisServer } from "../support/redis.js";

const folder = join(fileURLToPath(new URL("../../examples", import.meta.url)), "kubernetes/");
const main = fileURLToPath(new URL("../../dist/lib/cli.js", import.meta.url));

/** What is behind names and numbers in one of the files; the file's n-th document. */
function at(file: string, document: number, ...path: (string | number)[]): unknown {
  const text = readFileSync(join(folder, file), "utf8");
  const documents = parseAllDocuments(text).map((each) => {
    expect([file, each.errors]).toEqual([file, []]);
    return each.toJS() as unknown;
  });
  return path.reduce<unknown>((value, key) => (value as Record<string | number, unknown>)[key], documents[document]);
}

const pod = ["spec", "template", "spec"] as const;
const container = [...pod, "containers", 0] as const;
const deployed = (...path: (string | number)[]): unknown => at("workers.yaml", 0, ...path);
const variables = new Map(
  (deployed(...container, "env") as { name: string; value?: string }[]).map(({ name, value }) => [name, value]),
);

test("every file is YAML, and every variable an option of insitu serve", () => {
  const files = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
  for (const file of files) expect(at(file, 0)).toBeTypeOf("object");
  for (const name of variables.keys()) {
    const option = name.replace("INSITU_", "").toLowerCase().replaceAll("_", "-");
    expect(name === "INSITU_API_KEY" || option in serve.options, name).toBe(true);
  }
});

test("ports, labels, secrets and times fit together", () => {
  const port = Number(variables.get("INSITU_PORT"));
  expect(deployed(...container, "ports")).toEqual([{ name: "http", containerPort: port }]);
  expect(at("workers.yaml", 1, "spec", "ports")).toEqual([{ name: "http", port, targetPort: "http" }]);
  expect(at("inference-pool-values.yaml", 0, "inferencePool")).toMatchObject({
    targetPortNumber: port,
    targetPorts: [{ number: port }],
    modelServers: { matchLabels: deployed("spec", "template", "metadata", "labels") },
  });
  expect(at("router-values.yaml", 0, "routerSpec", "extraArgs")).toEqual([
    "--k8s-label-selector",
    "app=insitu",
    "--k8s-port",
    String(port),
  ]);
  for (const labels of [
    deployed("spec", "selector", "matchLabels"),
    at("workers.yaml", 1, "spec", "selector"),
    at("workers.yaml", 2, "spec", "selector", "matchLabels"),
  ])
    expect(labels).toEqual(deployed("spec", "template", "metadata", "labels"));
  const store = new URL(at("secrets.yaml", 1, "stringData", "INSITU_STORE") as string);
  expect([store.hostname, store.username, store.password]).toEqual([
    at("valkey-values.yaml", 0, "fullnameOverride"),
    "default",
    at("secrets.yaml", 0, "stringData", "default"),
  ]);
  const [, paused] = deployed(...container, "lifecycle", "preStop", "exec", "command") as [string, string];
  const grace = deployed(...pod, "terminationGracePeriodSeconds") as number;
  expect(grace).toBeGreaterThan(Number(paused) + Number(variables.get("INSITU_DRAIN")));
  expect(deployed(...pod, "enableServiceLinks")).toBe(false);
});

const haproxy = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"].find((path) => existsSync(path));

test.skipIf(haproxy === undefined)(
  "HAProxy takes its settings, which are those of examples/cluster but for where workers are",
  () => {
    const settings = at("haproxy-values.yaml", 0, "config") as string;
    const temporary = mkdtempSync(join(tmpdir(), "insitu-kubernetes-"));
    writeFileSync(join(temporary, "haproxy.cfg"), settings);
    const { status, stderr } = spawnSync(haproxy!, ["-c", "-f", join(temporary, "haproxy.cfg")], { encoding: "utf8" });
    rmSync(temporary, { recursive: true });
    expect([status, stderr.match(/ALERT.*/g)]).toEqual([0, null]);
    const there = readFileSync(join(folder, "../cluster/haproxy.cfg"), "utf8");
    const kept = /^ *(balance|hash-|http-check|option|retr|http-request|timeout|tune)/;
    for (const line of there.split("\n").filter((each) => kept.test(each))) expect(settings).toContain(line.trim());
    expect(settings).toContain(`_http._tcp.${String(at("workers.yaml", 1, "metadata", "name"))}`);
  },
);

test.skipIf(redisServer === undefined)(
  "a worker starts with this environment and these rights, answers the probes and ends when told",
  async () => {
    const temporary = mkdtempSync(join(tmpdir(), "insitu-kubernetes-"));
    writeFileSync(join(temporary, "store-secret"), at("secrets.yaml", 1, "stringData", "store-secret") as string);
    const redis = await Redis.start();
    const password = at("secrets.yaml", 0, "stringData", "default") as string;
    const key = at("secrets.yaml", 1, "stringData", "INSITU_API_KEY") as string;
    const rights = at("valkey-values.yaml", 0, "auth", "aclUsers", "default", "permissions") as string;
    await redis.command("ACL", "SETUSER", "default", "reset", "on", `>${password}`, ...rights.split(" "));
    const child = spawn(process.execPath, [main, "serve", "--threads", "1"], {
      env: {
        ...process.env,
        ...Object.fromEntries(variables),
        INSITU_HOST: "127.0.0.1",
        INSITU_PORT: "0",
        INSITU_STORE_SECRET_FILE: join(temporary, "store-secret"),
        INSITU_STORE: `redis://default:${password}@127.0.0.1:${redis.port}`,
        INSITU_API_KEY: key,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const over = new Promise<number | null>((resolve) => void child.once("exit", resolve));
    let told = "";
    child.stderr.on("data", (text) => void (told += String(text)));
    try {
      const address = await new Promise<string>((resolve, reject) => {
        child.stdout.once("data", (line) => resolve(/http:\S+/.exec(String(line))![0]));
        child.once("exit", () => reject(new Error(told)));
      });
      // It wrote to the store, and read it.
      await expect.poll(() => told).toMatch(/"insitu: the store is (not read|read for)/);
      for (const probe of ["startupProbe", "readinessProbe"]) {
        const { path } = deployed(...container, probe, "httpGet") as { path: string };
        expect((await fetch(address + path)).status).toBe(200);
      }
      const metrics = await (await fetch(`${address}/metrics`)).text();
      const named = ["inference-pool-values.yaml", "router-values.yaml"].flatMap((file) =>
        [...readFileSync(join(folder, file), "utf8").matchAll(/vllm:\w+/g)].map(([name]) => name),
      );
      for (const name of new Set(named)) expect(metrics).toMatch(new RegExp(`^${name}\\{`, "m"));
      const models = await fetch(`${address}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
      expect(await models.json()).toMatchObject({ data: [{ id: variables.get("INSITU_NAME") }] });
      child.kill("SIGTERM");
      expect(await over).toBe(0);
    } finally {
      child.kill("SIGKILL");
      await redis.kill();
      rmSync(temporary, { recursive: true });
    }
  },
);
