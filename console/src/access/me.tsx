import { $, component$, useSignal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import type { CallerGrant, RegistryPart } from '~/gen/proto/registry/v1/registry_pb';
import { Freshness } from '~/live/freshness';
import { usePoll } from '~/live/poll';
import { plain, plainLines } from '~/ui/plain';
import { Problem } from '~/ui/problem';
import { milliseconds, Time } from '~/ui/time';

const pause = 10_000;
const skewed = 5000; // milliseconds between clocks that matter

/** Me shows who the person is to the registry, and the health of the registry. */
export const Me = component$(() => {
  const { found, failure, live } = usePoll(
    useSignal(true),
    pause,
    $(async (_: boolean, signal: AbortSignal) => {
      const check = await registry().check({}, { signal });
      return { check, skew: Math.abs((milliseconds(check.now) ?? Date.now()) - Date.now()) };
    }),
  );
  const c = found.value?.check;
  const skew = found.value?.skew ?? 0;
  return (
    <>
      <div class="head">
        <h1>Access</h1>
        <Freshness live={live.value} />
      </div>
      <Problem failure={failure.value} />
      <div class="columns">
        <section class="card tall" aria-labelledby="me">
          <h2 id="me">Who you are</h2>
          {c && (
            <>
              <dl class="facts">
                <dt>Name</dt><dd>{plain(c.caller)}</dd>
                <dt>Signed in until</dt><dd>{c.expires ? <Time at={c.expires} /> : 'your token or certificate does not end'}</dd>
              </dl>
              <h3>What you can do</h3>
              <Grants grants={c.grants} />
              <p class="faint">The access policy of the registry decides this. The roles publish, release and admin include reading.</p>
            </>
          )}
        </section>
        <section class="card tall" aria-labelledby="registry">
          <h2 id="registry">The registry</h2>
          {c && (
            <>
              <dl class="facts">
                <dt>Software</dt><dd>{plain(c.software)}</dd>
                <dt>Its clock</dt>
                <dd><Time at={c.now} />{skew > skewed && <span class="warn"> differs from yours by {Math.round(skew / 1000)} s</span>}</dd>
              </dl>
              <h3>What it needs</h3>
              <ul class="bare">{c.parts.map((p) => <Part key={p.name} part={p} />)}</ul>
              {c.parts.length === 0 && <p class="faint">It does not say.</p>}
            </>
          )}
        </section>
      </div>
    </>
  );
});

const Part = ({ part: p }: { part: RegistryPart }) => (
  <li>
    <span class={['tag', p.fault ? 'bad' : 'good']}>{p.fault ? 'faulty' : 'works'}</span> {plain(p.name)}
    {p.fault && <p class="bad">{plainLines(p.fault)}</p>}
  </li>
);

/** Grants are roles with the tenants that they are for. */
const Grants = ({ grants }: { grants: CallerGrant[] }) =>
  grants.length === 0 ? (
    <span class="faint">nothing</span>
  ) : (
    <ul class="bare">
      {grants.map((g, i) => (
        <li key={i}>
          {g.roles.map((r) => <><span class={['tag', r === 'admin' ? 'accent' : '']}>{plain(r)}</span>{' '}</>)}
          for {g.tenants.length > 0 ? g.tenants.map(plain).join(', ') : 'all tenants'}
        </li>
      ))}
    </ul>
  );
