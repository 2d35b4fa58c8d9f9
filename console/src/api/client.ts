import { createClient, type Client, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { Manifests } from '~/gen/proto/console/v1/console_pb';
import { Registry } from '~/gen/proto/registry/v1/registry_pb';
import { activity } from './activity';
import { failureOf } from './failure';

let toConsole: Transport | undefined;

const transport = (): Transport =>
  (toConsole ??= createConnectTransport({ baseUrl: '/', useBinaryFormat: true, interceptors: [activity(), signInAgain] }));

let registryClient: Client<typeof Registry> | undefined;
let manifestsClient: Client<typeof Manifests> | undefined;

/** registry returns the client of the registry's service, through the console that served the page. */
export const registry = (): Client<typeof Registry> => (registryClient ??= createClient(Registry, transport()));

/** manifests returns the client of the console's own service, which reads and writes manifests. */
export const manifests = (): Client<typeof Manifests> => (manifestsClient ??= createClient(Manifests, transport()));

/** signInAgain goes to the sign-in page when the session is over. A stream fails only while somebody reads it. */
const signInAgain: Interceptor = (next) => async (request) => {
  try {
    const response = await next(request);
    return response.stream ? { ...response, message: watched(response.message) } : response;
  } catch (error) {
    throw noticed(error);
  }
};

async function* watched<T>(messages: AsyncIterable<T>): AsyncIterable<T> {
  try {
    yield* messages;
  } catch (error) {
    throw noticed(error);
  }
}

function noticed(error: unknown): unknown {
  if (failureOf(error).signedOut) {
    goToSignIn();
  }
  return error;
}

/** The event when the session is over. A page that has more than the registry prevents its default, which leaves the page. */
export const signedOut = 'signedout';

/** goToSignIn keeps the present page in the URL, to return to it. */
export function goToSignIn(): void {
  if (!location.pathname.startsWith('/signin') && dispatchEvent(new Event(signedOut, { cancelable: true }))) {
    location.assign(`/signin/?to=${encodeURIComponent(location.pathname + location.search)}`);
  }
}
