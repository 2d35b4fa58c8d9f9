import { createClient, type Client, type Interceptor } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { Manifests } from '~/gen/proto/console/v1/console_pb';
import { Registry } from '~/gen/proto/registry/v1/registry_pb';
import { failureOf } from './failure';

let client: Client<typeof Registry> | undefined;
let translator: Client<typeof Manifests> | undefined;

/** registry returns the client of the registry's service, through the console that served the page. */
export function registry(): Client<typeof Registry> {
  client ??= createClient(Registry, transport());
  return client;
}

/** manifests returns the client of the console's own service, which reads and writes YAML. */
export function manifests(): Client<typeof Manifests> {
  translator ??= createClient(Manifests, transport());
  return translator;
}

const transport = () => createConnectTransport({ baseUrl: '/', useBinaryFormat: true, interceptors: [signInAgain] });

/** signInAgain goes to the page for signing in when the session is over. */
const signInAgain: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    if (failureOf(error).signedOut) {
      goToSignIn();
    }
    throw error;
  }
};

/** goToSignIn remembers in the URL which page the person was on. */
export function goToSignIn(): void {
  if (!location.pathname.startsWith('/signin')) {
    location.assign(`/signin/?to=${encodeURIComponent(location.pathname + location.search)}`);
  }
}
