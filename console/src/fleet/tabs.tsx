import { Link } from '~/shell/link';

/** Tabs are the pages of the fleet. */
export const Tabs = ({ at }: { at: 'agents' | 'events' }) => (
  <nav class="tabs" aria-label="Pages of the fleet">
    <Link href="/fleet/" aria-current={at === 'agents' ? 'page' : undefined}>Agents</Link>
    <Link href="/fleet/events/" aria-current={at === 'events' ? 'page' : undefined}>Events</Link>
  </nav>
);
