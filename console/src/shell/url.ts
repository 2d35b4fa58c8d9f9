import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { useLocation } from '@builder.io/qwik-city';

/**
 * useUrl returns the URL of the page with its query; undefined until the page runs in the browser. Pages are files, so what
 * they were built with has no query, and useLocation has it only after the first navigation.
 */
export function useUrl(): Signal<URL | undefined> {
  const route = useLocation();
  const url = useSignal<URL>();

  useVisibleTask$(
    ({ track }) => {
      track(() => route.url.href);
      url.value = new URL(location.href);
    },
    { strategy: 'document-ready' },
  );
  return url;
}
