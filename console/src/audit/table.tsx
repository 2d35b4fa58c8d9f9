import { component$, type QRL } from '@builder.io/qwik';
import type { AuditEntry } from '~/gen/proto/script/v1/script_pb';
import { scriptHref } from '~/script/name';
import { Link } from '~/shell/link';
import { hrefWith } from '~/shell/query';
import { Modal } from '~/ui/modal';
import { useOpened } from '~/ui/opened';
import { plain, plainLines } from '~/ui/plain';
import { LongTable, rowIndex } from '~/ui/table';
import { Time } from '~/ui/time';
import type { Window } from '~/ui/window';

interface Props {
  entries: AuditEntry[];
  more: boolean;
  seen: Window;
}

export const AuditTable = component$<Props>(({ entries, more, seen }) => {
  const { item, open, show$ } = useOpened<AuditEntry>();
  return (
    <>
      <LongTable
        label="Audit trail"
        columns={8}
        seen={seen}
        total={entries.length}
        more={more}
        head={
          <>
            <th scope="col">When</th><th scope="col">Change</th><th scope="col">Of</th><th scope="col" class="number spare">Version</th>
            <th scope="col">Who</th><th scope="col" class="spare">Author</th><th scope="col" class="spare">From</th><th scope="col" class="spare">Note</th>
          </>
        }
        row={(at) => <Row key={at} e={entries[at]!} at={at} show$={show$} />}
      />
      <Modal open={open} title="Write" wide>{item.value && <Whole e={item.value} />}</Modal>
    </>
  );
});

const Row = component$<{ e: AuditEntry; at: number; show$: QRL<(e: AuditEntry) => void> }>(({ e, at, show$ }) => (
  <tr aria-rowindex={rowIndex(at)}>
    <td><Time at={e.time} /></td>
    <td>
      <button type="button" class="link" onClick$={() => show$(e)}>{plain(e.change)}</button>
      {e.forced && <> <span class="tag warn" title="It went past the script's owner">forced</span></>}
    </td>
    <td><Of e={e} /></td>
    <td class="number spare">{e.version > 0n ? String(e.version) : ''}{e.candidate > 0n && <span class="faint"> ← {String(e.candidate)}</span>}</td>
    <td>{plain(e.identity)}</td>
    <td class="spare">{plain(e.author)}</td>
    <td class="spare">{plain(e.peer)}</td>
    <td class="clip spare" title={plain(e.note)}>{plain(e.note)}</td>
  </tr>
));

/** Of links to the script, value or tenant that was written. */
const Of = ({ e }: { e: AuditEntry }) => {
  if (e.name) {
    return <Link href={scriptHref(`${e.tenant}/${e.name}`, 'history/')}>{plain(`${e.tenant}/${e.name}`)}</Link>;
  }
  if (e.key) {
    return <Link href={hrefWith('/values/', { tenant: e.tenant, key: e.key })}>{plain(`${e.tenant}/${e.key}`)}</Link>;
  }
  return e.tenant ? <Link href={hrefWith('/tenants/', { tenant: e.tenant })}>{plain(e.tenant)}</Link> : <span class="faint">the registry</span>;
};

const Whole = ({ e }: { e: AuditEntry }) => (
  <dl class="facts">
    <dt>Change</dt><dd>{plain(e.change)}{e.forced && ', forced: it went past the owner'}</dd>
    <dt>Of</dt><dd><Of e={e} /></dd>
    <dt>When</dt><dd><Time at={e.time} /></dd>
    <dt>Revision</dt><dd>{String(e.revision)}</dd>
    {e.version > 0n && <><dt>Version</dt><dd>{String(e.version)}</dd></>}
    {e.candidate > 0n && <><dt>Candidate</dt><dd>{String(e.candidate)}</dd></>}
    {e.changeSet && <><dt>Change set</dt><dd>{plain(e.changeSet)}</dd></>}
    <dt>Who</dt><dd>{plain(e.identity) || <span class="faint">not known</span>} <span class="faint">as the registry found</span></dd>
    <dt>Author</dt><dd>{plain(e.author) || <span class="faint">none</span>} <span class="faint">as the request said</span></dd>
    <dt>From</dt><dd>{plain(e.peer)}</dd>
    {e.owner && <><dt>For the owner</dt><dd>{plain(e.owner)}</dd></>}
    {e.note && <><dt>Note</dt><dd><pre class="wrap">{plainLines(e.note)}</pre></dd></>}
  </dl>
);
