// A recording of people who chat, made by chance from a seed: who asked when, and all tokens of each prompt. What is drawn from what stands in
// `drawn`; `describe` says it in words. Nothing of it is anybody's text.
import { seededRandom } from "../dist/tools/bench/serve/seeded-random.js";

/** What the recording is drawn from. Lengths are tokens, times seconds; a log-normal one has its median and the sigma of its logarithm. */
export const drawn = {
  tenants: 20, // the n-th has 1/n of the conversations of the first
  systemPrompt: { median: 250, sigma: 0.6, most: 1000 }, // one of each tenant's
  conversationsPerMinute: 20, // by chance (Poisson)
  turns: { mean: 5, most: 20 }, // geometric
  question: { median: 35, sigma: 0.9, most: 1000 },
  answer: { median: 150, sigma: 0.7, most: 1000 },
  thinking: { median: 25, sigma: 1 }, // between an answer's end and the next question
  secondsPerToken: 0.02, // that an answer takes
  context: 4096, // a conversation that would be longer ends
};

export const describe = (trace, minutes, seed) =>
  `${trace.length} requests of ${new Set(trace.map(({ conversation }) => conversation)).size} conversations in ${minutes} minutes (seed ${seed}): ` +
  `${drawn.tenants} tenants after Zipf, each with a system prompt of ${drawn.systemPrompt.median} tokens, ${drawn.turns.mean} turns, ` +
  `questions of ${drawn.question.median}, answers of ${drawn.answer.median}, ${drawn.thinking.median} s to think (medians; turns: mean)`;

/** Requests in the order of their times: { time, tenant, conversation, prompt, answer }, the last two as tokens below `vocabulary`. */
export function recordChat({ minutes, seed, scale = 1, vocabulary = 32_000, settings = drawn }) {
  const random = seededRandom(seed);
  const gauss = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const logNormal = ({ median, sigma, most = Infinity }) => Math.min(most, median * Math.exp(sigma * gauss()));
  const length = (of) => Math.max(1, Math.round(logNormal(of) * scale));
  const tokens = (count) => Array.from({ length: count }, () => Math.floor(random() * vocabulary));
  const systemPrompts = Array.from({ length: settings.tenants }, () => tokens(length(settings.systemPrompt)));
  const weights = systemPrompts.map((_, at) => 1 / (at + 1));
  const whole = weights.reduce((sum, weight) => sum + weight, 0);
  const someTenant = () => {
    let rest = random() * whole;
    return Math.max(
      0,
      weights.findIndex((weight) => (rest -= weight) < 0),
    );
  };
  const requests = [];
  let began = 0;
  for (let conversation = 0; ; conversation++) {
    began += (-Math.log(1 - random()) * 60) / settings.conversationsPerMinute;
    if (began > 60 * minutes) break;
    const tenant = someTenant();
    let time = began;
    let said = systemPrompts[tenant];
    for (let turn = 0; turn < settings.turns.most; turn++) {
      const prompt = [...said, ...tokens(length(settings.question))];
      const answer = tokens(length(settings.answer));
      if (prompt.length + answer.length > settings.context * scale || time > 60 * minutes) break;
      requests.push({ time, tenant: `tenant ${tenant}`, conversation, prompt, answer });
      said = [...prompt, ...answer];
      time += answer.length * settings.secondsPerToken + logNormal(settings.thinking);
      if (random() < 1 / settings.turns.mean) break;
    }
  }
  return requests.toSorted((a, b) => a.time - b.time);
}
