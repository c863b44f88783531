// More than one text: prompts of different lengths in one batch, samples of one prompt by fork, the likeliest texts by beam search.
import { CausalLM } from "insitu";

const lm = await CausalLM.load();

const prompts = ["The wolf", "In the middle of the forest there stood a"];
const texts = prompts.map((prompt) => prompt);
for await (const { sample, text } of lm.generateBatch(prompts, { maxTokens: 16, temperature: 0 })) texts[sample] += text;
console.log("batch", texts);

const samples = await lm.samples("The queen said:", 3, { maxTokens: 12, seed: 1 }); // the prompt is read once
console.log("samples", await Promise.all(samples.map((sample) => sample.text())));

const beams = await lm.beamSearch("The wolf", { beams: 3, maxTokens: 8 });
console.log("beams", beams.map(({ text, score }) => `${score.toFixed(3)} ${text}`));

await lm.release();
