// A vitest reporter: one line for each file as it ends, every failure in full, and a closing line "N passed, N failed, N skipped".
// A file that does not load, a hook that fails and an error outside a test count as failures.
import { relative } from "node:path";

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

export default class ClosingLine {
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
    process.on("exit", () => process.stdout.write(`${describe(total)}\n`));
  }
}
