/** The options of what is done with the hub, as they must be. */
import { checkCallback, checkName, checkRule, checkSignal, optionsWithoutNull } from "#insitu/base/arguments.js";
import type { OptionNames } from "#insitu/base/option-names.js";
import type { HubOptions } from "./models-api.js";

const hubOptionNames: OptionNames<HubOptions> = {
  revision: true,
  variant: true,
  cache: true,
  hubUrl: true,
  accessToken: true,
  signal: true,
  onPlan: true,
  onProgress: true,
};

/** The options as they must be; they are part of paths. */
export function checkedHubOptions(given: HubOptions | undefined): HubOptions {
  const options = optionsWithoutNull("the options of hub", given, hubOptionNames);
  for (const name of ["revision", "variant", "cache", "hubUrl", "accessToken"] as const)
    checkName(`option hub.${name}`, options[name]);
  const { revision, variant, hubUrl } = options;
  checkRule("option hub.revision", revision, "a branch, tag or commit", !["", ".", ".."].includes(revision ?? "main"));
  checkRule("option hub.variant", variant, "the name of a variant, without slashes", !/[\\/]/.test(variant ?? ""));
  checkRule("option hub.hubUrl", hubUrl, "a URL", URL.canParse(hubUrl ?? ""));
  checkCallback("option hub.onPlan", options.onPlan);
  checkCallback("option hub.onProgress", options.onProgress);
  checkSignal(options.signal);
  return options;
}
