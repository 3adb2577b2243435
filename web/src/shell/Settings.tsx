// The drawer at the right: model and key, sampling, tools, the page's look.
import { useEffect, useRef } from "preact/hooks";
import { key, keyWanted, rememberKey } from "../net/api";
import { askState, model, serverState, standIn } from "../state/server";
import { chosen, type Knob, knobs, readTools, sampling, setKnob, settingsOpen, shape, type ShapeKind, shapeNames, tools } from "../state/settings";
import { Choices, Growing } from "./bits";
import { go } from "./views";

function ModelAndKey() {
  const all = serverState.value?.models ?? [];
  return (
    <fieldset>
      <legend>Model</legend>
      <label class="field"><span>Model</span>
        <select value={model.value?.name ?? ""} onChange={(event) => { chosen.value = { ...chosen.value, model: event.currentTarget.value }; }}>
          {all.length === 0 && <option value="">none is known yet</option>}
          {all.map((one) => <option value={one.name}>{one.name}{one.state === "loaded" ? "" : ` (${one.state})`}</option>)}
        </select>
      </label>
      <label class="field"><span>API key</span>
        <input id="key" type="password" autocomplete="off" value={key.value} placeholder={serverState.value?.wants_key === false ? "not needed here" : ""}
          aria-describedby={keyWanted.value ? "key-wanted" : undefined} onInput={(event) => { key.value = event.currentTarget.value.trim(); }} onChange={() => void askState()} />
      </label>
      {keyWanted.value && <p id="key-wanted" class="problem" role="alert">This server needs a key.</p>}
      <label class="switch"><input type="checkbox" checked={rememberKey.value} onChange={(event) => { rememberKey.value = event.currentTarget.checked; }} />Remember the key in this browser</label>
    </fieldset>
  );
}

// What holds where nothing is set.
const usualOf = (knob: Knob): string => String(model.value?.sampling?.[knob.name] ?? standIn.value[knob.name] ?? knob.usual);

function Sampling() {
  const efforts = ["", "none", "minimal", "low", "medium", "high"];
  return (
    <fieldset>
      <legend>Sampling</legend>
      <div class="knobs">
        {knobs.map((knob) => (
          <label class="field" title={knob.about}><span>{knob.label}</span>
            <input type="number" name={knob.name} min={knob.min} max={knob.max} step={knob.integer ? 1 : "any"} placeholder={usualOf(knob)}
              value={sampling.value.values[knob.name] ?? ""}
              onInput={(event) => setKnob(knob.name, event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)} />
          </label>
        ))}
        <label class="field" title="given to models that think"><span>Effort of thinking</span>
          <select value={sampling.value.effort} onChange={(event) => { sampling.value = { ...sampling.value, effort: event.currentTarget.value }; }}>
            {efforts.map((effort) => <option value={effort}>{effort || "the model's"}</option>)}
          </select>
        </label>
      </div>
      <label class="field wide"><span>Stop strings, one a line (\n is a line end)</span>
        <textarea rows={2} class="mono" value={sampling.value.stop} onInput={(event) => { sampling.value = { ...sampling.value, stop: event.currentTarget.value }; }} />
      </label>
      <button type="button" class="quiet" onClick={() => { sampling.value = { values: {}, stop: "", effort: "" }; }}>Back to the model's own</button>
    </fieldset>
  );
}

function FormAndTools() {
  const kinds = Object.keys(shapeNames) as ShapeKind[];
  return (
    <fieldset>
      <legend>Form and tools</legend>
      <label class="field"><span>Answers are</span>
        <select value={shape.value.kind} onChange={(event) => { shape.value = { ...shape.value, kind: event.currentTarget.value as ShapeKind }; }}>
          {kinds.map((kind) => <option value={kind}>{shapeNames[kind]}</option>)}
        </select>
      </label>
      <button type="button" class="quiet" onClick={() => { go("form"); settingsOpen.value = false; }}>Edit the form</button>
      <label class="switch"><input type="checkbox" checked={tools.value.on} onChange={(event) => { tools.value = { ...tools.value, on: event.currentTarget.checked }; }} />Tools</label>
      {tools.value.on && (
        <>
          <Growing mono label="Tools, as JSON" value={tools.value.text} rows={6} invalid={readTools.value.trouble !== ""}
            onInput={(text) => { tools.value = { ...tools.value, text }; }} />
          <Choices label="When tools are called" now={tools.value.choice} all={[["auto", "If the model wants"], ["required", "Always"]] as const}
            onChoose={(choice) => { tools.value = { ...tools.value, choice }; }} />
          <p class={readTools.value.trouble ? "problem" : "note"} role="status">
            {readTools.value.trouble || `${readTools.value.list.length} ${readTools.value.list.length === 1 ? "tool" : "tools"} can be called.`}
          </p>
        </>
      )}
    </fieldset>
  );
}

export function Settings() {
  const drawer = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!settingsOpen.value) return;
    const before = document.activeElement as HTMLElement | null;
    drawer.current!.querySelector<HTMLElement>(keyWanted.value ? "#key" : "select")?.focus();
    return () => { // the keyboard goes on where it was
      if (before?.isConnected && document.activeElement === document.body) before.focus();
    };
  }, [settingsOpen.value]);
  if (!settingsOpen.value) return null;
  return (
    <aside class="drawer" ref={drawer} aria-label="Settings" onKeyDown={(event) => { if (event.key === "Escape") settingsOpen.value = false; }}>
      <header><h2>Settings</h2><button type="button" class="quiet" onClick={() => { settingsOpen.value = false; }}>Close</button></header>
      <ModelAndKey />
      <Sampling />
      <FormAndTools />
      <fieldset>
        <legend>Look</legend>
        <Choices label="Look" now={chosen.value.looks} all={[["auto", "As the system"], ["light", "Light"], ["dark", "Dark"]] as const}
          onChoose={(looks) => { chosen.value = { ...chosen.value, looks }; }} />
        <label class="switch"><input type="checkbox" checked={chosen.value.tokens} onChange={(event) => { chosen.value = { ...chosen.value, tokens: event.currentTarget.checked }; }} />Show tokens and their probabilities</label>
      </fieldset>
    </aside>
  );
}
