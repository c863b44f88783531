export { InsituError } from "./base/error.js";
