import { $, type QRL } from '@builder.io/qwik';
import { useNavigate } from '@builder.io/qwik-city';

/** Changes are parameters of the URL and what they become. An empty value removes one. */
export type Changes = Record<string, string>;

/** useChangeQuery returns what changes the query of the page's URL, and leaves the rest of it. */
export function useChangeQuery(): QRL<(changes: Changes) => Promise<void>> {
  const navigate = useNavigate();
  return $(async (changes: Changes) => {
    const url = changed(new URL(location.href), changes);
    if (url.href !== location.href) {
      await navigate(url.pathname + url.search, { replaceState: true, scroll: false });
    }
  });
}

export function changed(url: URL, changes: Changes): URL {
  const to = new URL(url);
  for (const [name, value] of Object.entries(changes)) {
    if (value) {
      to.searchParams.set(name, value);
    } else {
      to.searchParams.delete(name);
    }
  }
  return to;
}

/** hrefWith is a path with a query of those values that are not empty. */
export function hrefWith(path: string, values: Changes): string {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
  return query ? `${path}?${query}` : path;
}

/** param reads a parameter of the URL; an empty text if it is absent. */
export const param = (url: URL | undefined, name: string): string => url?.searchParams.get(name) ?? '';
