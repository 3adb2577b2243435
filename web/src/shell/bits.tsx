// Small pieces that several views are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

// navigator.clipboard exists only on https and on this machine.
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = document.createElement("textarea");
    box.value = text;
    box.className = "unseen";
    document.body.append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    return done;
  }
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [said, say] = useState("");
  const copy = async () => {
    say(await copyText(text) ? "Copied" : "Cannot copy here");
    setTimeout(() => say(""), 1500);
  };
  return <button type="button" class="quiet" onClick={copy}>{said || label}</button>;
}

export function Notice({ text, children }: { text: string; children?: ComponentChildren }) {
  return text ? <p class="problem" role="alert">{text}{children}</p> : null;
}

// A textarea as high as its text.
interface GrowingProps {
  id?: string;
  value: string;
  label: string;
  placeholder?: string;
  mono?: boolean;
  rows?: number;
  onInput: (value: string) => void;
  onKeyDown?: (event: KeyboardEvent) => void;
  focused?: boolean;
  invalid?: boolean;
}

export function Growing({ id, value, label, placeholder, mono, rows = 1, onInput, onKeyDown, focused, invalid }: GrowingProps) {
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const area = box.current!;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight + 2}px`;
  }, [value]);
  useEffect(() => {
    if (focused) {
      box.current!.focus();
      box.current!.setSelectionRange(value.length, value.length);
    }
  }, [focused]);
  return (
    <textarea id={id} ref={box} class={mono ? "mono" : ""} rows={rows} value={value} aria-label={label} aria-invalid={invalid}
      placeholder={placeholder} spellcheck={!mono} onInput={(event) => onInput(event.currentTarget.value)} onKeyDown={onKeyDown} />
  );
}

interface TabsProps<T extends string> {
  label: string;
  all: readonly (readonly [T, string])[];
  now: T;
  onChoose: (one: T) => void;
}

// Choices of which one holds, as radio buttons that look like a row of labels.
export function Choices<T extends string>({ label, all, now, onChoose }: TabsProps<T>) {
  return (
    <div class="choices" role="radiogroup" aria-label={label}>
      {all.map(([value, text]) => (
        <label class={value === now ? "on" : ""}>
          <input type="radio" name={label} checked={value === now} onChange={() => onChoose(value)} />{text}
        </label>
      ))}
    </div>
  );
}

export const count = (n: number): string => n.toLocaleString("en");
export function bytes(n: number): string {
  if (n <= 0) return "0";
  const step = Math.min(3, Math.max(1, Math.floor(Math.log(n) / Math.log(1024))));
  return `${(n / 1024 ** step).toPrecision(3)} ${["", "KiB", "MiB", "GiB"][step]}`;
}
export function seconds(s: number): string {
  if (!Number.isFinite(s)) return "–";
  if (s < 0.0995) return `${(1000 * s).toPrecision(2)} ms`;
  return s < 0.9995 ? `${(1000 * s).toFixed(0)} ms` : `${s.toPrecision(3)} s`;
}
export function duration(s: number): string {
  const units: [number, string][] = [[86400, "days"], [3600, "h"], [60, "min"]];
  const [size, name] = units.find(([size]) => s >= 2 * size) ?? [1, "s"];
  return `${Math.floor(s / size)} ${name}`;
}
