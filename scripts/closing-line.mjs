// A vitest reporter: one line for each file as it ends, every failure in full, what was not run and why, and a closing line "N passed, N failed, N
// skipped". A file that does not load, a hook that fails and an error outside a test count as failures, as do parts of the machine that were expected
// and are missing, and more tests that are left out for want of one than its budget has.
import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { parts } from "./gate.mjs";

const count = (tests) => {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const test of tests) {
    const { state } = test.result();
    counts[state === "passed" || state === "failed" ? state : "skipped"]++;
  }
  return counts;
};

const describe = ({ passed, failed, skipped }) =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;

/** Errors outside of tests: a file that does not load, a hook that fails. The tests below count as skipped. */
const errorsAround = (module) => [
  ...module.errors(),
  ...[...module.children.allSuites()].flatMap((suite) => suite.errors()),
];

const textOf = (error) => `${error.stack ?? error.message ?? String(error)}${error.diff ? `\n${error.diff}` : ""}`;

/** The parts that suites found missing, and why. */
function missingParts() {
  const path = join(process.env.INSITU_TEST_FOLDER ?? "", "missing");
  const lines = existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
  return new Map(lines.map((line) => line.split("\t")));
}

/**
 * What was not run, and what of it is a failure. `skips` has for each suite its text, and how many tests were left out by the sample and otherwise;
 * `expected` are the parts that must be there.
 */
export function skipReport(skips, missing, expected = []) {
  const lines = [];
  const failures = [];
  const sampled = skips.reduce((sum, each) => sum + each.sampled, 0);
  if (sampled > 0)
    lines.push(`not run: ${sampled} tests that are not in the sample (CONTRIBUTING.md says of which suites)`);
  let others = skips.reduce((sum, each) => sum + each.others, 0);
  for (const [part, why] of missing) {
    const { word, budget } = parts[part];
    const asking = skips.filter(({ text, others: left }) => left > 0 && word.test(text));
    const tests = asking.reduce((sum, each) => sum + each.others, 0);
    others -= tests;
    lines.push(`not run for want of ${part}: ${tests} tests in ${asking.length} suites, ${budget} at most: ${why}`);
    if (tests > budget)
      failures.push(`${tests} tests were not run for want of ${part}: scripts/gate.mjs allows ${budget}`);
    for (const each of asking) each.others = 0;
  }
  for (const part of expected)
    if (missing.has(part)) failures.push(`${part} is expected here (INSITU_PARTS) and missing: ${missing.get(part)}`);
  if (others > 0)
    lines.push(`not run: ${others} tests of the soak, of other systems, or of packages that are not installed`);
  return { lines, failures };
}

export default class ClosingLine {
  onInit({ config }) {
    const whole = (config.env?.INSITU_WHOLE_SUITES ?? "").split(",").filter(Boolean);
    if (whole.length > 0) console.log(`run whole, since they are named or guard what changed: ${whole.join(", ")}`);
  }

  onTestModuleEnd(module) {
    const seconds = (module.diagnostic().duration / 1000).toFixed(1);
    console.log(
      `${relative(process.cwd(), module.moduleId)}: ${describe(count(module.children.allTests()))} (${seconds} s)`,
    );
    for (const error of errorsAround(module)) console.log(`FAILED outside a test: ${textOf(error)}`);
    for (const test of module.children.allTests("failed")) {
      console.log(`FAILED ${test.fullName}`);
      for (const error of test.result().errors ?? []) console.log(textOf(error));
    }
  }

  onUserConsoleLog(log) {
    process.stdout.write(log.content);
  }

  onTestRunEnd(modules, unhandledErrors) {
    const total = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const error of unhandledErrors) console.log(textOf(error));
    for (const module of modules) {
      if (errorsAround(module).length > 0) total.failed++;
      const counts = count(module.children.allTests());
      for (const state of Object.keys(total)) total[state] += counts[state];
    }
    const skips = modules.map((module) => {
      const left = [...module.children.allTests()].filter(
        (test) => !["passed", "failed"].includes(test.result().state),
      );
      const sampled = left.filter((test) => test.result().note === "not in this sample").length;
      return { text: readFileSync(module.moduleId, "utf8"), sampled, others: left.length - sampled };
    });
    const expected = (process.env.INSITU_PARTS ?? "").split(",").filter(Boolean);
    const { lines, failures } = skipReport(skips, missingParts(), expected);
    for (const line of [...lines, ...failures.map((failure) => `FAILED ${failure}`)]) console.log(line);
    total.failed += failures.length;
    if (failures.length > 0) process.exitCode = 1;
    process.on("exit", () => process.stdout.write(`${describe(total)}\n`));
  }
}
