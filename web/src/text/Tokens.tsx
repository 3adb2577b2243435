// A text token by token: how likely each was, and what else might have come. Pointing at a token, or walking with the arrow
// keys, shows its alternatives.
import { useRef, useState } from "preact/hooks";
import type { TokenSeen } from "../state/chats";

const percent = (logprob: number): string => {
  const share = 100 * Math.exp(logprob);
  return share >= 99.95 ? "100 %" : share >= 10 ? `${share.toFixed(0)} %` : share >= 0.1 ? `${share.toFixed(1)} %` : "< 0.1 %";
};
// 0: nearly certain ... 4: hardly expected
const surprise = (logprob: number): number => [0.9, 0.6, 0.3, 0.08].findIndex((share) => Math.exp(logprob) >= share);
const levelOf = (token: TokenSeen): number => {
  const level = surprise(token.logprob);
  return level < 0 ? 4 : level;
};
const visible = (text: string): string => text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replace(/^ | $/g, "␣") || "∅";

function Alternatives({ token, left, top }: { token: TokenSeen; left: number; top: number }) {
  const others = token.others.some((other) => other.text === token.text) ? token.others : [{ text: token.text, logprob: token.logprob }, ...token.others];
  return (
    <div class="alternatives" role="status" style={{ left: `${left}px`, top: `${top}px` }}>
      <table>
        <tbody>
          {others.map((other) => (
            <tr class={other.text === token.text ? "taken" : ""}>
              <th scope="row">{visible(other.text)}</th>
              <td><i style={{ width: `${Math.max(1, 100 * Math.exp(other.logprob))}%` }} /></td>
              <td class="figure">{percent(other.logprob)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Tokens({ tokens }: { tokens: TokenSeen[] }) {
  const strip = useRef<HTMLDivElement>(null);
  const [at, point] = useState(-1);
  const [place, setPlace] = useState({ left: 0, top: 0 });
  const show = (i: number) => {
    const span = strip.current!.querySelectorAll<HTMLElement>("[data-token]")[i];
    if (!span) return;
    const room = strip.current!.clientWidth - 248;
    setPlace({ left: Math.max(0, Math.min(span.offsetLeft, room)), top: span.offsetTop + span.offsetHeight + 4 });
    point(i);
  };
  const walk = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") point(-1);
    if (!step) return;
    event.preventDefault();
    show(Math.min(tokens.length - 1, Math.max(0, at + step)));
  };
  const token = tokens[at];
  return (
    <div class="tokens" ref={strip} onPointerLeave={() => point(-1)} onBlur={() => point(-1)}>
      <div class="strip" tabIndex={0} role="group" aria-label={`${tokens.length} tokens with their probabilities; arrow keys walk through them`}
        onKeyDown={walk} onFocus={() => at < 0 && show(0)}>
        {tokens.map((one, i) => (
          <span data-token class={`p${levelOf(one)}${i === at ? " at" : ""}`} onPointerEnter={() => show(i)}>{one.text}</span>
        ))}
      </div>
      {token && <Alternatives token={token} {...place} />}
    </div>
  );
}
