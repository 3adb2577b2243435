// Something done over and over while a view is open and the tab is seen.
import { useEffect } from "preact/hooks";

export function usePolling(work: () => Promise<unknown>, milliseconds: number, on = true): void {
  useEffect(() => {
    if (!on) return;
    let timer = 0, ended = false;
    const round = async () => {
      if (!document.hidden) await work();
      if (!ended) timer = window.setTimeout(round, milliseconds);
    };
    void round();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [work, milliseconds, on]);
}
