// The views of the page and which one is open; its name stands behind the # of the address.
import { signal } from "@preact/signals";

export const views = [
  ["chat", "Chat"], ["complete", "Complete"], ["form", "Form"], ["tree", "Tree"], ["load", "Load"], ["program", "Program"],
] as const;
export type View = (typeof views)[number][0];

const named = (): View => views.find(([name]) => `#${name}` === location.hash)?.[0] ?? "chat";
export const view = signal<View>(named());
addEventListener("hashchange", () => { view.value = named(); });
export const go = (to: View): void => { location.hash = to; };
