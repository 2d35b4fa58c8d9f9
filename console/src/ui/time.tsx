import { component$ } from '@builder.io/qwik';
import type { Timestamp } from '@bufbuild/protobuf/wkt';

interface Props {
  at: Timestamp | number | undefined;
  /** The time of the day alone. */
  clock?: boolean;
}

/** Time shows a time in the reader's zone, and UTC on hover. */
export const Time = component$<Props>(({ at, clock }) => {
  const ms = milliseconds(at);
  if (ms === undefined) {
    return <span class="faint">never</span>;
  }
  const date = new Date(ms);
  return (
    <time dateTime={date.toISOString()} title={utc(ms)}>
      {clock ? date.toLocaleTimeString() : when(date)}
    </time>
  );
});

/** utc is what a time shows on hover. */
export const utc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

export function milliseconds(at: Timestamp | number | undefined): number | undefined {
  return typeof at === 'number' ? at : at && Number(at.seconds) * 1000 + Math.floor(at.nanos / 1e6);
}

/** when leaves the day out if it is today. */
function when(date: Date): string {
  return date.toDateString() === new Date().toDateString()
    ? date.toLocaleTimeString()
    : date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
}
