import { $, component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { ownPage, session, signIn, type Session } from '~/api/session';
import { fieldsOf } from '~/ui/form';

export default component$(() => {
  const ways = useSignal<Session>();
  const kind = useSignal<'token' | 'code'>('token');
  const error = useSignal('');
  const busy = useSignal(false);
  const to = useSignal('/');

  useVisibleTask$(async () => {
    to.value = next();
    try {
      ways.value = await session();
      error.value = ways.value.failure ?? '';
      kind.value = ways.value.code ? 'code' : 'token';
    } catch {
      error.value = 'The console does not answer. Check that it runs.';
    }
  });

  const submit = $(async (_: Event, form: HTMLFormElement) => {
    const { secret = '', kind: way = 'token' } = fieldsOf(form);
    busy.value = true;
    error.value = await signIn({ [way]: secret });
    busy.value = false;
    if (!error.value) {
      location.assign(next());
    }
  });

  return (
    <main class="signin">
      <h1>Scriptorium</h1>
      {ways.value?.oidc && (
        <p>
          <a class="button primary" href={`/oidc/start?to=${encodeURIComponent(to.value)}`}>Sign in with your organisation</a>
        </p>
      )}
      <form preventdefault:submit onSubmit$={submit}>
        {ways.value?.code && (
          <fieldset class="choice">
            <legend>Sign in with</legend>
            <label><input type="radio" name="kind" value="code" checked={kind.value === 'code'} onChange$={() => (kind.value = 'code')} /> a code</label>
            <label><input type="radio" name="kind" value="token" checked={kind.value === 'token'} onChange$={() => (kind.value = 'token')} /> a token</label>
          </fieldset>
        )}
        <label for="secret">{kind.value === 'code' ? 'The code that the console printed when it started' : 'Your token for the registry'}</label>
        <input id="secret" type="password" name="secret" autocomplete="off" required />
        <button type="submit" class="primary" disabled={busy.value}>Sign in</button>
        <p role="alert" class="error" hidden={!error.value}>{error.value}</p>
      </form>
    </main>
  );
});

/** next is the page that the person came from. */
const next = (): string => ownPage(new URLSearchParams(location.search).get('to') ?? '/', location.origin);

export const head: DocumentHead = { title: 'Sign in' };
