/** Session is how the browser stands with the console. */
export interface Session {
  signedIn: boolean;
  /** Who the registry says the person is. */
  caller?: string;
  /** The console accepts the code that it printed. */
  code: boolean;
  /** The console signs people in with an OpenID provider. */
  oidc?: boolean;
  /** Why the last way there failed. */
  failure?: string;
}

export async function session(signal?: AbortSignal): Promise<Session> {
  const answer = await fetch('/session', { signal: signal ?? null });
  if (!answer.ok) {
    throw new Error(`the console answered ${answer.status}`);
  }
  return (await answer.json()) as Session;
}

/** signIn returns why the console refused; an empty text if it did not. */
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
