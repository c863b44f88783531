#!/usr/bin/env node
/** The program `insitu`: the command line of this process. Who asks for the version alone does not wait for the library. */
import { asksForVersion, insituVersion } from "./version.js";

if (asksForVersion(process.argv[2])) console.log(insituVersion());
else (await import("./program.js")).runProgram();
