// Calls of tools in an answer, and the fields in which their results are entered.
import { useState } from "preact/hooks";
import { Growing } from "../shell/bits";
import type { ToolCall, Turn } from "../state/chats";
import { sendResults } from "./send";

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // as far as it has come
  }
}

export function Calls({ chatId, turn, answered }: { chatId: string; turn: Turn; answered: boolean }) {
  const calls = turn.calls ?? [];
  const [results, setResults] = useState<Record<string, string>>({});
  const send = (event: Event) => {
    event.preventDefault();
    void sendResults(chatId, turn, calls.map((call) => ({ id: call.id, text: results[call.id] ?? "" })));
  };
  return (
    <form class="calls" onSubmit={send}>
      {calls.map((call: ToolCall, i) => (
        <section class="call" aria-label={`Call of ${call.name}`}>
          <h4><span class="kind">calls</span> {call.name}</h4>
          <pre tabIndex={0}>{pretty(call.arguments)}</pre>
          {!answered && !turn.running && (
            <Growing mono label={`Result of ${call.name}, call ${i + 1}`} placeholder="What the tool gives back" rows={2}
              value={results[call.id] ?? ""} onInput={(text) => setResults({ ...results, [call.id]: text })} />
          )}
        </section>
      ))}
      {!answered && !turn.running && <button class="main" type="submit">Send {calls.length > 1 ? "results" : "result"}</button>}
    </form>
  );
}

export function Results({ turn, calls }: { turn: Turn; calls: ToolCall[] }) {
  return (
    <>
      {(turn.results ?? []).map((result) => (
        <section class="call" aria-label="Result of a tool">
          <h4><span class="kind">gives</span> {calls.find((call) => call.id === result.id)?.name ?? "tool"}</h4>
          <pre tabIndex={0}>{pretty(result.text)}</pre>
        </section>
      ))}
    </>
  );
}
