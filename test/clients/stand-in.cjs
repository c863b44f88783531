// Required before a program, it has insitu stand where onnxruntime-node would be found: an override without an installation.
const Module = require("node:module");
const path = require("node:path");

const standIn = path.join(__dirname, "../../dist/lib/onnxruntime.node.js");
const resolve = Module._resolveFilename;
Module._resolveFilename = function (request, ...others) {
  return request === "onnxruntime-node" ? standIn : resolve.call(this, request, ...others);
};
