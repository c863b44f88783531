/** The page at `/`: a conversation with the model by way of the API, in plain HTML and script, that asks nobody but this server. */

const style = `
:root { color-scheme: light dark; --back: #fbfaf7; --text: #23211d; --dim: #6f6a60; --line: #ddd8cc; --mine: #e9efe6; --accent: #2f6b4f; --on: #fff; --bad: #a4332b }
@media (prefers-color-scheme: dark) { :root { --back: #191816; --text: #ece8df; --dim: #9a9488; --line: #35322c; --mine: #24302a; --accent: #7fc3a1; --on: #10201a; --bad: #f0968c } }
* { box-sizing: border-box }
html, body { height: 100% }
body { margin: 0; display: flex; flex-direction: column; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
header, form { width: 100%; max-width: 46rem; margin: 0 auto; padding: .75rem 1rem }
header { display: flex; align-items: baseline; gap: .75rem; border-bottom: 1px solid var(--line) }
h1 { font-size: 1rem; margin: 0 }
#about { color: var(--dim); font-size: .85rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; flex: 1 }
main { flex: 1; overflow-y: auto; width: 100% }
#log { max-width: 46rem; margin: 0 auto; padding: 1rem; display: flex; flex-direction: column; gap: .75rem }
.said { white-space: pre-wrap; overflow-wrap: anywhere; padding: .6rem .8rem; border-radius: .6rem; max-width: 90% }
.user { background: var(--mine); align-self: flex-end }
.assistant { border: 1px solid var(--line); align-self: flex-start }
.assistant:empty::before { content: "…"; color: var(--dim) }
.note { color: var(--dim); font-size: .8rem; align-self: flex-start; margin-top: -.5rem }
.bad { color: var(--bad) }
form { display: grid; gap: .5rem; grid-template-columns: 1fr auto; border-top: 1px solid var(--line) }
textarea, input, button { font: inherit; color: inherit; border: 1px solid var(--line); border-radius: .5rem; background: transparent; padding: .5rem .65rem; min-width: 0 }
textarea { resize: none; height: 3.6rem }
button { cursor: pointer; min-width: 5rem }
#send { background: var(--accent); color: var(--on); border-color: transparent }
#send.stop { background: transparent; color: var(--bad); border-color: var(--bad) }
details { grid-column: 1 / -1; color: var(--dim); font-size: .85rem }
details div { display: flex; flex-wrap: wrap; gap: .5rem .9rem; padding-top: .5rem }
label { display: flex; align-items: center; gap: .4rem }
label input { width: 5.5rem; padding: .25rem .4rem }
label.wide { flex: 1 1 100% } label.wide input { flex: 1 }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px }
`;

const script = `
const at = (id) => document.getElementById(id);
const log = at("log"), say = at("say"), send = at("send"), key = at("key");
let said = [], running;
key.value = sessionStorage.getItem("key") ?? "";
const headers = () => ({ "content-type": "application/json", ...(key.value ? { authorization: "Bearer " + key.value } : {}) });
const add = (kind, text) => {
  const near = log.parentElement.scrollHeight - log.parentElement.scrollTop - log.parentElement.clientHeight < 80;
  const element = document.createElement("div");
  element.className = kind;
  element.textContent = text;
  log.append(element);
  if (near) element.scrollIntoView();
  return element;
};
const about = async () => {
  const response = await fetch("v1/models", { headers: headers() }).catch(() => undefined);
  const body = await response?.json().catch(() => undefined);
  if (response?.ok) at("about").textContent = body.data[0].id + ", " + body.data[0].max_model_len + " tokens of context";
  else at("about").textContent = body?.error.message ?? "the server does not answer";
  if (response?.status === 401) at("more").open = true;
};
const busy = (on) => {
  send.textContent = on ? "Stop" : "Send";
  send.className = on ? "stop" : "";
};
const ask = async (text) => {
  said.push({ role: "user", content: text });
  add("said user", text);
  const answer = add("said assistant", "");
  running = new AbortController();
  busy(true);
  const began = performance.now();
  let whole = "", first = 0, usage, finish;
  try {
    const number = (id) => at(id).value === "" ? undefined : Number(at(id).value);
    const system = at("system").value;
    const response = await fetch("v1/chat/completions", {
      method: "POST", headers: headers(), signal: running.signal,
      body: JSON.stringify({
        messages: [...(system ? [{ role: "system", content: system }] : []), ...said],
        stream: true, stream_options: { include_usage: true },
        max_tokens: number("tokens"), temperature: number("temperature"),
      }),
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\\n");
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
        const chunk = JSON.parse(line.slice(6));
        if (chunk.error) throw new Error(chunk.error.message);
        usage = chunk.usage ?? usage;
        const choice = chunk.choices[0];
        finish = choice?.finish_reason ?? finish;
        if (!choice?.delta.content) continue;
        first ||= performance.now();
        whole += choice.delta.content;
        answer.textContent = whole;
        if (log.parentElement.scrollHeight - log.parentElement.scrollTop - log.parentElement.clientHeight < 120) answer.scrollIntoView(false);
      }
    }
    const seconds = (performance.now() - began) / 1000;
    if (usage) add("note", usage.completion_tokens + " tokens, first after " + Math.round((first || performance.now()) - began) + " ms, " + (usage.completion_tokens / seconds).toFixed(0) + " a second" + (finish === "length" ? ", cut at the limit" : ""));
  } catch (error) {
    if (running.signal.aborted) add("note", "stopped");
    else { add("note bad", error.message); if (whole === "") { answer.remove(); said.pop(); whole = undefined; } }
  }
  if (whole !== undefined) said.push({ role: "assistant", content: whole });
  running = undefined;
  busy(false);
  say.focus();
};
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) return running.abort();
  const text = say.value.trim();
  if (text === "") return;
  say.value = "";
  void ask(text);
});
say.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running) at("form").requestSubmit();
});
at("new").addEventListener("click", () => { running?.abort(); said = []; log.replaceChildren(); say.focus(); });
key.addEventListener("change", () => { sessionStorage.setItem("key", key.value); void about(); });
void about();
`;

const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>insitu</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<header><h1>insitu</h1><span id="about"></span><button id="new" type="button">New</button></header>
<main><div id="log" role="log" aria-live="polite" aria-label="conversation"></div></main>
<form id="form">
<textarea id="say" aria-label="message" placeholder="Say something" autofocus></textarea>
<button id="send">Send</button>
<details id="more"><summary>Settings</summary><div>
<label>Tokens <input id="tokens" type="number" min="1" value="256"></label>
<label>Temperature <input id="temperature" type="number" min="0" max="2" step="0.1" placeholder="model's"></label>
<label class="wide">System <input id="system" autocomplete="off"></label>
<label class="wide">API key <input id="key" type="password" autocomplete="off"></label>
</div></details>
</form>
<script>${script}</script>
</body>
</html>
`;

/** What the page may do: its own script and style, and requests to where it came from. */
async function policy(): Promise<string> {
  const hash = async (text: string): Promise<string> => {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
    return `'sha256-${btoa(String.fromCharCode(...digest))}'`;
  };
  const [own, look] = await Promise.all([hash(script), hash(style)]);
  return `default-src 'none'; script-src ${own}; style-src ${look}; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

/** The page. */
export async function pageResponse(): Promise<Response> {
  return new Response(html, {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": await policy(),
      "referrer-policy": "no-referrer",
    },
  });
}
