import { $, component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { session, signIn } from '~/api/client';

export default component$(() => {
  const secret = useSignal('');
  const error = useSignal('');
  const byCode = useSignal(false);

  // eslint-disable-next-line qwik/no-use-visible-task
  useVisibleTask$(async () => {
    byCode.value = (await session()).code;
  });

  const submit = $(async () => {
    error.value = await signIn(byCode.value ? { code: secret.value } : { token: secret.value });
    secret.value = '';
    if (!error.value) {
      location.assign('/');
    }
  });

  return (
    <main>
      <h1>Sign in</h1>
      <form preventdefault:submit onSubmit$={submit}>
        <label for="secret">{byCode.value ? 'The code that the console printed' : 'Your token for the registry'}</label>
        <p>
          <input id="secret" type="password" autocomplete="off" required bind:value={secret} /> <button type="submit">Sign in</button>
        </p>
        <p role="alert" class="bad">{error.value}</p>
      </form>
    </main>
  );
});
