// The form that answers must have: written, checked as it is written, drawn as the automaton that it becomes, and tried.
import { useEffect, useState } from "preact/hooks";
import { askJson, sentenceOf, wasStopped } from "../net/api";
import { Choices, count, Growing } from "../shell/bits";
import { go } from "../shell/views";
import { type Shape, shape, type ShapeKind, shapeFields } from "../state/settings";
import { type Automaton, AutomatonDrawing } from "./AutomatonDrawing";

type Written = Exclude<ShapeKind, "none">;
const kinds = [["json_schema", "JSON schema"], ["regex", "Regex"], ["choices", "Choices"], ["ebnf", "Rules (EBNF)"]] as const;
const hints: Record<Written, string> = {
  json_schema: "A JSON schema: the answer is a value that it allows.",
  regex: "The whole answer matches. Python's syntax; end what repeats, as in [a-z ]{1,40}\\.",
  choices: "One a line: the answer is one of them.",
  ebnf: "Rules with ::= from root on (GBNF); without ::= they are Lark's, from start on.",
};

interface Checked extends Automaton {
  followed: number;
  accepted: number;
  complete: boolean;
}

// Asks a little after the last key. What is shown meanwhile is the form before.
function useChecked(form: Shape, kind: Written): { checked: Checked | null; trouble: string; asking: boolean } {
  const [seen, see] = useState<{ checked: Checked | null; trouble: string; asking: boolean }>({ checked: null, trouble: "", asking: true });
  const text = form.texts[kind], tried = form.tried;
  useEffect(() => {
    const control = new AbortController();
    see((now) => ({ ...now, asking: true }));
    const timer = setTimeout(async () => {
      try {
        const body = { ...shapeFields({ ...form, kind }), tried, states: 100 };
        see({ checked: await askJson<Checked>("/v1/grammar/graph", { body, signal: control.signal }), trouble: "", asking: false });
      } catch (failure) {
        if (!wasStopped(failure)) see((now) => ({ checked: now.checked, trouble: sentenceOf(failure), asking: false }));
      }
    }, 220);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text, kind, tried]);
  return seen;
}

// How far a text goes, by bytes of UTF-8 as the server counts them.
function Tried({ text, checked }: { text: string; checked: Checked }) {
  if (!text) return <p class="note">Type a text to see how far it may go.</p>;
  const all = new TextEncoder().encode(text);
  const decoder = new TextDecoder();
  const good = decoder.decode(all.slice(0, checked.accepted)), rest = decoder.decode(all.slice(checked.accepted));
  return (
    <p class="tried" role="status">
      <span class="good">{good}</span><span class="bad">{rest}</span>
      <small>{rest ? "cannot come here" : checked.complete ? "complete" : "may go on, may not end yet"}</small>
    </p>
  );
}

export function FormView() {
  const form = shape.value;
  const [kind, choose] = useState<Written>(form.kind === "none" ? "json_schema" : form.kind);
  const { checked, trouble, asking } = useChecked(form, kind);
  const inForce = form.kind === kind;
  return (
    <div class="sheet form">
      <header class="bar"><h2>Form</h2>
        <Choices label="Kind of form" all={kinds} now={kind} onChoose={choose} />
        <span class="deeds">
          <button type="button" class={inForce ? "" : "main"} disabled={trouble !== "" && !inForce}
            onClick={() => { shape.value = { ...form, kind: inForce ? "none" : kind }; }}>{inForce ? "Back to free text" : "Use it for answers"}</button>
          {inForce && <button type="button" class="main" onClick={() => go("chat")}>To the chat</button>}
        </span>
      </header>
      <div class="two">
        <section aria-label="The form">
          <Growing mono label={`The form, as ${kind}`} rows={kind === "json_schema" ? 12 : 4} value={form.texts[kind]} invalid={trouble !== ""}
            onInput={(text) => { shape.value = { ...form, texts: { ...form.texts, [kind]: text } }; }} />
          <p class={trouble ? "problem verdict" : "verdict good"} role="status" aria-live="polite">{trouble || (checked ? "Valid" : asking ? "Checking" : "")}</p>
          <p class="note">{hints[kind]}</p>
          <label class="field wide"><span>Try a text</span>
            <Growing mono label="A text to try" value={form.tried} placeholder={kind === "json_schema" ? '{"name":' : "…"} onInput={(tried) => { shape.value = { ...form, tried }; }} />
          </label>
          {checked && !trouble && <Tried text={form.tried} checked={checked} />}
        </section>
        <section class={`drawing${trouble ? " stale" : ""}`} aria-label="The automaton">
          {checked && <AutomatonDrawing automaton={checked} />}
          {checked && <p class="note">{count(checked.nodes.length)} states of {count(checked.followed)} that were followed: what leaves no choice is one edge. A ring: the answer may end. Dashed: more follows.</p>}
        </section>
      </div>
    </div>
  );
}
