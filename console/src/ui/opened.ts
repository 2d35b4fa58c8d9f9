import { $, useSignal, type QRL, type Signal } from '@builder.io/qwik';

/** Opened is the item whose dialog is open. */
export interface Opened<T> {
  item: Signal<T | undefined>;
  open: Signal<boolean>;
  show$: QRL<(item: T) => void>;
}

export function useOpened<T>(): Opened<T> {
  const item = useSignal<T>();
  const open = useSignal(false);
  const show$ = $((chosen: T) => {
    item.value = chosen;
    open.value = true;
  });
  return { item, open, show$ };
}
