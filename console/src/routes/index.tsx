import { component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { Code, ConnectError } from '@connectrpc/connect';
import { registry } from '~/api/client';

interface Row {
  name: string;
  version: string;
  candidate: string;
}

export default component$(() => {
  const rows = useSignal<Row[]>();
  const error = useSignal('');

  // eslint-disable-next-line qwik/no-use-visible-task
  useVisibleTask$(async () => {
    try {
      const { releases } = await registry().list({});
      rows.value = releases.map((r) => ({
        name: `${r.tenant}/${r.name}`,
        version: r.active ? String(r.active.number) : '',
        candidate: r.candidate ? String(r.candidate.version) : '',
      }));
    } catch (e) {
      const cause = ConnectError.from(e);
      if (cause.code === Code.Unauthenticated) {
        location.assign('/signin/');
        return;
      }
      error.value = cause.rawMessage;
    }
  });

  return (
    <main>
      <h1>Scripts</h1>
      <p role="alert" class="bad">{error.value}</p>
      {rows.value?.length === 0 && <p>There are no scripts yet. Publish one: <code>scriptctl publish acme/hello hello.lua</code></p>}
      {rows.value && rows.value.length > 0 && (
        <table>
          <thead>
            <tr><th scope="col">Script</th><th scope="col">Version</th><th scope="col">Candidate</th></tr>
          </thead>
          <tbody>
            {rows.value.map((r) => (
              <tr key={r.name}><td>{r.name}</td><td>{r.version}</td><td>{r.candidate}</td></tr>
            ))}
          </tbody>
        </table>
      )}
    </main>
  );
});
