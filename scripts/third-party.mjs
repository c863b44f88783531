// The licences of the packages that a bundle holds, as one text: found in what the bundler read, taken from the packages themselves.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Packages whose files the bundler read, by its list of inputs. */
const packagesOf = (inputs) =>
  [...new Set(inputs.flatMap((path) => /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []))].sort(
    (a, b) => a.localeCompare(b),
  );

/** Notices that stand in a package's sources, where it has no file of them: those of other authors than its own. */
function noticesIn(inputs, name, root) {
  const own = inputs.filter((path) => path.includes(`node_modules/${name}/`));
  const comments = own.flatMap((path) => /^(?:\/\/.*\n)+/.exec(readFileSync(join(root, path), "utf8"))?.[0] ?? []);
  return [
    ...new Set(
      comments.filter((text) => /copyright/i.test(text)).map((text) => text.replaceAll(/^\/\/ ?/gm, "").trim()),
    ),
  ];
}

/** The text that goes beside a bundle. Throws for a package that says nothing of its licence. */
export function thirdPartyText(inputs, root) {
  const parts = packagesOf(inputs).map((name) => {
    const folder = join(root, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    if (typeof license !== "string") throw new Error(`${name} ${version} says nothing of its licence`);
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"]
      .map((each) => join(folder, each))
      .find((each) => existsSync(each));
    const texts = file === undefined ? noticesIn(inputs, name, root) : [readFileSync(file, "utf8").trim()];
    if (texts.length === 0) throw new Error(`${name} ${version} brings no text of its licence, ${license}`);
    return [`${name} ${version}, ${license}`, ...texts].join("\n\n");
  });
  const line = `\n\n${"-".repeat(78)}\n\n`;
  return `insitu is under the Apache License 2.0. Its bundle for browsers holds parts of these packages:${line}${parts.join(line)}\n`;
}
