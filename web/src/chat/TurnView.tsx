// One turn: what was said, what can be done with it, and, where branches part, which one this is.
import { useState } from "preact/hooks";
import { CopyButton, count, Growing, seconds } from "../shell/bits";
import { begin, change, childrenOf, type Chat, chat as currentChat, removeTurn, type Turn } from "../state/chats";
import { shortName } from "../state/server";
import { chosen } from "../state/settings";
import { Answer } from "../text/Markdown";
import { Tokens } from "../text/Tokens";
import { Calls, Results } from "./Calls";
import { answer, isRunning, say, sayInstead, writeInstead } from "./send";

function Pictures({ urls }: { urls: string[] }) {
  return <div class="pictures">{urls.map((url, i) => <img src={url} alt={`Picture ${i + 1} of this turn`} />)}</div>;
}

function Figures({ turn }: { turn: Turn }) {
  const f = turn.figures;
  if (!f) return null;
  const rate = f.made > 1 && f.ms - f.firstMs > 50 ? (f.made - 1) / ((f.ms - f.firstMs) / 1000) : 0;
  const parts = [
    `${count(f.made)} tokens${f.answers > 1 ? " together" : ""}`, rate > 0 ? `${rate.toFixed(rate < 20 ? 1 : 0)} a second` : "", `first after ${seconds(f.firstMs / 1000)}`,
    f.cached > 0 ? `${count(f.cached)} of ${count(f.prompt)} prompt tokens from the cache` : `${count(f.prompt)} prompt tokens`,
  ];
  return <span class="figures">{parts.filter(Boolean).join(" · ")}</span>;
}

const ends: Record<string, string> = { length: "cut off at its limit of tokens", stopped: "stopped" };

// "2 of 3", with ways to its siblings.
function Siblings({ chat, turn }: { chat: Chat; turn: Turn }) {
  const all = childrenOf(chat, turn.parent);
  if (all.length < 2) return null;
  const at = all.findIndex((one) => one.id === turn.id);
  const go = (step: number) => change(chat.id, (one) => ({ shown: { ...one.shown, [turn.parent]: all[at + step]!.id } }));
  const spread = () => change(chat.id, (one) => ({ beside: { ...one.beside, [turn.parent]: true } }));
  return (
    <span class="siblings" role="group" aria-label="Branches of this fork">
      <button type="button" class="quiet" disabled={at === 0} onClick={() => go(-1)} aria-label="Branch before">‹</button>
      <span>{at + 1} of {all.length}</span>
      <button type="button" class="quiet" disabled={at === all.length - 1} onClick={() => go(1)} aria-label="Next branch">›</button>
      <button type="button" class="quiet" onClick={spread}>Side by side</button>
    </span>
  );
}

function Editor({ turn, onDone, onSend }: { turn: Turn; onDone: () => void; onSend: (text: string) => void }) {
  const [text, setText] = useState(turn.text);
  const send = () => {
    onDone();
    onSend(text);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape") onDone();
    if (event.key === "Enter" && !event.shiftKey && turn.role === "user" && !event.isComposing) {
      event.preventDefault();
      send();
    }
  };
  return (
    <div class="editor">
      <Growing value={text} label="The turn in other words" onInput={setText} onKeyDown={keys} focused />
      <button type="button" class="main" onClick={send}>{turn.role === "user" ? "Ask this instead" : "Keep this instead"}</button>
      <button type="button" onClick={onDone}>Leave as it is</button>
    </div>
  );
}

function Thinking({ turn }: { turn: Turn }) {
  const thinks = turn.running && !turn.text && !turn.calls;
  const long = turn.figures?.thought;
  return (
    <details class="thinking" open={thinks}>
      <summary>{thinks ? "Thinking" : long ? `Thought for ${count(long)} tokens` : "Thought first"}</summary>
      <div>{turn.thinking}</div>
    </details>
  );
}

