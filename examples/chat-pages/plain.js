// A streaming chat in a page, without any library: `chat(element, lm)` with a model of insitu/worker.
export function chat(element, lm) {
  const log = element.appendChild(document.createElement("div"));
  const say = element.appendChild(document.createElement("input"));
  const talk = lm.chat([], { maxTokens: 60 });
  const add = (role) => Object.assign(log.appendChild(document.createElement("p")), { className: role });
  let stopping = new AbortController();
  say.placeholder = "Say something";
  say.addEventListener("keydown", async ({ key }) => {
    if (key === "Escape") return stopping.abort();
    if (key !== "Enter" || say.value === "" || say.disabled) return;
    add("user").textContent = say.value;
    const answer = add("assistant");
    stopping = new AbortController();
    const reply = talk.send(say.value, { signal: stopping.signal });
    [say.value, say.disabled] = ["", true];
    try {
      for await (const { text } of reply) answer.append(text);
    } catch (error) {
      if (!stopping.signal.aborted) answer.textContent = error.message;
    }
    say.disabled = false;
  });
}
