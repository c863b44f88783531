#!/usr/bin/env node
/** The program `insitu` with all its tools in it, for machines that get it as one file. */
import { runProgram } from "#insitu/cli/program.js";
import { tools } from "./all-tools.js";

runProgram(async () => tools);
