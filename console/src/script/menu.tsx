import { $, component$, useSignal, type Signal } from '@builder.io/qwik';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { hold, releaseHold, remove, rollBack } from '~/release/actions';
import { releaseOf } from '~/release/conflict';
import { PastOwner } from '~/release/pastowner';
import { Confirm } from '~/ui/confirm';
import type { Name } from './name';
import { Switch } from './switch';

interface Props {
  name: Name;
  release: Release;
}

/** Menu has the actions on a script. */
export const Menu = component$<Props>(({ name, release }) => {
  const menu = useSignal<HTMLDetailsElement>();
  const rollback = useSignal(false);
  const holding = useSignal(false);
  const releasing = useSignal(false);
  const deleting = useSignal(false);
  // What the person saw when they chose an action: the release can change below the dialog.
  const target = useSignal(0n);
  const seen = useSignal('');
  const choose = $((dialog: Signal<boolean>) => {
    menu.value?.removeAttribute('open');
    target.value = release.active?.number ?? 0n;
    seen.value = versionsOf(release);
    dialog.value = true;
  });
  const active = release.active?.number ?? 0n;
  if (release.deleted) {
    return null;
  }
  return (
    <>
      <Switch name={name} release={release} />
      <details class="menu" ref={menu} onKeyDown$={(e) => e.key === 'Escape' && menu.value?.removeAttribute('open')}>
        <summary class="button">Actions</summary>
        <div class="sheet">
          <button type="button" onClick$={() => choose(rollback)}>Roll back…</button>
          {release.hold ? (
            <button type="button" onClick$={() => choose(releasing)}>Release the hold…</button>
          ) : (
            <button type="button" onClick$={() => choose(holding)}>Hold at version {String(active)}…</button>
          )}
          <button type="button" class="danger" onClick$={() => choose(deleting)}>Delete…</button>
        </div>
      </details>
      <Confirm open={rollback} title={`Roll back ${release.tenant}/${release.name}`} action="Roll back" danger reason onConfirm$={async (why) => {
        const now = await releaseOf(name, AbortSignal.timeout(30_000)); // The page can be stale.
        if (!now || versionsOf(now) !== seen.value) {
          throw new Error('The script has other versions by now. Cancel, and look at them first.');
        }
        await rollBack(name, 0n, why, now.revision);
      }}>
        <p>{rollbackText(release)}</p>
        <p class="faint">To go back to another version, choose it in the history.</p>
      </Confirm>
      <Confirm open={holding} title={`Hold at version ${target.value}`} action="Hold" reason onConfirm$={(why) => hold(name, target.value, why)}>
        <p>
          Version {String(target.value)} {target.value === active ? 'keeps running' : `runs again in place of version ${active}`}, whatever is published, until somebody releases the hold.{' '}
          {release.candidate && 'The candidate ends.'}
        </p>
      </Confirm>
      <ReleaseHold name={name} release={release} open={releasing} />
      <Delete name={name} release={release} open={deleting} />
    </>
  );
});

/** versionsOf is what a rollback depends on. */
const versionsOf = (r: Release): string => [r.active?.number, r.latest, r.candidate?.version, r.hold !== undefined].join();

function rollbackText(r: Release): string {
  if (r.candidate) {
    return `The candidate, version ${r.candidate.version}, ends. Version ${r.active?.number} runs on all agents at once, and the script is held there.`;
  }
  if (r.hold) {
    return 'If a rollback has set the hold, nothing changes. Otherwise the version that was live before runs on all agents at once.';
  }
  return `The version that was live before version ${r.active?.number} runs on all agents at once, without tests and steps. The script is held there until somebody releases the hold.`;
}

export const ReleaseHold = component$<Props & { open: Signal<boolean> }>(({ name, release, open }) => (
  <Confirm open={open} title="Release the hold" action="Release the hold" reason onConfirm$={(why) => releaseHold(name, why)}>
    {release.hold && <p>{release.hold.author} holds the script{release.hold.note && `: “${release.hold.note}”`}.</p>}
    <p>
      {release.hold?.declared
        ? `Version ${release.hold.declared}, which the manifest names, goes live then.`
        : `Version ${release.latest}, the latest, is the candidate then, or live at once if there are neither tests nor steps.`}
    </p>
  </Confirm>
));

const Delete = component$<Props & { open: Signal<boolean> }>(({ name, release, open }) => {
  const force = useSignal(false);
  const full = `${release.tenant}/${release.name}`;
  return (
    <Confirm open={open} title={`Delete ${full}`} action="Delete" danger reason typed={full} onConfirm$={(why) => remove(name, why, force.value)}>
      <p>All versions of the script are deleted, and calls of it fail. This cannot be undone. The history stays.</p>
      {release.owner && <PastOwner owner={release.owner} force={force} label="Delete it all the same" />}
    </Confirm>
  );
});
