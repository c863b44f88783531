// A streaming chat in React: <Chat lm={await CausalLM.load(url)} /> with CausalLM of insitu/worker.
import { useRef, useState } from "react";

export function Chat({ lm }) {
  const talk = useRef(null);
  const [messages, setMessages] = useState([]);
  const [isBusy, setBusy] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    const say = event.currentTarget.elements.say;
    talk.current ??= lm.chat([], { maxTokens: 60 });
    const reply = talk.current.send(say.value);
    say.value = "";
    setBusy(true);
    for await (const _ of reply) setMessages([...talk.current.messages]);
    setBusy(false);
  };
  return (
    <form onSubmit={send}>
      {messages.map(({ role, content }, at) => <p key={at} className={role}>{content}</p>)}
      <input name="say" placeholder="Say something" disabled={isBusy} required />
    </form>
  );
}
