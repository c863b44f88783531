// Loaded into every process of the tests before all else: the machine seems to have one core. The suites run side by side on all of them, and
// threads that nobody asked for would only take each other's time, some of it in waiting for work. Suites about threads ask for them; the
// soak runs without this.
const os = require("node:os");
os.availableParallelism = () => 1;
require("node:module").syncBuiltinESMExports();
