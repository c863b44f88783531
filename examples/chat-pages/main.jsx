// Loads a model in a worker, and shows the two chats.
import { createRoot } from "react-dom/client";
import { CausalLM } from "insitu/worker";
import { chat } from "./plain.js";
import { Chat } from "./react.jsx";

const lm = await CausalLM.load("/models/embedded");
chat(document.getElementById("plain"), lm);
createRoot(document.getElementById("react")).render(<Chat lm={lm} />);
document.title = "ready";
