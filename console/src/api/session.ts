/** Session is the browser's session at the console. */
export interface Session {
  signedIn: boolean;
  /** The person's name in the registry. */
  caller?: string;
  /** The console accepts a code. */
  code: boolean;
  /** The console signs people in with an OpenID provider. */
  oidc?: boolean;
  /** Why the last attempt failed. */
  failure?: string;
}

export async function session(signal?: AbortSignal): Promise<Session> {
  const answer = await fetch('/session', { signal: signal ?? null });
  if (!answer.ok) {
    throw new Error(`the console answered ${answer.status}`);
  }
  return (await answer.json()) as Session;
}

/** signIn returns why the console refused, or an empty text. */
export async function signIn(secret: { token?: string; code?: string }): Promise<string> {
  try {
    const answer = await fetch('/session', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(secret),
    });
    if (answer.ok) {
      return '';
    }
    const { message } = (await answer.json()) as { message: string };
    return message;
  } catch {
    return 'The console does not answer. Check that it runs.';
  }
}

export async function signOut(): Promise<void> {
  await fetch('/session', { method: 'DELETE' });
  location.assign('/signin/');
}

/** ownPage returns the path of a page of the console; "/" for anything else, such as another site. */
export function ownPage(to: string, origin: string): string {
  const url = URL.canParse(to, origin) ? new URL(to, origin) : undefined;
  // "/.//evil.example" has the path "//evil.example", which is the address of another site.
  return url?.origin === origin && !url.pathname.startsWith('//') ? url.pathname + url.search : '/';
}
