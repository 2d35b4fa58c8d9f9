/** Name is a script's name, in two parts. */
export interface Name {
  tenant: string;
  name: string;
}

/** nameOf reads the name in the URL, such as ?name=acme/route. It is empty until the page runs in the browser. */
export function nameOf(url: URL | undefined): Name {
  const [tenant = '', ...rest] = (url?.searchParams.get('name') ?? '').split('/');
  return { tenant, name: rest.join('/') };
}

/** scriptHref is a page of a script. */
export const scriptHref = (name: string, page = ''): string => `/script/${page}?name=${encodeURIComponent(name)}`;
