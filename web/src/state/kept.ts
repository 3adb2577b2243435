// Signals whose value outlives the page: small things in the browser's local storage.
import { effect, signal, type Signal } from "@preact/signals";
import { keep } from "../net/api";

export function kept<T extends object>(name: string, initial: T): Signal<T> {
  let value = initial;
  try {
    value = { ...initial, ...JSON.parse(localStorage.getItem(name) ?? "{}") };
  } catch {
    /* what is not readable is as if it were not there */
  }
  const out = signal<T>(value);
  effect(() => keep(() => localStorage, name, JSON.stringify(out.value)));
  return out;
}
