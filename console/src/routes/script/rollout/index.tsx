import { component$, useComputed$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { Decisions } from '~/rollout/decisions';
import { Figures } from '~/rollout/figures';
import { Idle } from '~/rollout/idle';
import { Nodes } from '~/rollout/nodes';
import { Outcome } from '~/rollout/outcome';
import { Shadow } from '~/rollout/shadow';
import { planOf } from '~/rollout/steps';
import { Stepper } from '~/rollout/stepper';
import { Tests } from '~/rollout/tests';
import { useRollout } from '~/rollout/watch';
import { Header, Unnamed } from '~/script/header';
import { nameOf } from '~/script/name';
import { useRecord } from '~/script/record';
import { useUrl } from '~/shell/url';
import { present } from '~/ui/present';
import { Problem } from '~/ui/problem';

export default component$(() => {
  const url = useUrl();
  const { message, live } = useRollout(url);
  const status = useComputed$(() => message.value?.status?.scripts[0]);
  const { record, failure } = useRecord(url, status, live);
  const name = nameOf(url.value);
  const shown = present(message.value);
  const now = present(status.value);
  const release = now?.release;
  const candidate = release?.candidate;
  const history = present(record.value?.history);
  return (
    <>
      <Header name={name} tab="rollout/" status={status.value} live={live.value} />
      {url.value && !name.name && <Unnamed />}
      <Problem failure={failure.value} />
      {name.name && !now && <p class="empty" role="status">{live.value.state === 'stale' ? live.value.why : 'Asking the registry…'}</p>}
      {now && release?.deleted && <p class="notice warn">The script is deleted.</p>}
      {now && release && candidate && (
        <>
          <Outcome status={now} />
          <div class="columns">
            <Stepper status={now} />
            <div>
              <Tests status={now} />
              {(candidate.step > 0 || candidate.calls > 0n) && shown && <Figures message={shown} />}
            </div>
          </div>
          {planOf(release)?.steps[candidate.step - 1]?.shadow && <Shadow name={name} calls={now.trials?.shadow} />}
        </>
      )}
      {now && !candidate && !release?.deleted && <Idle status={now} history={history} />}
      {shown && !release?.deleted && <Nodes message={shown} url={url} />}
      {history && <Decisions history={history} version={candidate?.version} />}
    </>
  );
});

export const head: DocumentHead = { title: 'Rollout' };
