// The page's program: loads the model in a worker over HTTP, and writes the story into the page as it is made.
import { CausalLM } from "/dist/browser/worker.js";

const element = (id) => document.getElementById(id);
const model = new URL("/models/embedded", location.href);

/** What is told now, or was told last: how to stop it, and when it has ended. */
let stopping = new AbortController();
let ended = Promise.resolve();
/** Which telling was asked for last: whoever waited for another one in vain finds that it is not theirs. */
let latest = 0;

let lm;

const bytesText = (bytes) => {
  const unit = ["B", "KiB", "MiB", "GiB"].findLast((_, power) => power === 0 || bytes >= 1024 ** power);
  const value = bytes / 1024 ** ["B", "KiB", "MiB", "GiB"].indexOf(unit);
  return `${unit === "B" ? value : value.toFixed(1)} ${unit}`;
};

function say(state, problem) {
  element("state").textContent = state;
  element("problem").textContent = problem ?? "";
  element("problem").hidden = problem === undefined;
}

async function load() {
  const turn = ++latest;
  stopping.abort();
  await ended;
  if (turn !== latest) return;
  element("tell").disabled = true;
  element("progress").hidden = false;
  const { promise, resolve } = makePromise();
  ended = promise;
  try {
    await lm?.release();
    lm = undefined;
    const before = performance.now();
    lm = await CausalLM.load(model, {
      backend: element("backend").value,
      onProgress: (loaded, total) => {
        element("progress").value = loaded / total;
        say(`loading the model: ${bytesText(loaded)} of ${bytesText(total)}`);
      },
    });
    say(`ready in ${((performance.now() - before) / 1000).toFixed(1)} s, on ${backendText(lm.backend)}`);
    element("tell").disabled = false;
    element("progress").hidden = true;
  } catch (error) {
    say("no model", error.message);
    element("progress").hidden = true;
  } finally {
    resolve();
  }
}

const backendText = (name) => ({ wasm: "WebAssembly", webgpu: "WebGPU" })[name] ?? name;

function makePromise() {
  let resolve;
  const promise = new Promise((settle) => (resolve = settle));
  return { promise, resolve };
}

async function tell() {
  const prompt = element("prompt").value;
  if (prompt.trim() === "") {
    say("", "Write how the story begins: the model goes on from there.");
    element("prompt").focus();
    return;
  }
  // One story at a time: the one before is stopped, and of several that wait the last is told.
  const turn = ++latest;
  stopping.abort();
  await ended;
  if (turn !== latest || lm === undefined) return;
  const { promise, resolve } = makePromise();
  ended = promise;
  stopping = new AbortController();
  const { signal } = stopping;
  element("stop").disabled = false;
  element("story").hidden = false;
  element("summary").hidden = true;
  element("beginning").textContent = prompt;
  element("continuation").textContent = "";
  say(`telling, on ${backendText(lm.backend)} …`);
  let story;
  try {
    story = lm.generate(prompt, {
      maxTokens: element("tokens").valueAsNumber || 120,
      temperature: element("temperature").valueAsNumber,
      seed: element("seed").valueAsNumber || 0,
      signal,
    });
    for await (const { text } of story) element("continuation").append(text);
    say(`told, on ${backendText(lm.backend)}`);
  } catch (error) {
    say(signal.aborted ? "stopped" : "", signal.aborted ? undefined : error.message);
  } finally {
    element("stop").disabled = true;
    if (story?.summary !== undefined) showSummary(story.summary);
    resolve();
  }
}

function showSummary({ newTokens, tokensPerSecond, firstTokenMilliseconds, writtenBytes, movedBytes, copyingBytes }) {
  const figures = {
    tokens: newTokens,
    "a second": tokensPerSecond.toFixed(0),
    "first after": `${firstTokenMilliseconds.toFixed(0)} ms`,
    "caches written in place": bytesText(writtenBytes),
    "caches moved": bytesText(movedBytes),
    "a copying runtime moves": bytesText(copyingBytes),
  };
  element("summary").replaceChildren(
    ...Object.entries(figures).map(([name, value]) => {
      const pair = document.createElement("div");
      pair.append(document.createElement("dt"), document.createElement("dd"));
      pair.firstChild.textContent = name;
      pair.lastChild.textContent = value;
      return pair;
    }),
  );
  element("summary").hidden = false;
}

document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  tell();
});
element("stop").addEventListener("click", () => stopping.abort());
element("dice").addEventListener("click", () => (element("seed").value = Math.floor(Math.random() * 10_000)));
element("temperature").addEventListener("input", ({ target }) => {
  element("temperature-shown").textContent = target.valueAsNumber.toFixed(1);
});
element("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  if (!element("tell").disabled) tell();
});
element("backend").addEventListener("change", load);

if (navigator.gpu === undefined) element("backend").querySelector("[value=webgpu]").disabled = true;
await load();
