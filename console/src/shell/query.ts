import { $, type QRL } from '@builder.io/qwik';
import { useLocation } from '@builder.io/qwik-city';

/** Parameters of a URL and their values. An undefined one is removed. */
export type Parameters = Record<string, string | undefined>;

/**
 * useChangeQuery returns a function that changes parameters of the page's URL and keeps the others. The page does not change, so it
 * is no navigation: Qwik City would fetch the page's data and render the page anew.
 */
export function useChangeQuery(): QRL<(parameters: Parameters) => void> {
  const route: { url: URL } = useLocation();
  return $((parameters: Parameters) => {
    const href = hrefWith(location.href, parameters);
    if (href !== location.pathname + location.search) {
      history.replaceState(history.state, '', href);
      route.url = new URL(location.href);
    }
  });
}

/** hrefWith is the address of a page with other parameters in its query. */
export function hrefWith(page: URL | string, parameters: Parameters): string {
  const { pathname, searchParams } = new URL(page, 'https://console.invalid');
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined) {
      searchParams.delete(name);
    } else {
      searchParams.set(name, value);
    }
  }
  return searchParams.size > 0 ? `${pathname}?${searchParams}` : pathname;
}

/** param reads a parameter of the URL; an empty text if it is absent. */
export const param = (url: URL | undefined, name: string): string => url?.searchParams.get(name) ?? '';

/** sortOf reads how a list is sorted: -lag is the column lag, from the most to the least. */
export function sortOf(url: URL | undefined): { column: string; descending: boolean } {
  const sort = param(url, 'sort') || 'name';
  return { column: sort.replace(/^-/, ''), descending: sort.startsWith('-') };
}

/** agentHref is the page of an agent. */
export const agentHref = (name: string): string => hrefWith('/fleet/agent/', { name });
