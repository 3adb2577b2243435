// Small charts, drawn as SVG: a line over the last two minutes, and a histogram with its percentiles.
import { seconds } from "../shell/bits";
import type { HistogramState } from "../state/server";

interface LineProps {
  label: string;
  now: string;
  unit: string;
  series: { name: string; values: number[]; kind: string }[];
  points: number; // that fit
  most?: number; // of the axis, at least
}

const wide = 320, high = 72;
// A round number at or above.
function roundUp(value: number): number {
  if (value <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * step).find((n) => n >= value)!;
}

export function Lines({ label, now, unit, series, points, most = 0 }: LineProps) {
  const top = roundUp(Math.max(most, ...series.flatMap((one) => one.values)));
  const at = (value: number, i: number, length: number) => `${(wide * (points - length + i)) / (points - 1)} ${high - (high * value) / top}`;
  return (
    <figure class="chart">
      <figcaption><span>{label}</span><b>{now}<small> {unit}</small></b></figcaption>
      <svg viewBox={`0 -4 ${wide} ${high + 8}`} preserveAspectRatio="none" role="img" aria-label={`${label}, the last two minutes: now ${now} ${unit}`}>
        <path class="wire" d={`M0 0H${wide}M0 ${high / 2}H${wide}M0 ${high}H${wide}`} />
        {series.map(({ name, values, kind }) => values.length > 1 && (
          <g class={kind}><title>{name}</title>
            <path class="under" d={`M${at(0, 0, values.length)}L${values.map((value, i) => at(value, i, values.length)).join("L")}L${at(0, values.length - 1, values.length)}Z`} />
            <path class="over" d={`M${values.map((value, i) => at(value, i, values.length)).join("L")}`} />
          </g>
        ))}
      </svg>
      <div class="axis"><span>2 min ago</span><span>top {top.toLocaleString("en")}</span><span>now</span></div>
    </figure>
  );
}

// Where so great a share of all observations lies below, within its bucket in proportion.
export function percentile({ bounds, counts }: HistogramState, share: number): number {
  const all = counts.reduce((sum, n) => sum + n, 0);
  if (all === 0) return Number.NaN;
  let below = 0;
  for (let i = 0; i < counts.length; ++i) {
    if (below + counts[i]! >= share * all) {
      const low = i === 0 ? 0 : bounds[i - 1]!, up = bounds[i] ?? low;
      return low + (up - low) * ((share * all - below) / Math.max(1, counts[i]!));
    }
    below += counts[i]!;
  }
  return bounds.at(-1)!;
}

export function Bars({ label, histogram, format = seconds }: { label: string; histogram: HistogramState; format?: (value: number) => string }) {
  const { bounds, counts } = histogram;
  const all = counts.reduce((sum, n) => sum + n, 0);
  const first = Math.max(0, counts.findIndex((n) => n > 0) - 1);
  const last = Math.min(counts.length, counts.findLastIndex((n) => n > 0) + 2);
  const shown = counts.slice(first, Math.max(last, first + 6));
  const top = Math.max(1, ...shown);
  const name = (i: number) => bounds[first + i] === undefined ? `over ${format(bounds.at(-1)!)}` : `to ${format(bounds[first + i]!)}`;
  const marks = ([["half", 0.5], ["90 %", 0.9], ["99 %", 0.99]] as const).map(([text, share]) => [text, format(percentile(histogram, share))] as const);
  return (
    <figure class="chart bars">
      <figcaption><span>{label}</span><small>{all.toLocaleString("en")} seen</small></figcaption>
      <div class="columns" role="img" aria-label={`${label}: ${marks.map(([text, value]) => `${text} within ${value}`).join(", ")}`}>
        {shown.map((n, i) => <i style={{ height: `${Math.max(n > 0 ? 4 : 0, (100 * n) / top)}%` }} title={`${n} ${name(i)}`} />)}
      </div>
      <div class="axis"><span>{name(0)}</span><span>{name(shown.length - 1)}</span></div>
      <dl>{marks.map(([text, value]) => <div><dt>{text}</dt><dd>{all > 0 ? value : "–"}</dd></div>)}</dl>
    </figure>
  );
}
