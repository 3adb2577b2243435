// Where the next question is written. Enter sends, Escape stops.
import { useRef, useState } from "preact/hooks";
import { Growing, Notice } from "../shell/bits";
import { type Chat, pathFrom } from "../state/chats";
import { model } from "../state/server";
import { readTools, shape, shapeNames } from "../state/settings";
import { go } from "../shell/views";
import { added, dragged, noted, refused, takeFiles } from "./pictures";
import { isRunning, say, stop } from "./send";

function AddedPictures() {
  if (added.value.length === 0) return null;
  return (
    <div class="pictures added">
      {added.value.map((one, i) => (
        <span>
          <img src={one.url} alt={one.name} />
          <button type="button" aria-label={`Leave out ${one.name}`} onClick={() => { added.value = added.value.filter((_, j) => j !== i); }}>×</button>
        </span>
      ))}
    </div>
  );
}

// What is set that makes the answer another one than words in chat would suggest.
function InForce() {
  const tools = readTools.value;
  const kind = shape.value.kind;
  if (kind === "none" && tools.list.length === 0 && !tools.trouble) return null;
  return (
    <div class="in-force">
      {kind !== "none" && (
        <span>answers as <button type="button" class="link" onClick={() => go("form")}>{shapeNames[kind]}</button>
          <button type="button" class="quiet" aria-label="Free text again" onClick={() => { shape.value = { ...shape.value, kind: "none" }; }}>×</button>
        </span>
      )}
      {tools.list.length > 0 && <span>{tools.list.length} {tools.list.length === 1 ? "tool" : "tools"}</span>}
      {tools.trouble && <span class="problem">tools: {tools.trouble}</span>}
    </div>
  );
}

// Behind which turn the next question follows. A question that came to nothing is left aside: the next one is a branch beside it.
function lastHeard(chat: Chat): string {
  const path = pathFrom(chat, "");
  while (path.at(-1)?.problem) {
    path.pop();
    if (path.at(-1)?.role === "user") path.pop();
  }
  return path.at(-1)?.id ?? "";
}

export function Composer({ chat }: { chat: Chat }) {
  const [text, setText] = useState("");
  const chooser = useRef<HTMLInputElement>(null);
  const busy = isRunning(chat);
  const sees = model.value?.abilities?.vision ?? false;

  const send = () => {
    const pictures = added.value.map((one) => one.url);
    if (busy || (!text.trim() && pictures.length === 0)) return;
    const parent = lastHeard(chat);
    setText("");
    added.value = [];
    refused.value = noted.value = "";
    void say(chat.id, parent, text, pictures);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
    if (event.key === "ArrowUp" && !text) [...document.querySelectorAll<HTMLButtonElement>(".turn.user .edit")].at(-1)?.click();
  };
  return (
    <form class={`composer${dragged.value ? " over" : ""}`} onSubmit={(event) => { event.preventDefault(); send(); }}>
      <div class="inner">
        <Notice text={refused.value} />
        {noted.value && <p class="note" role="status">{noted.value}</p>}
        <InForce />
        <AddedPictures />
        <div class="line">
          <Growing id="message" value={text} label="Message" placeholder={dragged.value ? "Drop it anywhere" : "Ask something"} onInput={setText} onKeyDown={keys} focused />
          <input ref={chooser} id="files" type="file" accept="image/*,.json" multiple hidden
            onChange={(event) => void takeFiles(event.currentTarget.files ?? []).then(() => { chooser.current!.value = ""; })} />
          <button type="button" onClick={() => chooser.current!.click()} aria-label={sees ? "Add a picture" : "Add a file"}
            title={sees ? "A picture, a JSON schema" : "A JSON schema; this model takes no pictures"}>+</button>
          {busy ? <button type="button" class="stop" onClick={() => stop(chat.id)}>Stop</button>
            : <button type="submit" class="main" disabled={!text.trim() && added.value.length === 0}>Send</button>}
        </div>
      </div>
    </form>
  );
}
