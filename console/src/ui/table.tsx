import type { JSXOutput } from '@builder.io/qwik';
import type { Window } from './window';

interface Props {
  label: string;
  /** The cells of the head. */
  head: JSXOutput;
  columns: number;
  seen: Window;
  /** How many rows there are, or how many are loaded of a list that has more. */
  total: number;
  more?: boolean;
  /** The row at a place; nothing while it is not loaded. Its element has a key. */
  row: (at: number) => JSXOutput;
  /** Nothing else stands on the page, so the box is taller. */
  tall?: boolean;
  /** The class of the table. */
  kind?: string;
}

/** LongTable scrolls in its own box. Only the rows in the window are in the page. */
export const LongTable = ({ label, head, columns, seen, total, more, row, tall, kind }: Props) => {
  const from = Math.min(seen.from.value, total);
  const to = Math.min(seen.to.value, total);
  return (
    <div class={{ viewport: true, windowed: !tall }} ref={seen.viewport} onScroll$={seen.onScroll$} tabIndex={0} role="region" aria-label={label}>
      <table class={kind} aria-rowcount={more ? -1 : total + 1}>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody>
          <Spacer rows={from} height={seen.rowHeight} columns={columns} />
          {Array.from({ length: to - from }, (_, i) => row(from + i) ?? <Skeleton key={`at-${from + i}`} at={from + i} columns={columns} />)}
          <Spacer rows={total - to} height={seen.rowHeight} columns={columns} />
          {more && <Skeleton at={total} columns={columns} />}
        </tbody>
      </table>
    </div>
  );
};

/** rowIndex is the place of a row for people who hear the page: the head is the first one. */
export const rowIndex = (at: number): number => at + 2;

const Skeleton = ({ at, columns }: { at: number; columns: number }) => (
  <tr key={`at-${at}`} class="skeleton" aria-rowindex={rowIndex(at)}>
    <td colSpan={columns}></td>
  </tr>
);

/** Spacer takes the room of the rows that are not in the page. */
const Spacer = ({ rows, height, columns }: { rows: number; height: number; columns: number }) =>
  rows > 0 ? (
    <tr aria-hidden="true" class="spacer">
      <td colSpan={columns} style={{ height: `${rows * height}px` }}></td>
    </tr>
  ) : null;
