import { $, component$, useComputed$, type Signal } from '@builder.io/qwik';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { useLoad } from '~/live/load';
import { Comparison } from '~/release/comparison';
import { editionOf } from '~/release/edition';
import type { Name } from '~/script/name';
import { QueryLink } from '~/shell/link';
import { present } from '~/ui/present';
import { Problem } from '~/ui/problem';
import { selectionOf, type Selection } from './selection';

interface Props {
  name: Name;
  release: Release;
  url: Signal<URL | undefined>;
}

/** Compared shows the differences between the two versions in the URL. */
export const Compared = component$<Props>(({ name, release, url }) => {
  const { a, b, split } = selectionOf(url.value, release);
  const query = useComputed$(() => ({ name, ...selectionOf(url.value, release) }));
  const { found: editions, failure } = useLoad(
    query,
    $(async ({ name, a, b }: Selection & { name: Name }, signal: AbortSignal) => {
      // The rollout is not part of a version, so both are read without one.
      const [before, after] = await Promise.all([editionOf(name, a, undefined, signal), editionOf(name, b, undefined, signal)]);
      return { a, b, before, after };
    }),
  );

  const shown = present(editions.value?.a === a && editions.value.b === b ? editions.value : undefined);
  return (
    <section aria-labelledby="compared" class="card">
      <div class="head">
        <h2 id="compared">Version {String(a)} and version {String(b)}</h2>
        <div class="end">
          {url.value && (
            <QueryLink url={url.value} change={{ view: split ? undefined : 'split' }}>{split ? 'One below the other' : 'Side by side'}</QueryLink>
          )}
        </div>
      </div>
      <Problem failure={failure.value} />
      {shown ? <Comparison before={shown.before} after={shown.after} split={split} /> : <p class="empty">Loading…</p>}
      <p class="faint">The rollout plan belongs to the script, not to a version. The list below shows a change of it as “configure” or “publish”.</p>
    </section>
  );
});
