import { $, useSignal, type QRL, type Signal } from '@builder.io/qwik';

/** Window is the part of a long list that a person sees. Only its rows are in the page. */
export interface Window {
  viewport: Signal<HTMLElement | undefined>;
  from: Signal<number>;
  to: Signal<number>;
  onScroll$: QRL<() => void>;
  rowHeight: number;
}

/** The heights in pixels of a row of a table and of a line of a log, as in the style sheet. */
const tableRow = 40;
export const lineHeight = 24;

const margin = 10;

/** useWindow follows the scrolling of viewport, over rows of the same height. */
export function useWindow(rowHeight = tableRow): Window {
  const viewport = useSignal<HTMLElement>();
  const from = useSignal(0);
  const to = useSignal(60);
  const onScroll$ = $(() => {
    const v = viewport.value;
    if (!v) {
      return;
    }
    const first = Math.max(0, Math.floor(v.scrollTop / rowHeight) - margin);
    const last = Math.ceil((v.scrollTop + v.clientHeight) / rowHeight) + margin;
    // Steps of several rows, so that most scrolling renders nothing.
    from.value = first - (first % margin);
    to.value = last + margin - (last % margin);
  });
  return { viewport, from, to, onScroll$, rowHeight };
}
