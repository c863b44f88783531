// What one run on pages reads while texts come: as much as takes no longer than they may stand still, by the runs before.
import { expect, test } from "vitest";
import { StepBudget } from "../../src/engine/step-budget.js";
import { budget } from "../../src/engine/tuning.js";

const learning = (least = 0): StepBudget => new StepBudget(1024, 2048, { learns: true, least });

test("nothing is known at first; then quick devices read more, slow ones less", () => {
  const own = learning();
  expect([own.beside, own.alone]).toEqual([1024, 2048]);
  own.took(1024, budget.besideMilliseconds / 2.1);
  expect(own.beside).toBe(2048);
  for (let run = 0; run < 8; run++) own.took(1024, 1.5 * budget.besideMilliseconds);
  expect(own.beside).toBe(512);
  for (let run = 0; run < 8; run++) own.took(512, 10 * budget.besideMilliseconds);
  expect(own.beside).toBe(256);
  for (let run = 0; run < 20; run++) own.took(256, 1);
  expect([own.beside, own.alone]).toEqual([2048, 2048]);
});

test("runs of few tokens say nothing, and all that run have room", () => {
  const own = learning(600);
  own.took(100, 1e6);
  expect(own.beside).toBe(1024);
  own.took(1024, 1e6);
  expect(own.beside).toBe(1024);
});

test("a budget that is given stays", () => {
  const own = new StepBudget(100, 100, { learns: false, least: 0 });
  own.took(100, 1e6);
  expect([own.beside, own.alone]).toEqual([100, 100]);
});
