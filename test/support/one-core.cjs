// Loaded into every process of the tests before all else: the machine seems to have one core. The suites run side by side on all of them, and
// threads that nobody asked for would only take each other's time, some of it in waiting for work. Suites about threads ask for them. For the
// same reason V8 optimizes a function only after sixteen times as much work in it: most of what the suites run ends before that pays. The
// soak runs without this.
const os = require("node:os");
os.availableParallelism = () => 1;
require("node:module").syncBuiltinESMExports();
require("node:v8").setFlagsFromString("--interrupt-budget=1080000");
