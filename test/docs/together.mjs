// Runs programs and commands of pages one after another in this process, each in the folder of its page: what loading the package takes is
// paid once. `node together.mjs WORK.json` reads a list of { name, folder, program } and { name, folder, commandLine, args }, and writes what
// each printed, and how it ended, to WORK.json.ended. It ends by itself if none of them keeps it from that.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , path] = process.argv;
const ended = {};

for (const { name, folder, program, commandLine, args } of JSON.parse(readFileSync(path, "utf8"))) {
  const said = { stdout: "", stderr: "" };
  const streams = ["stdout", "stderr"].map((stream) => {
    const write = process[stream].write;
    process[stream].write = (text, encoding, done) => {
      said[stream] += text;
      const heard = typeof encoding === "function" ? encoding : done;
      if (heard !== undefined) queueMicrotask(heard);
      return true;
    };
    return () => (process[stream].write = write);
  });
  process.chdir(folder);
  let status = 0;
  try {
    if (program !== undefined) await import(pathToFileURL(program).href);
    else status = await (await import(pathToFileURL(commandLine).href)).runCommandLine(args);
  } catch (error) {
    status = 1;
    said.stderr += error.stack;
  }
  for (const restore of streams) restore();
  ended[name] = { status, ...said };
}
writeFileSync(`${path}.ended`, JSON.stringify(ended));
