// The page's program: loads the model over HTTP, and writes the story into the page as it is made.
import { CausalLM } from "insitu";

const element = (id) => document.getElementById(id);
const lm = await CausalLM.load(new URL("/models/embedded", location.href));

async function tell() {
  const prompt = element("prompt").value;
  element("story").textContent = prompt;
  const story = lm.generate(prompt, { maxTokens: 60, seed: 1 });
  for await (const { text } of story) element("story").textContent += text;
  const { newTokens, tokensPerSecond, movedBytes } = story.summary;
  element("summary").textContent = `${newTokens} tokens, ${tokensPerSecond.toFixed(0)} a second, ${movedBytes} cache bytes moved`;
}

document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  tell();
});
tell();
