import { component$, useSignal, useTask$, type Signal } from '@builder.io/qwik';
import { Link } from '@builder.io/qwik-city';
import { failureOf, type Failure } from '~/api/failure';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { Comparison } from '~/release/comparison';
import { editionOf, type Edition } from '~/release/edition';
import type { Name } from '~/script/name';
import { hrefWith } from '~/shell/href';
import { Problem } from '~/ui/problem';
import { selectionOf } from './selection';

interface Props {
  name: Name;
  release: Release;
  url: Signal<URL | undefined>;
}

/** Compared shows what is different between the two versions that the URL selects. */
export const Compared = component$<Props>(({ name, release, url }) => {
  const editions = useSignal<{ before: Edition; after: Edition }>();
  const failure = useSignal<Failure>();
  const { a, b, split } = selectionOf(url.value, release);

  useTask$(({ track, cleanup }) => {
    const chosen = track(() => selectionOf(url.value, release));
    const abort = new AbortController();
    cleanup(() => abort.abort());
    const load = async () => {
      try {
        // The rollout is not of a version, so both are read without one.
        const [before, after] = await Promise.all([editionOf(name, chosen.a, undefined, abort.signal), editionOf(name, chosen.b, undefined, abort.signal)]);
        editions.value = { before, after };
        failure.value = undefined;
      } catch (e) {
        if (!abort.signal.aborted) {
          failure.value = failureOf(e);
        }
      }
    };
    void load();
  });

  return (
    <section aria-labelledby="compared" class="card">
      <div class="head">
        <h2 id="compared">Version {String(a)} and version {String(b)}</h2>
        <div class="end">
          {url.value && (
            <Link href={hrefWith(url.value, { view: split ? undefined : 'split' })} replaceState scroll={false}>{split ? 'One below the other' : 'Side by side'}</Link>
          )}
        </div>
      </div>
      <Problem failure={failure.value} />
      {editions.value ? <Comparison before={editions.value.before} after={editions.value.after} split={split} /> : <p class="empty">Loading…</p>}
      <p class="faint">The rollout plan belongs to the script, not to a version. A change of it stands in the list of changes as “configure” or “publish”.</p>
    </section>
  );
});
