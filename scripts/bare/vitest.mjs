// As much of vitest as the suites for devices use, for machines that have Node and nothing else: see bundle.mjs. Tests run one after the other.
import * as chai from "chai";
import { addCustomEqualityTesters, JestAsymmetricMatchers, JestChaiExpect, JestExtend } from "@vitest/expect";
import { fn, restoreAllMocks, spyOn } from "@vitest/spy";

chai.use(JestExtend);
chai.use(JestChaiExpect);
chai.use(JestAsymmetricMatchers);

export const expect = (value, message) => chai.expect(value, message);
Object.assign(expect, chai.expect);
for (const name of [
  "any",
  "anything",
  "arrayContaining",
  "objectContaining",
  "stringContaining",
  "stringMatching",
  "closeTo",
])
  Object.defineProperty(expect, name, { get: () => chai.expect[name] });
expect.hasAssertions = () => {};
expect.addEqualityTesters = (testers) => addCustomEqualityTesters(testers);
let testPath = "";
expect.getState = () => ({ testPath });
const mostPolls = 2400;
/** `expect.poll(what).matcher(…)`: until the matcher agrees, or for two minutes. */
expect.poll = (what) =>
  new Proxy(
    {},
    {
      get:
        (_, matcher) =>
        async (...args) => {
          for (let at = 1; ; at++)
            try {
              return expect(await what())[matcher](...args);
            } catch (error) {
              if (at === mostPolls) throw error;
              await new Promise((resolve) => setTimeout(resolve, 50));
            }
        },
    },
  );
expect.fail = (message) => {
  throw new Error(message);
};

const queue = [];
const path = [];
const closing = [];

const text = (name, args) => {
  let at = 0;
  return String(name).replace(/%[sijdo]|\$(\w+)/g, (_, key) =>
    key === undefined ? String(args[at++]) : String(args[0]?.[key]),
  );
};

const runnable = (add) => {
  const run = (name, ...rest) =>
    add(
      name,
      rest.find((each) => typeof each === "function"),
    );
  run.each =
    (rows) =>
    (name, ...rest) => {
      const body = rest.find((each) => typeof each === "function");
      for (const row of rows) {
        const args = Array.isArray(row) ? row : [row];
        add(text(name, args), (...more) => body(...args, ...more));
      }
    };
  run.skipIf = (condition) => (condition ? Object.assign(() => {}, { each: () => () => {} }) : run);
  run.runIf = (condition) => run.skipIf(!condition);
  run.skip = () => {};
  return run;
};

export const test = runnable((name, body) => queue.push({ name: [...path, name].join(" > "), body }));
export const it = test;
const opening = [];
export const describe = runnable((name, body) => {
  path.push(name);
  const made = body();
  if (made instanceof Promise) throw new Error(`${name}: a group that waits is not for here`);
  path.pop();
});
export const beforeAll = (work) => opening.push(work);
export const afterAll = (work) => closing.push(work);
const [before, after] = [[], []];
export const beforeEach = (work) => before.push(work);
export const afterEach = (work) => after.push(work);
const real = { setTimeout, clearTimeout };
let timers = [];
export const vi = {
  fn,
  restoreAllMocks,
  spyOn,
  /** Timers that wait for `runAllTimers`, whatever else a test wants to be played. */
  useFakeTimers() {
    globalThis.setTimeout = (work) => {
      const timer = { work, unref() {}, ref() {} };
      timers.push(timer);
      return timer;
    };
    globalThis.clearTimeout = (timer) => void (timers = timers.filter((other) => other !== timer));
  },
  runAllTimers() {
    while (timers.length > 0) timers.shift().work();
  },
  useRealTimers() {
    timers = [];
    Object.assign(globalThis, real);
  },
};

/** Runs everything that was asked for by the suite at a path; how many passed and failed. */
export async function runAll(suite) {
  testPath = suite;
  let [passed, failed] = [0, 0];
  for (const work of opening) await work();
  for (const { name, body } of queue) {
    const began = performance.now();
    try {
      for (const work of before) await work();
      await body({ skip() {} });
      passed++;
    } catch (error) {
      failed++;
      console.log(`FAILED ${name}\n${String(error?.stack ?? error).slice(0, 3000)}`);
      if (Array.isArray(error?.actual) || typeof error?.actual === "string")
        console.log(`got ${JSON.stringify(error.actual).slice(0, 3000)}`);
    }
    for (const work of after) await work();
    if (performance.now() - began > 5000) console.log(`${name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  }
  for (const work of closing) await work();
  return { passed, failed };
}
