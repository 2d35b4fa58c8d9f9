import { $, component$, useComputed$, useSignal, type QRL } from '@builder.io/qwik';
import { diff, linesOf } from './diff';
import { pairsOf, rowsOf, type Row } from './rows';

interface Props {
  before: string;
  after: string;
  /** What is compared, for people who hear the page. */
  label: string;
  split?: boolean;
}

const firstRows = 1500;

/** DiffView shows what changed between two texts, line by line. */
export const DiffView = component$<Props>(({ before, after, label, split }) => {
  const most = useSignal(firstRows);
  const rows = useComputed$(() => {
    // A final newline makes no line of its own, unless only one of the texts has one.
    const ended = [before, after].every((text) => text === '' || text.endsWith('\n'));
    const [a, b] = [before, after].map((text) => (text ? linesOf(ended ? text.slice(0, -1) : text) : [])) as [string[], string[]];
    return rowsOf(a, b, diff(a, b));
  });
  const shown = rows.value.slice(0, most.value);
  return (
    <div class={{ diff: true, split }} role="region" aria-label={label} tabIndex={0}>
      <table>{split ? <Split rows={shown} /> : <Unified rows={shown} />}</table>
      <More left={rows.value.length - shown.length} more$={$(() => { most.value *= 4; })} />
    </div>
  );
});

const More = ({ left, more$ }: { left: number; more$: QRL<() => void> }) =>
  left > 0 ? (
    <p>
      <button type="button" onClick$={more$}>Show more of {left.toLocaleString()} lines</button>
    </p>
  ) : null;

const Unified = ({ rows }: { rows: Row[] }) => (
  <tbody>
    {rows.map((row, i) =>
      row.kind === 'gap' ? (
        <tr key={i} class="gap"><td colSpan={3}>{row.text}</td></tr>
      ) : (
        <tr key={i} class={row.kind}>
          <td class="at">{row.a ?? ''}</td>
          <td class="at">{row.b ?? ''}</td>
          <Line row={row} />
        </tr>
      ),
    )}
  </tbody>
);

const Split = ({ rows }: { rows: Row[] }) => (
  <tbody>
    {pairsOf(rows).map(({ left, right }, i) =>
      left?.kind === 'gap' ? (
        <tr key={i} class="gap"><td colSpan={4}>{left.text}</td></tr>
      ) : (
        <tr key={i}>
          <td class="at">{left?.a ?? ''}</td>
          <Line row={left} />
          <td class="at">{right?.b ?? ''}</td>
          <Line row={right} />
        </tr>
      ),
    )}
  </tbody>
);

const signs = { same: ' ', removed: '−', added: '+', gap: ' ' };

/** Line has a sign besides its colour, for people who copy it or hear it. */
const Line = ({ row }: { row: Row | undefined }) => (
  <td class={['text', row?.kind ?? 'none']}>{row ? `${signs[row.kind]} ${row.text}` : ''}</td>
);
