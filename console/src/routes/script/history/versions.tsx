import { $, component$, useSignal, type Signal } from '@builder.io/qwik';
import type { HistoryEntry, Release, Version } from '~/gen/proto/script/v1/script_pb';
import { hold, rollBack } from '~/release/actions';
import { failedOf } from '~/script/header';
import type { Name } from '~/script/name';
import { ReleaseHold } from '~/script/menu';
import { useChangeQuery } from '~/shell/query';
import { Confirm } from '~/ui/confirm';
import { bytes } from '~/ui/number';
import { Time } from '~/ui/time';
import { selectionOf } from './selection';

interface Props {
  name: Name;
  release: Release;
  history: HistoryEntry[];
  url: Signal<URL | undefined>;
}

/** Versions lists the retained versions, to compare two of them or run one again. */
export const Versions = component$<Props>(({ name, release, history, url }) => {
  const target = useSignal(0n);
  const rolling = useSignal(false);
  const holding = useSignal(false);
  const releasing = useSignal(false);
  const change = useChangeQuery();
  const { a, b } = selectionOf(url.value, release);

  const select = $((side: 'a' | 'b', n: bigint) => change({ [side]: String(n) }));
  const active = release.active?.number ?? 0n;

  return (
    <section aria-labelledby="versions">
      <div class="head">
        <h2 id="versions">Versions</h2>
        <div class="end">{release.hold && <button type="button" onClick$={() => { releasing.value = true; }}>Release the hold…</button>}</div>
      </div>
      <div class="viewport short" role="region" aria-label="Versions" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col"><abbr title="Compare from">A</abbr></th><th scope="col"><abbr title="Compare to">B</abbr></th>
              <th scope="col">Version</th><th scope="col">State</th><th scope="col">Published</th><th scope="col">By</th><th scope="col">Note</th>
              <th scope="col" class="number">Size</th><th scope="col"><span class="faint">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            {[...release.retained].reverse().map((v) => {
              const published = publishedIn(history, v);
              const n = v.number;
              return (
                <tr key={String(n)}>
                  <td><input type="radio" name="a" aria-label={`Compare from version ${n}`} checked={a === n} onChange$={() => select('a', n)} /></td>
                  <td><input type="radio" name="b" aria-label={`Compare to version ${n}`} checked={b === n} onChange$={() => select('b', n)} /></td>
                  <td>{String(n)}</td>
                  <td><Tags release={release} number={n} /></td>
                  <td><Time at={v.createdAt ?? published?.time} /></td>
                  <td>{v.author || published?.author}</td>
                  <td class="wrap">{v.note || published?.note}</td>
                  <td class="number">{bytes(v.size)}</td>
                  <td class="actions">
                    {n < active && <button type="button" onClick$={() => { target.value = n; rolling.value = true; }}>Roll back…</button>}
                    {n >= active && !(n === active && release.hold) && (
                      <button type="button" onClick$={() => { target.value = n; holding.value = true; }}>Hold here…</button>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <Confirm open={rolling} title={`Roll back to version ${target.value}`} action="Roll back" danger reason onConfirm$={(why) => rollBack(name, target.value, why)}>
        <p>
          Version {String(target.value)} runs on all agents at once, without tests and steps{release.candidate && ', and the candidate ends'}. The script is held there until
          somebody releases the hold.
        </p>
      </Confirm>
      <Confirm open={holding} title={`Hold at version ${target.value}`} action="Hold" danger={target.value !== active} reason onConfirm$={(why) => hold(name, target.value, why)}>
        <p>
          {target.value === active
            ? `Version ${active} keeps running, whatever is published, until somebody releases the hold.`
            : `Version ${target.value} runs on all agents at once, without tests and steps, and the script is held there.`}
        </p>
      </Confirm>
      <ReleaseHold name={name} release={release} open={releasing} />
    </section>
  );
});

/** publishedIn is the change that made the version. A rollout adds changes with the same number later. */
const publishedIn = (history: HistoryEntry[], v: Version): HistoryEntry | undefined =>
  history.findLast((e) => (e.candidate || e.version) === v.number && e.change === 'publish');

const Tags = ({ release: r, number }: { release: Release; number: bigint }) => (
  <>
    {r.active?.number === number && <span class="tag good">active</span>}{' '}
    {r.active?.number === number && r.hold && <span class="tag warn">held</span>}{' '}
    {r.candidate?.version === number && <span class={['tag', failedOf(r.candidate) ? 'bad' : 'accent']}>{failedOf(r.candidate) ? 'failed candidate' : 'candidate'}</span>}
  </>
);
