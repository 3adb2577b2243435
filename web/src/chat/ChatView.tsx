// A conversation: its system prompt, its turns, and where the next one is written.
import { useEffect, useRef } from "preact/hooks";
import { Mark } from "../shell/Mark";
import { Growing } from "../shell/bits";
import { change, chat, exportChats } from "../state/chats";
import { model, serverState, serverTrouble, shortName } from "../state/server";
import { chosen } from "../state/settings";
import { keysOpen } from "../shell/Keys";
import { go } from "../shell/views";
import { Branches } from "./Branches";
import { Composer } from "./Composer";
import { isRunning, stop } from "./send";

function Empty() {
  const one = model.value;
  const state = serverState.value;
  return (
    <div class="empty">
      <Mark size={72} />
      <h2>{one ? shortName(one.name) : state ? "No model is served" : "Espalier"}</h2>
      <p>
        {serverTrouble.value || (state?.phase === "loading" ? state.loading : one?.abilities && !one.abilities.chat
          ? "This model has no chat template: use the view Complete." : one?.context_length
            ? `${one.architecture}, ${one.quantization}, ${one.context_length.toLocaleString("en")} tokens of context` : "")}
      </p>
      <p class="hint">Enter sends, Shift + Enter starts a new line. {one?.abilities?.vision ? "Drop or paste pictures. " : ""}Drop a JSON schema to give answers a form, or <button type="button" class="link" onClick={() => go("form")}>write one</button>. <button type="button" class="link" onClick={() => { keysOpen.value = true; }}>All keys</button></p>
    </div>
  );
}

function System() {
  const one = chat.value;
  return (
    <details class="system" open={one.system !== "" && one.turns.length === 0}>
      <summary>System prompt{one.system ? <span class="start">{one.system}</span> : <span class="start">none</span>}</summary>
      <Growing value={one.system} label="System prompt" placeholder="Who the model is, and how it answers" rows={2}
        onInput={(system) => change(one.id, () => ({ system }))} />
    </details>
  );
}

export function ChatView() {
  const one = chat.value;
  const log = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const onScroll = () => {
    const box = log.current!;
    follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  };
  useEffect(() => {
    if (follows.current && log.current) log.current.scrollTop = log.current.scrollHeight;
  }, [one]);
  useEffect(() => {
    follows.current = true;
  }, [one.id, one.turns.length]);
  useEffect(() => {
    const escape = (event: KeyboardEvent) => {
      if (event.key === "Escape" && isRunning(chat.value)) stop(chat.value.id);
    };
    addEventListener("keydown", escape);
    return () => removeEventListener("keydown", escape);
  }, []);
  const toggle = () => { chosen.value = { ...chosen.value, tokens: !chosen.value.tokens }; };
  return (
    <div class="chat">
      <header class="bar">
        <h2>{one.title || "New chat"}</h2>
        <label class="switch"><input type="checkbox" checked={chosen.value.tokens} onChange={toggle} />Tokens</label>
        {one.turns.length > 0 && <button type="button" class="quiet" onClick={() => exportChats([one])}>Export</button>}
      </header>
      <div class="scroll" ref={log} onScroll={onScroll} tabIndex={-1}>
        <System />
        <div class="turns" role="log" aria-live="polite" aria-label="Conversation">
          {one.turns.length === 0 ? <Empty /> : <Branches chat={one} />}
        </div>
      </div>
      <Composer chat={one} key={one.id} />
    </div>
  );
}
