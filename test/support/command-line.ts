// `insitu` in the test's own process: what is typed and printed is the same, and nothing has to start. Standard input is not there.
import { vi } from "vitest";
import { runCommandLine } from "../../packages/cli/command-line.js";
import { tools } from "../../tools/cli/all-tools.js";

/** How a command ended, and what it printed. */
export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one command; not two at a time, since what is printed meanwhile is taken for its. */
export async function insituHere(args: readonly string[]): Promise<Ended> {
  const printed = { stdout: "", stderr: "" };
  const spies = [
    vi.spyOn(console, "log").mockImplementation((...said) => void (printed.stdout += `${said.join(" ")}\n`)),
    vi.spyOn(console, "error").mockImplementation((...said) => void (printed.stderr += `${said.join(" ")}\n`)),
    ...(["stdout", "stderr"] as const).map((stream) =>
      vi.spyOn(process[stream], "write").mockImplementation((text) => {
        printed[stream] += String(text);
        return true;
      }),
    ),
  ];
  try {
    return { status: await runCommandLine(args, async () => tools), ...printed };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}
