/** What element-wise kernels and folds are told: the part of jobs.ts that their fast paths speak of. */
export { elementsOperation, foldOperation, instruction, operationCode, registerKind } from "./jobs.js";
