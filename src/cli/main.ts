#!/usr/bin/env node
/** The program `insitu`: the command line of this process. */
import { runProgram } from "./program.js";

runProgram();
