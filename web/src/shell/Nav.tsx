// The trunk at the left: views are its arms, conversations the shoots of the first one. On a phone a row at the bottom.
import { useRef, useState } from "preact/hooks";
import { stop } from "../chat/send";
import { begin, chat, currentId, exportChats, importChats, listed, remove } from "../state/chats";
import { modelName, shortName } from "../state/server";
import { settingsOpen } from "../state/settings";
import { Mark } from "./Mark";
import { go, type View, view, views } from "./views";

const icons: Record<View, string> = {
  chat: "M4 6h16v10H11l-4 4v-4H4z", complete: "M4 7h16M4 12h10M4 17h6M17 12v9M14.5 12h5M14.5 21h5", form: "M3 12h4M17 12h4M7 12a5 5 0 1 0 10 0 5 5 0 1 0-10 0M10 12a2 2 0 1 0 4 0 2 2 0 1 0-4 0",
  tree: "M12 22V4M12 18H6a2 2 0 0 1-2-2V6M12 18h6a2 2 0 0 0 2-2V6M12 11H10a2 2 0 0 1-2-2V6M12 11h2a2 2 0 0 0 2-2V6", load: "M4 20V13M9 20V8M14 20v-5M19 20V4",
  program: "M12 3v5M12 8H8a3 3 0 0 0-3 3v3M12 8h4a3 3 0 0 1 3 3v3M3 14h4v5H3zM17 14h4v5h-4z",
};

export const Icon = ({ path }: { path: string }) => <svg class="icon" viewBox="0 0 24 24" fill="none" aria-hidden="true"><path d={path} /></svg>;

function Conversations() {
  const chooser = useRef<HTMLInputElement>(null);
  const [trouble, say] = useState("");
  const read = async (files: FileList | null) => {
    try {
      say("");
      if (files?.[0]) importChats(await files[0].text());
    } catch (failure) {
      say((failure as Error).message);
    }
    chooser.current!.value = "";
  };
  return (
    <section class="conversations" aria-label="Conversations">
      <button type="button" class="new" onClick={() => { begin(); go("chat"); }}>New chat</button>
      <ul>
        {listed.value.map((one) => (
          <li class={one.id === currentId.value && view.value === "chat" ? "on" : ""}>
            <button type="button" class="open" onClick={() => { currentId.value = one.id; go("chat"); }}
              aria-current={one.id === currentId.value ? "true" : undefined}>{one.title || "Untitled"}</button>
            <button type="button" class="quiet away" aria-label={`Delete ${one.title || "this conversation"}`} onClick={() => { stop(one.id); remove(one.id); }}>×</button>
          </li>
        ))}
      </ul>
      <p class="files">
        {listed.value.length > 0 && <button type="button" class="quiet" onClick={() => exportChats(listed.value)}>Export all</button>}
        <button type="button" class="quiet" onClick={() => chooser.current!.click()}>Import</button>
        <input ref={chooser} type="file" accept=".json,application/json" hidden onChange={(event) => void read(event.currentTarget.files)} />
      </p>
      {trouble && <p class="problem" role="alert">{trouble}</p>}
    </section>
  );
}

export function Nav() {
  const [listOpen, openList] = useState(false);
  return (
    <aside class={`trunk${listOpen ? " list-open" : ""}`} onClick={(event) => (event.target as HTMLElement).closest(".open,.new") && openList(false)}>
      <div class="brand">
        <Mark size={34} /><h1>Espalier</h1>
        <button type="button" class="quiet list-button" aria-expanded={listOpen} onClick={() => openList(!listOpen)}>Chats</button>
      </div>
      <nav aria-label="Views">
        <ul class="arms">
          {views.map(([name, label]) => (
            <li class={view.value === name ? "on" : ""}>
              <a href={`#${name}`} aria-current={view.value === name ? "page" : undefined}><Icon path={icons[name]} /><span>{label}</span></a>
            </li>
          ))}
        </ul>
      </nav>
      <Conversations key={chat.value.id === currentId.value ? "list" : "none"} />
      <button type="button" class="settings-button" aria-expanded={settingsOpen.value} onClick={() => { settingsOpen.value = !settingsOpen.value; }}>
        <span class="model" title={modelName.value}>{shortName(modelName.value) || "no model"}</span><span>Settings</span>
      </button>
    </aside>
  );
}
