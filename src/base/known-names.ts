/** Words that editors complete. Most types take any other text as well. */

/** Any other text: keeps a union with text from being text alone, so that its names stay known. */
type OtherText = string & Record<never, never>;

/** Which of a model's ONNX files: the names that the hub uses, or the name of a folder. */
export type ModelVariant = "q4" | "q4f16" | "q8" | "int8" | "uint8" | "bnb4" | "fp16" | "fp32" | OtherText;

/** Who says a message: the usual roles, or another one that the model's chat template knows. */
export type ChatRole = "system" | "developer" | "user" | "assistant" | "tool" | OtherText;

/** How hard a model thinks: the usual words, or another one that the model's chat template knows. */
export type ReasoningEffort = "none" | "minimal" | "low" | "medium" | "high" | OtherText;

/** The families of models whose tool calls and reasoning are known, by name. */
export type ToolFormat =
  | "hermes"
  | "qwen-coder"
  | "llama3"
  | "mistral"
  | "gemma"
  | "function-gemma"
  | "phi4"
  | "deepseek"
  | "glm"
  | "lfm2"
  | "harmony"
  | "granite";
