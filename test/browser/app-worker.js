// A worker of an application: decodes what it is told to and posts the result.
import * as insitu from "insitu";
import { decode } from "./decode.js";

addEventListener("message", async ({ data: { model, options, count } }) => {
  try {
    postMessage(await decode(insitu, model, options, count));
  } catch (error) {
    postMessage({ error: error.name, code: error.code, message: error.message });
  }
});
