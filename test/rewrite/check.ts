// A rewritten model checked as the command line checks it, in sessions of Node's.
import { InferenceSession } from "../../src/entry/node.js";
import { checkRewrite as check, type CheckedModels, type CheckResult } from "../../tools/rewrite-check/check.js";

export const checkRewrite = (models: CheckedModels): Promise<CheckResult> =>
  check(models, (source, options) => InferenceSession.create(source, options));
