// A branch of a conversation, turn under turn, up to a fork whose branches stand side by side: an espalier.
import { change, childrenOf, type Chat, pathFrom, type Turn } from "../state/chats";
import { TurnView } from "./TurnView";

// The turns up to and without the first fork that is spread out, and that fork.
function untilFork(chat: Chat, parent: string): { before: Turn[]; fork: string | null } {
  const path = pathFrom(chat, parent);
  const isSpread = (of: string) => chat.beside[of] && childrenOf(chat, of).length > 1;
  if (isSpread(parent)) return { before: [], fork: parent };
  const last = path.findIndex((turn) => isSpread(turn.id));
  return last < 0 ? { before: path, fork: null } : { before: path.slice(0, last + 1), fork: path[last]!.id };
}

function Column({ chat, turn, on, number, all }: { chat: Chat; turn: Turn; on: boolean; number: number; all: number }) {
  const choose = () => change(chat.id, (one) => ({ shown: { ...one.shown, [turn.parent]: turn.id } }));
  const alone = () => change(chat.id, (one) => ({
    shown: { ...one.shown, [turn.parent]: turn.id }, beside: { ...one.beside, [turn.parent]: false },
  }));
  return (
    <section class={`branch${on ? " on" : ""}`} aria-label={`Branch ${number} of ${all}${on ? ", the one that goes on" : ""}`}>
      <div class="tie">
        <button type="button" class="quiet" aria-pressed={on} onClick={choose}>{on ? "Goes on here" : "Go on here"}</button>
        <button type="button" class="quiet" onClick={alone}>Alone</button>
      </div>
      {[turn, ...pathFrom(chat, turn.id)].map((each) => <TurnView key={each.id} chat={chat} turn={each} inColumn={each === turn} />)}
    </section>
  );
}

export function Branches({ chat }: { chat: Chat }) {
  const { before, fork } = untilFork(chat, "");
  const sides = fork === null ? [] : childrenOf(chat, fork);
  const on = fork === null ? undefined : sides.find((turn) => turn.id === chat.shown[fork]) ?? sides.at(-1);
  return (
    <>
      {before.map((turn) => <TurnView key={turn.id} chat={chat} turn={turn} />)}
      {sides.length > 0 && (
        <div class="fork" style={{ "--arms": String(sides.length) }} role="group" aria-label={`${sides.length} branches side by side`} tabIndex={0}>
          {sides.map((turn, i) => <Column key={turn.id} chat={chat} turn={turn} on={turn === on} number={i + 1} all={sides.length} />)}
        </div>
      )}
    </>
  );
}
