// Plain completion: a text that the model goes on with, in place.
import { useRef, useState } from "preact/hooks";
import { ask, sentenceOf, wasStopped } from "../net/api";
import { eventsOf } from "../net/events";
import { CopyButton, count, Growing, Notice, seconds } from "../shell/bits";
import type { TokenSeen } from "../state/chats";
import { kept } from "../state/kept";
import { modelName } from "../state/server";
import { samplingFields, shape, shapeFields, shapeNames } from "../state/settings";
import { Tokens } from "../text/Tokens";

interface Chunk {
  choices: {
    text: string;
    finish_reason?: string | null;
    logprobs?: { tokens: string[]; token_logprobs: (number | null)[]; top_logprobs?: (Record<string, number> | null)[] | null } | null;
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details?: { cached_tokens?: number } };
}

const page = kept("espalier.page", { text: "An espalier is a tree that" });

function tokensOf({ logprobs }: Chunk["choices"][number]): TokenSeen[] {
  return (logprobs?.tokens ?? []).map((text, i) => ({
    text, logprob: logprobs!.token_logprobs[i] ?? 0,
    others: Object.entries(logprobs!.top_logprobs?.[i] ?? {}).map(([other, logprob]) => ({ text: other, logprob })).sort((a, b) => b.logprob - a.logprob),
  }));
}

export function CompleteView() {
  const [running, run] = useState(false);
  const [trouble, say] = useState("");
  const [before, keepBefore] = useState<string[]>([]);
  const [made, setMade] = useState<{ from: string; tokens: TokenSeen[]; note: string }>({ from: "", tokens: [], note: "" });
  const control = useRef<AbortController>(undefined);
  const text = page.value.text;

  const goOn = async () => {
    const from = page.value.text, begun = performance.now();
    let out = "", tokens: TokenSeen[] = [], note = "", frame = 0;
    const show = () => {
      frame = 0;
      page.value = { text: from + out };
      setMade({ from, tokens, note });
    };
    run(true);
    say("");
    keepBefore([...before.slice(-49), from]);
    control.current = new AbortController();
    try {
      const body = {
        model: modelName.value, prompt: from, stream: true, stream_options: { include_usage: true }, logprobs: 6, max_tokens: 64,
        ...samplingFields(false), ...shapeFields(shape.value),
      };
      for await (const chunk of eventsOf<Chunk>(await ask("/v1/completions", { body, signal: control.current.signal }))) {
        for (const choice of chunk.choices) {
          out += choice.text;
          tokens = [...tokens, ...tokensOf(choice)];
        }
        if (chunk.usage) note = `${count(chunk.usage.completion_tokens)} tokens in ${seconds((performance.now() - begun) / 1000)} · ${count(chunk.usage.prompt_tokens_details?.cached_tokens ?? 0)} of ${count(chunk.usage.prompt_tokens)} prompt tokens from the cache`;
        frame ||= requestAnimationFrame(show);
      }
    } catch (failure) {
      if (!wasStopped(failure)) say(sentenceOf(failure));
    }
    cancelAnimationFrame(frame);
    show();
    run(false);
  };
  const back = () => {
    page.value = { text: before.at(-1)! };
    keepBefore(before.slice(0, -1));
    setMade({ from: "", tokens: [], note: "" });
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (!running) void goOn();
    }
    if (event.key === "Escape") control.current?.abort();
  };
  return (
    <div class="sheet complete">
      <header class="bar"><h2>Complete</h2><p>The model goes on with what stands here. {shape.value.kind !== "none" && `What it adds has the form: ${shapeNames[shape.value.kind]}.`}</p></header>
      <div class="paper">
        <Growing label="Text" value={text} rows={8} onInput={(value) => { page.value = { text: value }; }} onKeyDown={keys} focused />
        <p class="deeds">
          {running ? <button type="button" class="stop" onClick={() => control.current?.abort()}>Stop</button>
            : <button type="button" class="main" disabled={!text} onClick={() => void goOn()}>Go on</button>}
          <button type="button" disabled={running || before.length === 0} onClick={back}>Take back</button>
          <CopyButton text={text} />
          <span class="figures">{running ? "" : made.note || "Ctrl + Enter goes on, Escape stops"}</span>
        </p>
        <Notice text={trouble} />
      </div>
      {made.tokens.length > 0 && (
        <section class="added" aria-label="What was added, token by token">
          <h3>What was added</h3>
          <Tokens tokens={made.tokens} />
        </section>
      )}
    </div>
  );
}
