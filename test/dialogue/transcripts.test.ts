// Each family's replies: read whole, and in random pieces, which come to the same.
import { describe, expect, test } from "vitest";
import { familyNames } from "../../packages/dialogue/families.js";
import { eventsOf, readAnyhow } from "./support.js";
import { transcripts } from "./transcripts.js";

describe.each(familyNames)("%s", (name) => {
  const own = transcripts.filter(({ family }) => family === name);
  test.each(own.map((each) => [each.what, each] as const))("%s", (_, { reply, is, options }) => {
    const found = readAnyhow(name, reply, options);
    expect(found).toMatchObject(is);
    for (const [, given, isDone] of found.calls) if (isDone) expect(() => void JSON.parse(given)).not.toThrow();
    // What is not said to be there is not there.
    expect({ calls: [], reasoning: "", text: "", ...is }).toEqual(found);
  });

  test("there are a call, several, text beside one, thoughts before one, and a broken one", () => {
    for (const what of ["a call", "several calls", "a call with text", "thoughts and a call", "a broken call"])
      expect(
        own.filter((each) => each.what.startsWith(what)),
        what,
      ).not.toEqual([]);
  });
});

test("arguments come as they are made, and nothing of a mark is ever text", () => {
  const reply = 'Hm.\n<tool_call>\n{"name": "search", "arguments": {"query": "Bern in winter"}}\n</tool_call>';
  const events = eventsOf("hermes", reply.split(""));
  expect(events.filter(({ kind }) => kind === "arguments").length).toBeGreaterThan(20);
  expect(events.flatMap((event) => (event.kind === "text" ? [event.text] : [])).join("")).toBe("Hm.");
  const coder =
    "<tool_call>\n<function=search>\n<parameter=query>\nBern in winter\n</parameter>\n</function>\n</tool_call>";
  expect(eventsOf("qwen-coder", coder.split("")).filter(({ kind }) => kind === "arguments").length).toBeGreaterThan(10);
});
