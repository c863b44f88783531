// Whether the suites run with their full counts: `npm run soak`, or one suite with INSITU_SOAK=1. The tests run a sample of them.

/** True in the soak. */
export const soak: boolean = process.env["INSITU_SOAK"] !== undefined;
