// The page: the trunk with its arms, the open view, the drawer of settings.
import { render } from "preact";
import { useCallback, useEffect } from "preact/hooks";
import { ChatView } from "./chat/ChatView";
import { watchFiles } from "./chat/pictures";
import { CompleteView } from "./complete/CompleteView";
import { FormView } from "./shape/FormView";
import { LoadView } from "./load/LoadView";
import { keyWanted } from "./net/api";
import { ProgramView } from "./program/ProgramView";
import { Keys } from "./shell/Keys";
import { Nav } from "./shell/Nav";
import { Settings } from "./shell/Settings";
import { view, views } from "./shell/views";
import { loadChats } from "./state/chats";
import { usePolling } from "./state/poll";
import { askState, serverState } from "./state/server";
import { settingsOpen } from "./state/settings";
import { TreeView } from "./tree/TreeView";

const shown = { chat: ChatView, complete: CompleteView, form: FormView, tree: TreeView, load: LoadView, program: ProgramView };

function Page() {
  const Shown = shown[view.value];
  const name = views.find(([one]) => one === view.value)![1];
  useEffect(() => {
    document.title = `${name} · Espalier`;
  }, [name]);
  useEffect(() => {
    if (keyWanted.value) settingsOpen.value = true;
  }, [keyWanted.value]);
  useEffect(watchFiles, []);
  const state = serverState.value;
  const settled = state?.phase === "ready" && state.models.every((one) => one.state !== "loading");
  usePolling(useCallback(askState, []), settled ? 20_000 : 1500, view.value !== "load");
  return (
    <div class={`page${settingsOpen.value ? " with-drawer" : ""}`}>
      <Nav />
      <main aria-label={name}><Shown /></main>
      <Settings />
      <Keys />
    </div>
  );
}

void loadChats();
render(<Page />, document.getElementById("page")!);
