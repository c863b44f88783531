// The long form of the suites: the same tests, with INSITU_SOAK set so that sampled suites run their full counts.
import { defineConfig, mergeConfig } from "vitest/config";
import base from "./vitest.config.js";

export default mergeConfig(base, defineConfig({ test: { env: { INSITU_SOAK: "1" }, testTimeout: 3_600_000 } }));
