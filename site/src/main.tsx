/** The page begins: finds its host, shows what was kept, and is installed for the next visit. */
import { effect } from "@preact/signals";
import { render } from "preact";
import type { Host } from "./hosts/host.js";
import { conversations, open as openHistory } from "./state/history.js";
import { begin, current, drawn, host, making, resume, takeOver } from "./state/talk.js";
import { App } from "./views/app.js";
import { measure } from "./views/debug.js";
import "./style.css";

/** Which host this build is for; the other one is not in it. */
declare const HOST: "server" | "browser";

async function makeHost(): Promise<Host> {
  if (HOST === "server") {
    const { ServerHost } = await import("./hosts/server-host.js");
    return new ServerHost();
  }
  const { BrowserHost } = await import("./hosts/browser-host.js");
  return new BrowserHost();
}

/** When nothing is waited for: after the first answer, or some seconds without one. */
const quiet = (): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, 20_000);
    effect(() => {
      if (making.value === undefined && drawn.value.stats !== undefined) resolve();
    });
  });

/** Keeps the page for visits without a network. What the visitor came for is fetched first. */
async function install(): Promise<void> {
  if (!("serviceWorker" in navigator) || !isSecureContext) return;
  await navigator.serviceWorker.register("sw.js").catch(() => {});
}

measure();
host.value = await makeHost();
const opened = openHistory().then(resume);
render(<App />, document.getElementById("app")!);
await opened;
effect(() => {
  void conversations.value;
  takeOver();
});
// A model that continues texts is first shown as one.
let isFirst = true;
effect(() => {
  const facts = host.value.model.value;
  if (facts === undefined) return;
  if (isFirst && !facts.hasTemplate && current.peek().said.length === 0) begin("raw");
  isFirst = false;
});
await host.value.start();
await quiet();
await install();
