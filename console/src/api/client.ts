import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { Registry } from '~/gen/proto/registry/v1/registry_pb';

/** registry returns the client of the registry's service, through the console that served the page. */
export const registry = () => createClient(Registry, createConnectTransport({ baseUrl: '/', useBinaryFormat: true }));

/** Session is how the browser stands with the console. */
export interface Session {
  signedIn: boolean;
  code: boolean;
}

export async function session(): Promise<Session> {
  const answer = await fetch('/session');
  return (await answer.json()) as Session;
}

/** signIn returns why the console refused; an empty text if it did not. */
export async function signIn(secret: { token?: string; code?: string }): Promise<string> {
  const answer = await fetch('/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(secret),
  });
  if (answer.ok) {
    return '';
  }
  const { error } = (await answer.json()) as { error: string };
  return error;
}
