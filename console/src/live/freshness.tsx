import { component$ } from '@builder.io/qwik';
import { Time } from '~/ui/time';
import type { Live } from './follow';

/** Freshness shows whether the content of a page is live, or since when it is stale. */
export const Freshness = component$(({ live }: { live: Live }) => (
  <span class={['freshness', live.state]} role="status" title={live.why}>
    {live.state === 'live' && 'Live'}
    {live.state === 'connecting' && 'Connecting'}
    {live.state === 'stale' && (
      <>
        Stale since <Time at={live.since} clock />
        <span class="why">: {live.why}</span>
      </>
    )}
  </span>
));
