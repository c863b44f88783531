// A conversation on one state: each turn reads only what is new, and a turn can be taken back.
import { CausalLM } from "insitu";

const lm = await CausalLM.load();
const chat = lm.chat([], { maxTokens: 30, temperature: 0.7, seed: 2 });

async function say(text) {
  const answer = chat.send(text);
  console.log(`> ${text}\n${await answer.text()}`);
  const { promptTokens, reusedTokens } = answer.summary;
  console.log(`[${promptTokens - reusedTokens} of ${promptTokens} tokens were new]\n`);
}

await say("There was once a poor miller who had three sons.");
await say("The eldest went out into the world.");
chat.undo(); // as if the second turn had never been
await say("The youngest stayed at home with the cat.");
console.log(chat.messages.map(({ role, content }) => `${role}: ${content}`).join("\n"));

chat.release();
await lm.release();
