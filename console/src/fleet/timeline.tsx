import { component$, useTask$, type QRL, type Signal } from '@builder.io/qwik';
import type { Event } from '~/gen/proto/script/v1/script_pb';
import { scriptHref } from '~/script/name';
import { Link } from '~/shell/link';
import { agentHref } from '~/shell/query';
import { Modal } from '~/ui/modal';
import { useOpened } from '~/ui/opened';
import { plain } from '~/ui/plain';
import { LongTable, rowIndex } from '~/ui/table';
import { Time } from '~/ui/time';
import { useWindow } from '~/ui/window';
import { details, subject } from './sentence';

interface Props {
  events: Event[];
  more: boolean;
  /** EventTable sets it to the place of the last event in view, so that older ones are loaded. */
  wanted: Signal<number>;
}

/** EventTable shows events, newest first. */
export const EventTable = component$<Props>(({ events, more, wanted }) => {
  const seen = useWindow();
  const { item, open, show$ } = useOpened<Event>();

  useTask$(({ track }) => {
    wanted.value = track(() => seen.to.value);
  });

  return (
    <>
      <LongTable
        label="Events"
        columns={5}
        seen={seen}
        total={events.length}
        more={more}
        head={<><th scope="col">When</th><th scope="col">What</th><th scope="col">Of</th><th scope="col">Details</th><th scope="col">By</th></>}
        row={(at) => <Row key={events[at]!.id} e={events[at]!} at={at} show$={show$} />}
      />
      <Modal open={open} title="Event">{item.value && <Facts e={item.value} />}</Modal>
    </>
  );
});

const Row = component$<{ e: Event; at: number; show$: QRL<(e: Event) => void> }>(({ e, at, show$ }) => (
  <tr aria-rowindex={rowIndex(at)}>
    <td><Time at={e.time} /></td>
    <td><span class={['tag', tone(e)]}>{plain(e.type)}</span> {plain(e.event)}</td>
    <td>{e.name ? <Link href={scriptHref(subject(e), 'history/')}>{plain(subject(e))}</Link> : plain(subject(e))}</td>
    <td><button type="button" class="link clip" onClick$={() => show$(e)}>{details(e) || 'Details'}</button></td>
    <td>{plain(e.author)}</td>
  </tr>
));

const Facts = ({ e }: { e: Event }) => (
  <dl class="facts">
    <dt>What</dt><dd>{plain(e.type)}: {plain(e.event)}</dd>
    {subject(e) && <><dt>Of</dt><dd>{plain(subject(e))}</dd></>}
    <dt>When</dt><dd>{e.since && <><Time at={e.since} /> to </>}<Time at={e.time} /></dd>
    <dt>Revision</dt><dd>{String(e.revision)}</dd>
    {e.version > 0n && <><dt>Version</dt><dd>{String(e.version)}</dd></>}
    {e.candidate > 0n && <><dt>Candidate</dt><dd>{String(e.candidate)}</dd></>}
    {e.changeSet && <><dt>Change set</dt><dd>{plain(e.changeSet)}</dd></>}
    {e.count > 1n && <><dt>How often</dt><dd>{e.count.toLocaleString()}</dd></>}
    {e.subjects.length > 0 && (
      <><dt>{e.type === 'agent' || e.type === 'drift' ? 'Agents' : 'Subjects'}</dt><dd><Subjects e={e} /></dd></>
    )}
    {e.author && <><dt>By</dt><dd>{plain(e.author)}</dd></>}
    {e.text && <><dt>Details</dt><dd>{plain(e.text)}</dd></>}
  </dl>
);

const Subjects = ({ e }: { e: Event }) =>
  e.type === 'agent' || e.type === 'drift' ? (
    <ul class="bare">{e.subjects.map((s) => <li key={s}><Link href={agentHref(s)}>{plain(s)}</Link></li>)}</ul>
  ) : (
    <>{e.subjects.map(plain).join(', ')}</>
  );

const bad = ['lost', 'refused', 'abort', 'accept-loss'];
const good = ['back', 'repaired', 'promote'];

const tone = (e: Event): string => (bad.includes(e.event) ? 'bad' : good.includes(e.event) ? 'good' : '');
