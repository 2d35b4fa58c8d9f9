import { count, duration } from '~/ui/number';
import { Time, utc } from '~/ui/time';
import type { Used } from './usage';

type Measure = 'calls' | 'errors' | 'processor';

export const measures: [string, string][] = [['', 'Calls'], ['errors', 'Errors'], ['processor', 'Processor time']];

const width = 720;
const height = 160;

/** Chart draws a bar for each span of time. Figures has the same numbers as a table. */
export const Chart = ({ bars, measure, title }: { bars: Used[]; measure: Measure; title: string }) => {
  const most = Math.max(...bars.map((b) => b[measure]), 0);
  const step = width / bars.length;
  const tall = (b: Used): number => (most > 0 ? (b[measure] / most) * (height - 4) : 0);
  return (
    <figure class="chart">
      <figcaption class="faint">{title}: at most {figure(measure, most)} in {spanOf(bars)}</figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${title}. The table below has the figures.`} preserveAspectRatio="none">
        <line x1={0} x2={width} y1={height - 0.5} y2={height - 0.5} />
        {bars.map((b, i) => (
          <rect key={b.from} class={measure === 'errors' ? 'bad' : undefined} x={i * step + step * 0.1} width={step * 0.8} y={height - Math.max(tall(b), b[measure] > 0 ? 1.5 : 0)} height={Math.max(tall(b), b[measure] > 0 ? 1.5 : 0)}>
            <title>{`${new Date(b.from).toLocaleString()} (${utc(b.from)}): ${figure(measure, b[measure])}`}</title>
          </rect>
        ))}
      </svg>
      <div class="ends faint"><Time at={bars[0]?.from} /><span>now</span></div>
    </figure>
  );
};

/** Figures is the chart as a table. */
export const Figures = ({ bars }: { bars: Used[] }) => {
  const some = bars.filter((b) => b.calls > 0 || b.errors > 0).reverse();
  return (
    <details>
      <summary>The figures as a table</summary>
      <div class="viewport" tabIndex={0} role="region" aria-label="Figures">
        <table>
          <thead>
            <tr><th scope="col">From</th><th scope="col" class="number">Calls</th><th scope="col" class="number">Errors</th><th scope="col" class="number">Processor time</th></tr>
          </thead>
          <tbody>
            {some.map((b) => (
              <tr key={b.from}>
                <td><Time at={b.from} /></td>
                <td class="number">{count(b.calls)}</td>
                <td class="number">{count(b.errors)}</td>
                <td class="number">{duration(b.processor)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {some.length === 0 && <p class="faint">There were no calls.</p>}
    </details>
  );
};

const figure = (measure: Measure, n: number): string => (measure === 'processor' ? duration(n) : count(n));

function spanOf(bars: Used[]): string {
  const hours = bars.length > 1 ? (bars[1]!.from - bars[0]!.from) / 3_600_000 : 1;
  return hours === 1 ? 'an hour' : hours === 24 ? 'a day' : `${hours} hours`;
}

export const measureOf = (text: string): Measure => (text === 'errors' || text === 'processor' ? text : 'calls');
