import { component$, useSignal, useStore, $, type QRL } from '@builder.io/qwik';
import { Time } from '~/ui/time';
import { open, requestOf, type Choices, type Conflict } from './conflict';
import type { PublishRequest } from '~/gen/proto/registry/v1/registry_pb';
import { SettingsConflicts } from './settingsconflicts';
import { SourceConflicts } from './sourceconflicts';

interface Props {
  conflict: Conflict;
  onMerged$: QRL<(request: PublishRequest, revision: bigint) => Promise<void>>;
  onCancel$: QRL<() => void>;
}

/** ConflictView merges a draft with what somebody else published meanwhile. The person decides about each overlap. */
export const ConflictView = component$<Props>(({ conflict, onMerged$, onCancel$ }) => {
  const choices = useStore<Choices>({ source: {}, settings: {} });
  const done = useSignal(false);
  const left = open(conflict, choices);
  const finish = $(async () => {
    done.value = true;
    await onMerged$(requestOf(conflict, choices), conflict.release?.revision ?? 0n);
    done.value = false;
  });
  return (
    <div class="conflict">
      <Happened conflict={conflict} />
      <SourceConflicts conflict={conflict} choices={choices} />
      <SettingsConflicts conflict={conflict} choices={choices} />
      <footer>
        <span class="faint" role="status">{left > 0 && `${left} ${left === 1 ? 'choice is' : 'choices are'} open.`}</span>
        <button type="button" onClick$={onCancel$}>Cancel</button>
        <button type="button" class="primary" disabled={left > 0 || done.value} onClick$={finish}>Continue</button>
      </footer>
    </div>
  );
});

const shownChanges = 10;

const Happened = ({ conflict }: { conflict: Conflict }) => (
  <div class="notice warn">
    <p>
      {conflict.release
        ? conflict.draft.baseRevision === 0n
          ? 'A script with this name is there already. Nothing was published.'
          : 'The script changed after you began. Nothing was published, and nothing is overwritten.'
        : 'The script was deleted after you began. If you continue, the next publish creates it again.'}
    </p>
    {conflict.changes.length > 0 && (
      <ul>
        {conflict.changes.slice(0, shownChanges).map((e) => (
          <li key={String(e.revision)}>
            <Time at={e.time} />: <strong>{e.author}</strong>, {e.change} ({e.candidate ? `candidate ${e.candidate}` : `version ${e.version}`}){e.note && `: “${e.note}”`}
          </li>
        ))}
        {conflict.changes.length > shownChanges && <li>and {conflict.changes.length - shownChanges} more</li>}
      </ul>
    )}
    {conflict.release && <p>“Continue” puts both together in the editor. You can look at it before you publish.</p>}
  </div>
);
