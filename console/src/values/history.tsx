import { $, component$, useSignal, useTask$, type QRL } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';
import type { ValueHistory, ValueLine } from '~/gen/proto/script/v1/script_pb';
import { DiffView } from '~/release/view';
import { Confirm } from '~/ui/confirm';
import { bytes } from '~/ui/number';
import { plain } from '~/ui/plain';
import { present } from '~/ui/present';
import { Problem } from '~/ui/problem';
import { Time } from '~/ui/time';
import { pretty } from '~/ui/json';
import { contentOf } from './content';
import { read, rollBack } from './write';

interface Props {
  history: ValueHistory;
  onChanged$: QRL<(said: string) => void>;
}

interface Compared {
  version: bigint;
  before: string;
  now: string;
}

/** History lists the changes of a key, to compare an older version or bring it back. */
export const History = component$<Props>(({ history, onChanged$ }) => {
  const { tenant, key, lines } = history;
  const compared = useSignal<Compared>();
  const failure = useSignal<Failure>();
  const wanted = useSignal(0n);
  const rolling = useSignal(false);
  const target = useSignal(0n);
  const current = lines[0]?.version ?? 0n;
  const revision = lines[0]?.revision ?? 0n;

  useTask$(({ track }) => {
    track(() => history);
    compared.value = undefined; // It is not about the present content any more.
  });

  const compare = $(async (version: bigint) => {
    failure.value = compared.value = undefined;
    wanted.value = version;
    try {
      const [then, now] = await Promise.all([read(tenant, key, version), read(tenant, key)]);
      if (wanted.value !== version) {
        return; // The person compares another one by now.
      }
      const before = then && readable(then.content);
      const after = now ? readable(now.content) : '';
      if (before === undefined || after === undefined) {
        failure.value = { kind: '', field: '', message: `One of the contents is not text: ${bytes(then?.content.length ?? 0)} then, ${bytes(now?.content.length ?? 0)} now.`, line: 0, column: 0, signedOut: false, canceled: false };
        return;
      }
      compared.value = { version, before, now: after };
    } catch (error) {
      failure.value = failureOf(error);
    }
  });

  const shown = present(compared.value);
  return (
    <section aria-labelledby="history">
      <h2 id="history">History</h2>
      <div class="viewport" tabIndex={0} role="region" aria-label="Changes">
        <table>
          <thead>
            <tr>
              <th scope="col">When</th><th scope="col">Change</th><th scope="col" class="number">Version</th><th scope="col" class="number">Size</th>
              <th scope="col">By</th><th scope="col">Note</th><th scope="col">Actions</th>
            </tr>
          </thead>
          <tbody>
            {lines.map((l) => (
              <tr key={String(l.revision)}>
                <td><Time at={l.time} /></td>
                <td>{plain(l.change)}{l.revision === revision && <> <span class="tag good">now</span></>}</td>
                <td class="number">{l.version > 0n ? String(l.version) : ''}</td>
                <td class="number">{l.version > 0n ? bytes(l.size) : ''}</td>
                <td>{plain(l.author)}</td>
                <td class="wrap">{plain(l.note)}</td>
                <td>{isOlder(l, current) && (
                  <span class="tags">
                    <button type="button" onClick$={() => compare(l.version)}>Compare<span class="hear"> version {String(l.version)}</span></button>
                    <button type="button" onClick$={() => { target.value = l.version; rolling.value = true; }}>Roll back<span class="hear"> to version {String(l.version)}</span></button>
                  </span>
                )}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Problem failure={failure.value} />
      {shown && (
        <>
          <h3>From version {String(shown.version)} to {current > 0n ? 'now' : 'nothing'}</h3>
          <DiffView before={shown.before} after={shown.now} label={`From version ${shown.version} to now`} />
        </>
      )}
      <Confirm open={rolling} title={`Roll ${key} back`} action="Roll back" reason onConfirm$={async (why) => {
        await rollBack(tenant, key, target.value, why, revision);
        await onChanged$(`${key} has the content of version ${target.value} again.`);
      }}>
        <p>Version {String(target.value)} becomes the value again, on all agents. The history keeps all versions.</p>
      </Confirm>
    </section>
  );
});

const isOlder = (l: ValueLine, current: bigint): boolean => l.version > 0n && l.version !== current;

function readable(content: Uint8Array): string | undefined {
  const c = contentOf(content);
  return c.kind === 'binary' ? undefined : c.kind === 'json' ? pretty(c.text) : c.text;
}
