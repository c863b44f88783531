/** The library's models by name, without what loads them: that is in the worker. */
import { modelsOf } from "insitu/hub/models";
import { webStore } from "insitu/platform/web-model-store";

export const models = modelsOf(webStore, (options) => options);
