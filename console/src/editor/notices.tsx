import { $, component$, useSignal, useTask$, type QRL } from '@builder.io/qwik';
import { manifests } from '~/api/client';
import { failureOf, text } from '~/api/failure';
import { ownerText } from '~/release/owner';
import { settingsOf, useBench } from './bench';

/** OwnerNotice names the owner of a script, and offers the draft as YAML for a change there. */
export const OwnerNotice = component$(() => {
  const bench = useBench();
  const yaml = useSignal('');
  const error = useSignal('');
  const copied = useSignal(false);
  const owner = bench.owner.value;

  useTask$(({ track }) => {
    track(() => bench.draft.value.request);
    yaml.value = ''; // It is of the draft before.
    copied.value = false;
  });

  const show = $(async () => {
    error.value = '';
    try {
      const format = await manifests().format({ script: bench.draft.value.request, owner: bench.owner.value });
      yaml.value = format.text;
    } catch (e) {
      error.value = text(failureOf(e));
    }
  });
  const copy = $(async () => {
    await navigator.clipboard.writeText(yaml.value);
    copied.value = true;
  });

  if (!owner) {
    return null;
  }
  return (
    <section class="notice warn" aria-label="Owner">
      <p>
        {ownerText(owner)} The registry refuses other changes, unless an administrator forces them. You can write and try changes here,
        and take their YAML there.
      </p>
      <div class="tools">
        <button type="button" onClick$={show}>{yaml.value ? 'Write the YAML again' : 'Show the YAML'}</button>
        {yaml.value && <button type="button" onClick$={copy}>Copy</button>}
        {copied.value && <span role="status">Copied.</span>}
      </div>
      {error.value && <p class="error" role="alert">{error.value}</p>}
      {yaml.value && <textarea readOnly rows={12} aria-label="YAML of the draft" value={yaml.value}></textarea>}
    </section>
  );
});

/** KindNotice explains libraries and personal versions. */
export const KindNotice = component$(() => {
  const bench = useBench();
  const settings = settingsOf(bench.draft.value.request);
  const personal = settings.personal;
  return (
    <>
      {settings.library && <p class="notice">This is a library: other scripts require it, and nobody calls it. It has no trigger and no tests.</p>}
      {personal && <p class="notice">This is a personal version of {personal.of}: only calls with the key {personal.key} run it.</p>}
    </>
  );
});

interface ChangedProps {
  /** What somebody else did, as a sentence. */
  story: string;
  deleted: boolean;
  onReview$: QRL<() => void>;
  onDiscard$: QRL<() => void>;
}

/** ChangedNotice says that somebody else changed the script since the draft began. */
export const ChangedNotice = component$<ChangedProps>(({ story, deleted, onReview$, onDiscard$ }) => (
  <div class="notice warn" role="alert">
    <strong>{story}</strong> Your draft began before. Nothing is overwritten: compare the two when you publish.{' '}
    {!deleted && <button type="button" onClick$={onReview$}>Review</button>}{' '}
    {!deleted && <button type="button" class="plain" onClick$={onDiscard$}>Drop my changes</button>}
  </div>
));
