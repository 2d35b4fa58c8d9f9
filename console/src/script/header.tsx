import { component$ } from '@builder.io/qwik';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import type { Live } from '~/live/follow';
import { Freshness } from '~/live/freshness';
import { Link } from '~/shell/link';
import { Menu } from './menu';
import { scriptHref, type Name } from './name';

type Tab = '' | 'history/' | 'rollout/';

const tabs: { page: Tab; title: string }[] = [
  { page: '', title: 'Edit' },
  { page: 'history/', title: 'History' },
  { page: 'rollout/', title: 'Rollout' },
];

interface Props {
  name: Name;
  tab: Tab;
  status: ScriptStatus | undefined;
  live: Live;
}

/** Header is at the top of each page of a script. */
export const Header = component$<Props>(({ name, tab, status, live }) => {
  const full = name.name && `${name.tenant}/${name.name}`;
  return (
    <>
      <div class="head">
        <h1>{full || 'Script'}</h1>
        <State status={status} />
        <Freshness live={live} />
        <div class="end">{status?.release && <Menu name={name} release={status.release} />}</div>
      </div>
      <nav class="tabs" aria-label={`Pages of ${full}`}>
        {tabs.map((t) => (
          <Link key={t.page} href={scriptHref(full, t.page)} aria-current={t.page === tab ? 'page' : undefined}>{t.title}</Link>
        ))}
        <Link href={`/logs/?tenant=${encodeURIComponent(name.tenant)}&name=${encodeURIComponent(name.name)}`}>Logs</Link>
      </nav>
    </>
  );
});

/** Unnamed is the content of a page of a script whose address has no name. */
export const Unnamed = () => <p>The address names no script. <Link href="/">Choose one</Link></p>;

/** State shows the version of a script, and what is unusual about it. */
const State = ({ status }: { status: ScriptStatus | undefined }) => {
  const r = status?.release;
  if (!r) {
    return null;
  }
  return (
    <>
      {r.deleted ? <span class="tag bad">deleted</span> : r.active && <span class="tag">version {String(r.active.number)}</span>}
      <Candidacy status={status} />
    </>
  );
};

/** Candidacy shows what is unusual about a script. */
export const Candidacy = ({ status }: { status: ScriptStatus }) => {
  const r = status.release;
  if (!r) {
    return null;
  }
  return (
    <>
      {status.unreadable && <span class="tag bad" title={status.unreadable.reason}>unreadable</span>}
      {!r.deleted && !r.enabled && <span class="tag warn">disabled</span>}
      {r.hold && <span class="tag warn" title={`${r.hold.author}: ${r.hold.note}`}>held</span>}
      {!r.hold && r.pinned && <span class="tag" title="The manifest names the version that runs">pinned</span>}
      {r.candidate && <CandidateTag candidate={r.candidate} />}
      {status.failed > 0 && <span class="tag bad">failed on {status.failed}</span>}
    </>
  );
};

const CandidateTag = ({ candidate: c }: { candidate: NonNullable<NonNullable<ScriptStatus['release']>['candidate']> }) => {
  const failed = failedOf(c);
  const state = failed ? 'failed' : c.frozen ? 'waits for the end of a freeze' : c.paused ? 'paused' : '';
  return <span class={['tag', failed ? 'bad' : state ? 'warn' : 'accent']} title={failed}>candidate {String(c.version)} {state}</span>;
};

/**
 * failedOf is why the registry gave a candidate up; empty if it did not. For software that does not know change sets and freezes, a
 * candidate of these looks failed.
 */
export const failedOf = (c: NonNullable<NonNullable<ScriptStatus['release']>['candidate']>): string => (c.set ? c.set.failed : c.frozen ? '' : c.failed);
