import { component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { failureOf, type Failure } from '~/api/failure';
import { keptDraft } from '~/editor/kept';
import { open, type Opened } from '~/editor/open';
import { Workbench } from '~/editor/workbench';
import { Header, Unnamed } from '~/script/header';
import { nameOf } from '~/script/name';
import { useStatus } from '~/script/status';
import { Link } from '~/shell/link';
import { useUrl } from '~/shell/url';
import { plain } from '~/ui/plain';
import { present } from '~/ui/present';
import { Problem } from '~/ui/problem';

export default component$(() => {
  const url = useUrl();
  const { script, live } = useStatus(url);
  const opened = useSignal<Opened>();
  const failure = useSignal<Failure>();
  const name = nameOf(url.value);
  const full = `${name.tenant}/${name.name}`;
  // After a navigation, the page still has what it opened before for a moment.
  const own = present(opened.value?.base.tenant === name.tenant && opened.value.base.name === name.name ? opened.value : undefined);

  useVisibleTask$(
    async ({ track, cleanup }) => {
      const at = track(() => url.value);
      opened.value = undefined;
      failure.value = undefined;
      let gone = false;
      cleanup(() => (gone = true));
      const { tenant, name } = nameOf(at);
      if (!name) {
        return;
      }
      const version = at?.searchParams.get('version');
      try {
        const read = (!version && keptDraft(`${tenant}/${name}`)) || (await open({ tenant, name }, numberOf(version)));
        if (!gone) {
          opened.value = read;
        }
      } catch (error) {
        if (!gone) {
          failure.value = failureOf(error);
        }
      }
    },
    { strategy: 'document-ready' },
  );

  return (
    <>
      <Header name={name} tab="" status={script.value} live={live.value} />
      {url.value && !name.name && <Unnamed />}
      <Problem failure={failure.value} />
      {failure.value?.kind === 'NOTFOUND' && <p><Link class="button" href={`/script/new/?name=${encodeURIComponent(full)}`}>Write {full}</Link></p>}
      {own ? <Workbench key={full} opened={own} script={script} /> : name.name && !failure.value && <div class="bench loading" aria-busy="true"></div>}
    </>
  );
});

/** numberOf is 0 for no version. */
function numberOf(version: string | null | undefined): bigint {
  if (version && !/^\d{1,18}$/.test(version)) {
    throw new Error(`The address has “${plain(version)}” for a version. Choose one in the history.`);
  }
  return BigInt(version || 0);
}

export const head: DocumentHead = { title: 'Script' };