function Trouble({ chat, turn }: { chat: Chat; turn: Turn }) {
  const parent = chat.turns.find((one) => one.id === turn.parent);
  const again = () => {
    removeTurn(chat.id, turn.id);
    void answer(chat.id, turn.parent);
  };
  const elsewhere = () => {
    begin(chat.system);
    void say(currentChat.value.id, "", parent?.text ?? "", parent?.pictures ?? []);
  };
  const full = turn.problem!.code === "context_length_exceeded";
  return (
    <div class="problem" role="alert">
      <p>{full ? "The conversation no longer fits the model's context. " : ""}{turn.problem!.text}</p>
      <button type="button" onClick={again}>Ask again</button>
      {full && parent?.role === "user" && <button type="button" onClick={elsewhere}>New chat with this question</button>}
    </div>
  );
}

function Said({ chat, turn }: { chat: Chat; turn: Turn }) {
  const silent = turn.running && !turn.text && !turn.thinking && !turn.calls;
  const answered = childrenOf(chat, turn.id).some((one) => one.role === "tool");
  return (
    <>
      {turn.thinking && <Thinking turn={turn} />}
      {silent && <p class="waiting"><span class="unseen">Waiting for the first word</span><i /><i /><i /></p>}
      {chosen.value.tokens && turn.tokens ? <Tokens tokens={turn.tokens} /> : turn.text && <Answer text={turn.text} />}
      {turn.calls && <Calls chatId={chat.id} turn={turn} answered={answered} />}
      {turn.problem && <Trouble chat={chat} turn={turn} />}
    </>
  );
}

const speakers = { user: "You", tool: "Tool", assistant: "" };

function Deeds({ chat, turn, onEdit }: { chat: Chat; turn: Turn; onEdit: () => void }) {
  const busy = isRunning(chat);
  const again = turn.role === "user" ? turn.id : turn.parent;
  return (
    <span class="deeds">
      {turn.text && <CopyButton text={turn.text} />}
      {!turn.problem && <button type="button" class="quiet edit" disabled={busy} onClick={onEdit}>Edit</button>}
      {!turn.problem && (
        <button type="button" class="quiet" disabled={busy} onClick={() => void answer(chat.id, again)}>{turn.role === "user" ? "Ask again" : "Another answer"}</button>
      )}
    </span>
  );
}

interface TurnProps {
  chat: Chat;
  turn: Turn;
  inColumn?: boolean;
}

export function TurnView({ chat, turn, inColumn }: TurnProps) {
  const [editing, edit] = useState(false);
  const instead = (text: string) => turn.role === "user" ? void sayInstead(chat.id, turn, text) : writeInstead(chat.id, turn, text);
  const caller = chat.turns.find((one) => one.id === turn.parent);
  return (
    <article class={`turn ${turn.role}${turn.running ? " running" : ""}`} aria-busy={turn.running} data-turn={turn.id}>
      <header>
        <h3>{speakers[turn.role] || shortName(turn.model ?? "") || "Answer"}{turn.edited && <small> · edited</small>}</h3>
        {turn.role === "user" && !editing && <Deeds chat={chat} turn={turn} onEdit={() => edit(true)} />}
        {!inColumn && <Siblings chat={chat} turn={turn} />}
      </header>
      {editing ? <Editor turn={turn} onDone={() => edit(false)} onSend={instead} /> : (
        <>
          {turn.pictures && <Pictures urls={turn.pictures} />}
          {turn.role === "assistant" ? <Said chat={chat} turn={turn} /> : turn.role === "tool"
            ? <Results turn={turn} calls={caller?.calls ?? []} /> : turn.text && <p class="asked">{turn.text}</p>}
        </>
      )}
      {!editing && !turn.running && turn.role === "assistant" && (
        <footer>
          {!turn.problem && <Figures turn={turn} />}
          {turn.ended && ends[turn.ended] && <span class="figures">{ends[turn.ended]}</span>}
          <Deeds chat={chat} turn={turn} onEdit={() => edit(true)} />
        </footer>
      )}
    </article>
  );
}
