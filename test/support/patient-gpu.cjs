// Loaded into every process of the tests: Dawn asks by setImmediate whether what it began has ended, again and again, which keeps a core busy for as long
// as a shader is compiled. Others have work for that core: after a few askings in a row it asks each millisecond.
"use strict";
const { promisify } = require("node:util");

const { setImmediate: soon } = globalThis;

/** Askings in a row, and those that need not wait. */
let asked = 0;
const atOnce = 8;
let isAsking = false;

// Dawn's own function is native code, and asks anew from inside of it; what is begun is asked for from without.
const isNative = (callback) => Function.prototype.toString.call(callback).includes("[native code]");

function patient(callback, ...args) {
  if (typeof callback !== "function" || args.length > 0 || !isNative(callback)) return soon(callback, ...args);
  asked = isAsking ? asked + 1 : 0;
  const ask = () => {
    isAsking = true;
    try {
      callback();
    } finally {
      isAsking = false;
    }
  };
  return asked < atOnce ? soon(ask) : setTimeout(ask, 1);
}

globalThis.setImmediate = Object.defineProperties(patient, {
  [promisify.custom]: { get: () => soon[promisify.custom], enumerable: true },
});
