// What the keyboard does, and the dialog that tells it.
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { begin } from "../state/chats";
import { settingsOpen } from "../state/settings";
import { go, views } from "./views";

export const keysOpen = signal(false);
const listed: [string, string][] = [
  ["Alt + 1 … 6", "the views, from Chat to Program"], ["Alt + N", "a new chat"], ["Alt + S", "settings"], ["Enter", "send; Shift + Enter starts a line"],
  ["Escape", "stop the answer, close what is open"], ["↑ in an empty message", "edit the last question"], ["← →", "walk through tokens"],
  ["↑ ↓ ← →", "walk along the tree's nodes"], ["?", "this list"],
];

function handle(event: KeyboardEvent): void {
  const writes = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.altKey && !event.ctrlKey && !event.metaKey) {
    const number = views[Number(event.code.replace("Digit", "")) - 1];
    if (number) go(number[0]);
    else if (event.code === "KeyN") { begin(); go("chat"); }
    else if (event.code === "KeyS") settingsOpen.value = !settingsOpen.value;
    else return;
    event.preventDefault();
  } else if (event.key === "?" && !writes) {
    keysOpen.value = !keysOpen.value;
  }
}

export function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    addEventListener("keydown", handle);
    return () => removeEventListener("keydown", handle);
  }, []);
  useEffect(() => {
    if (keysOpen.value) dialog.current!.showModal();
    else dialog.current!.close();
  }, [keysOpen.value]);
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={() => { keysOpen.value = false; }}>
      <h2 id="keys-title">Keys</h2>
      <dl>{listed.map(([keys, what]) => <><dt>{keys}</dt><dd>{what}</dd></>)}</dl>
      <button type="button" class="main" onClick={() => { keysOpen.value = false; }}>Close</button>
    </dialog>
  );
}
