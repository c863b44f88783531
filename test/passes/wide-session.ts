// Sessions on a backend that computes everything by the reference implementation and takes all that the passes can make.
import type { Backend } from "../../src/backends/backend.js";
import { backends } from "../../src/entry/backends.js";
import { nodePlatform } from "../../src/platform/node.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Session } from "../../src/session/session.js";
import { opaqueBackend } from "../support/opaque-backend.js";
import type { AnyBackend } from "../support/any-backend.js";

const wide: Backend = { ...opaqueBackend, name: "wide", hasKernel: () => true };
const choices = [{ name: "wide", load: async () => wide }, ...backends];

/** A session that may be asked for `backend: "wide"`. */
export class WideSession extends Session {
  static async create(source: Uint8Array, options: AnyBackend): Promise<WideSession> {
    return new WideSession(await Session.prepare(source, nodePlatform, choices, options as SessionOptions));
  }
}
