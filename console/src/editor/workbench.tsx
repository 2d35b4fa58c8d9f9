import { $, component$, useComputed$, useContextProvider, useSignal, useTask$, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { useNavigate } from '@builder.io/qwik-city';
import { failureOf, text } from '~/api/failure';
import type { PublishRequest, PublishResponse, ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { PublishDialog } from '~/release/publish';
import { scriptHref } from '~/script/name';
import { Link } from '~/shell/link';
import { TryPanel } from '~/try/panel';
import { BenchContext, differs, isDirty, isNew, replace, type Bench, type View } from './bench';
import { newsOf } from './changed';
import { unchecked, useChecks } from './check';
import { useKeys } from './keys';
import { keep, forget } from './kept';
import { ChangedNotice, KindNotice, OwnerNotice } from './notices';
import { begin, open, type Opened } from './open';
import { Parts } from './parts';
import { useTheirs } from './theirs';
import { hasAny, placesOf } from './unfinished';

interface Props {
  opened: Opened;
  script: Signal<ScriptStatus | undefined>;
}

/** Workbench edits one script. Source, settings and YAML are views of one draft, and the panel beside them tries it. */
export const Workbench = component$<Props>(({ opened, script }) => {
  const bench: Bench = {
    draft: useSignal(opened.draft),
    base: useSignal(opened.base),
    owner: useSignal(opened.release?.owner ?? ''),
    edition: useSignal(0),
    check: useSignal(unchecked),
    mark: useSignal(),
    view: useSignal<View>('source'),
    place: useSignal(),
    unfinished: useSignal(opened.unfinished ?? {}),
    written: useSignal(''),
  };
  useContextProvider(BenchContext, bench);
  const seen = useSignal<Release | undefined>(opened.release);
  const publishing = useSignal(false);
  const said = useSignal('');
  const run = useSignal(0);
  const navigate = useNavigate();
  const name = `${opened.base.tenant}/${opened.base.name}`;

  const take = $((o: Opened) => {
    bench.base.value = o.base;
    bench.draft.value = o.draft;
    bench.owner.value = o.release?.owner ?? '';
    bench.unfinished.value = {};
    bench.written.value = '';
    bench.mark.value = undefined;
    bench.check.value = unchecked;
    seen.value = o.release;
    bench.edition.value++;
  });

  /** reload drops the draft for the newest version, but not what the person types before the answer. */
  const reload = $(async () => {
    const before = bench.draft.value.request;
    try {
      const { tenant, name } = bench.base.value;
      const now = await open({ tenant, name });
      if (bench.draft.value.request === before) {
        await take(now);
      }
    } catch (e) {
      said.value = text(failureOf(e));
    }
  });

  /** catchUp shows the new version, unless the person has changed the draft meanwhile. */
  const catchUp = $(async (what: string, before: PublishRequest) => {
    try {
      const { tenant, name } = bench.base.value;
      const now = await open({ tenant, name });
      if (bench.draft.value.request === before && !hasAny(bench.unfinished.value)) {
        await take(now);
        said.value = `${what} You see it now.`;
      }
    } catch (e) {
      said.value = text(failureOf(e));
    }
  });

  /** onPublished goes on with the draft, which the person may have changed after they sent it. */
  const onPublished = $(async (r: PublishResponse, sent: PublishRequest, repeated: boolean) => {
    const { request } = bench.draft.value;
    const dirty = differs(request, sent);
    const what = r.changed ? `Version ${r.version?.number} is published.` : 'The registry has all of this already.';
    if (isNew(bench.draft.value) && !dirty && location.pathname !== '/script/') { // A script that was deleted is on its own page already.
      forget(name);
      await navigate(scriptHref(`${request.tenant}/${request.name}`));
      return;
    }
    if (repeated || (r.changed && r.version!.number !== r.release!.latest)) { // Somebody else may have changed the release since.
      await catchUp(what, sent);
      return;
    }
    bench.base.value = sent;
    seen.value = r.release;
    bench.draft.value = { request, baseRevision: r.release!.revision, baseVersion: r.version!.number, dirty };
    said.value = what;
  });

  /** onMerged closes the dialog once it has what it needs: after an error, the person's choices are still there. */
  const onMerged = $(async (request: PublishRequest, revision: bigint) => {
    if (revision === 0n) { // The script is gone: the next publish creates it.
      publishing.value = false;
      await take(begin(request));
      return;
    }
    const now = await open({ tenant: request.tenant, name: request.name });
    publishing.value = false;
    bench.base.value = now.base;
    seen.value = now.release;
    bench.draft.value = { ...now.draft, baseRevision: revision };
    replace(bench, request);
  });

  const unfinished = useComputed$(() => placesOf(bench.unfinished.value));
  const dropUnfinished = $(() => {
    bench.unfinished.value = {};
    replace(bench, { ...bench.draft.value.request }); // All views show it anew.
  });
  /** drop goes back to what the draft began with, or to what somebody else published since. */
  const drop = $(async () => {
    const now = script.value?.release;
    if (newsOf(bench.draft.value, seen.value, now) === 'changed' && !now?.deleted) {
      await reload();
      return;
    }
    await take({ base: bench.base.value, release: seen.value, draft: { ...bench.draft.value, request: { ...bench.base.value }, dirty: false } }); // A copy: all views show it anew.
  });

  useTask$(({ track }) => {
    const draft = track(() => bench.draft.value);
    const unfinished = track(() => bench.unfinished.value);
    keep(name, { draft, base: bench.base.value, release: seen.value, unfinished });
  });

  const theirs = useTheirs(bench, seen, script, publishing, catchUp);

  useVisibleTask$(
    () => {
      // The dialog closes when it calls onPublished. Loading the handler at that moment would show the old state for a while.
      void onPublished.resolve();
    },
    { strategy: 'document-ready' },
  );
  useChecks(bench);
  useKeys(publishing, run);

  const draft = bench.draft.value;
  const dirty = isDirty(bench);
  const release = script.value?.release;
  const changed = release && !publishing.value && newsOf(draft, seen.value, release) === 'changed';
  return (
    <>
      <OwnerNotice />
      <KindNotice />
      {changed && theirs.value && <ChangedNotice story={theirs.value} deleted={release.deleted} onReview$={$(() => (publishing.value = true))} onDiscard$={$(() => reload())} />}
      <div class="tools state">
        <span role="status">
          {said.value && !dirty ? said.value : isNew(draft) ? 'A new script. It is not published yet.' : dirty ? `Version ${draft.baseVersion} with changes that are not published. They stay in this tab until you close it.` : `Version ${draft.baseVersion}.`}
        </span>{' '}
        {release?.candidate && !dirty && <Link href={scriptHref(name, 'rollout/')}>Watch the rollout</Link>}
        <span class="end">
          {dirty && !isNew(draft) && <button type="button" class="plain" onClick$={drop}>Drop changes</button>}
          <button type="button" class="primary" onClick$={() => (publishing.value = true)} title="Ctrl S">Publish…</button>
        </span>
      </div>
      <div class="bench">
        <Parts />
        <TryPanel run={run} />
      </div>
      <PublishDialog open={publishing} draft={bench.draft} unfinished={unfinished} onDrop$={dropUnfinished} onPublished$={onPublished} onMerged$={onMerged} />
    </>
  );
});
