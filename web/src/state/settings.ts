// What somebody has set for requests: the sampling fields of docs/http.md, tools, the form of answers; and the page's look.
import { computed, effect, signal } from "@preact/signals";
import { kept } from "./kept";

export interface Knob {
  name: string;
  label: string;
  about: string;
  min: number;
  max: number;
  step: number;
  usual: string; // shown where nothing is set
  integer?: boolean;
  chatOnly?: boolean;
}

export const knobs: Knob[] = [
  { name: "temperature", label: "Temperature", about: "0 always takes the likeliest token", min: 0, max: 2, step: 0.05, usual: "1" },
  { name: "top_p", label: "Top p", about: "the likeliest tokens that together have this share", min: 0, max: 1, step: 0.01, usual: "1" },
  { name: "top_k", label: "Top k", about: "so many of the likeliest tokens; -1 is all", min: -1, max: 1000, step: 1, usual: "all", integer: true },
  { name: "min_p", label: "Min p", about: "tokens at least so likely beside the likeliest", min: 0, max: 1, step: 0.01, usual: "0" },
  { name: "max_tokens", label: "Max tokens", about: "the longest answer", min: 1, max: 1_000_000, step: 1, usual: "to the limit", integer: true },
  { name: "n", label: "Answers", about: "made at once, shown side by side", min: 1, max: 8, step: 1, usual: "1", integer: true, chatOnly: true },
  { name: "seed", label: "Seed", about: "the same seed gives the same answer", min: 0, max: 9e15, step: 1, usual: "random", integer: true },
  { name: "frequency_penalty", label: "Frequency penalty", about: "against tokens, by how often they came", min: -2, max: 2, step: 0.1, usual: "0" },
  { name: "presence_penalty", label: "Presence penalty", about: "against tokens that came at all", min: -2, max: 2, step: 0.1, usual: "0" },
  { name: "repetition_penalty", label: "Repetition penalty", about: "divides the odds of what stands in prompt or answer", min: 0.1, max: 10, step: 0.05, usual: "1" },
  { name: "min_tokens", label: "Min tokens", about: "it does not end before", min: 0, max: 100_000, step: 1, usual: "0", integer: true },
  { name: "max_reasoning_tokens", label: "Max thinking tokens", about: "then it has to answer", min: -1, max: 100_000, step: 1, usual: "no limit", integer: true, chatOnly: true },
];

export type ShapeKind = "none" | "json_schema" | "regex" | "choices" | "ebnf";

export interface Shape {
  kind: ShapeKind;
  texts: Record<Exclude<ShapeKind, "none">, string>;
  tried: string;
}

export const defaultSchema = `{
  "type": "object",
  "properties": {
    "name": {"type": "string", "pattern": "^[A-Z][a-z]+$"},
    "kind": {"enum": ["apple", "pear", "quince"]},
    "year": {"type": "integer", "minimum": 1600}
  },
  "required": ["name", "kind", "year"]
}`;

export const sampling = kept("espalier.sampling", { values: {} as Record<string, number>, stop: "", effort: "" });
export const chosen = kept("espalier.chosen", { model: "", tokens: false, looks: "auto" as "auto" | "light" | "dark" });
export const shape = kept<Shape>("espalier.shape", {
  kind: "none", tried: "",
  texts: { json_schema: defaultSchema, regex: "(apple|pear|quince)s? on (M9|seedling)", choices: "apple\npear\nquince", ebnf: 'root ::= fruit (", " fruit)*\nfruit ::= "apple" | "pear" | "quince"' },
});
export const tools = kept("espalier.tools", { on: false, choice: "auto" as "auto" | "required", text: `[
  {
    "type": "function",
    "function": {
      "name": "weather",
      "description": "The weather of a place, today",
      "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"]
      }
    }
  }
]` });
export const settingsOpen = signal(false);

effect(() => {
  document.documentElement.dataset.looks = chosen.value.looks;
});

// The tools as a body has them, or why not.
export const readTools = computed<{ list: unknown[]; trouble: string }>(() => {
  if (!tools.value.on) return { list: [], trouble: "" };
  try {
    const read = JSON.parse(tools.value.text);
    if (!Array.isArray(read)) return { list: [], trouble: "The tools must be a list: [ … ]." };
    const list = read.map((tool) => tool.function ? tool : { type: "function", function: tool });
    const nameless = list.findIndex((tool) => typeof tool.function?.name !== "string");
    if (nameless >= 0) return { list: [], trouble: `Tool ${nameless + 1} has no "name".` };
    return { list, trouble: "" };
  } catch (failure) {
    return { list: [], trouble: `Not JSON yet: ${(failure as Error).message}` };
  }
});

export const shapeNames: Record<ShapeKind, string> = {
  none: "free text", json_schema: "JSON schema", regex: "regular expression", choices: "choices", ebnf: "rules (EBNF)",
};

// The form as fields of a body. A schema goes as the text that it is; the server reads it.
export function shapeFields(form: Shape): Record<string, unknown> {
  if (form.kind === "none") return {};
  const text = form.texts[form.kind];
  return { [form.kind]: form.kind === "choices" ? text.split("\n").filter((line) => line !== "") : text };
}

export function samplingFields(chat: boolean): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const knob of knobs) {
    const value = sampling.value.values[knob.name];
    if (value !== undefined && (chat || !knob.chatOnly)) out[knob.name] = value;
  }
  const stop = sampling.value.stop.split("\n").filter((line) => line !== "").map((line) => line.replaceAll("\\n", "\n"));
  if (stop.length > 0) out.stop = stop;
  if (chat && sampling.value.effort) out.reasoning_effort = sampling.value.effort;
  return out;
}

export function setKnob(name: string, value: number | undefined): void {
  const values = { ...sampling.value.values };
  if (value === undefined || Number.isNaN(value)) delete values[name];
  else values[name] = value;
  sampling.value = { ...sampling.value, values };
}
