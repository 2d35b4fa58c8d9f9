/** hrefWith is the page with other parameters in its query. An undefined one is left out. */
export function hrefWith(url: URL, changes: { [name: string]: string | undefined }): string {
  const next = new URL(url);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) {
      next.searchParams.delete(name);
    } else {
      next.searchParams.set(name, value);
    }
  }
  return next.pathname + next.search;
}
