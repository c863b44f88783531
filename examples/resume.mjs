// What was read, kept in a file: a long prompt is read once, here or in another process.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CausalLM } from "insitu";

const prompt = "There was once a poor miller, who had a beautiful daughter, and one day he met the king, and said to him,";
const folder = mkdtempSync(join(tmpdir(), "insitu-"));

const first = await CausalLM.load();
const before = await first.generate(prompt, { maxTokens: 20, temperature: 0 }).text();
writeFileSync(join(folder, "context"), await first.saveContext());
await first.release();

const second = await CausalLM.load();
await second.restoreContext(readFileSync(join(folder, "context")));
const again = second.generate(prompt, { maxTokens: 20, temperature: 0 });
console.log((await again.text()) === before ? "the same text" : "another text");
console.log(`${again.summary.reusedTokens} of ${again.summary.promptTokens} prompt tokens were not read again`);
await second.release();
rmSync(folder, { recursive: true });
