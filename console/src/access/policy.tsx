import { component$, type Signal } from '@builder.io/qwik';
import type { PolicySubject } from '~/gen/proto/registry/v1/registry_pb';
import { TextFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { TenantChooser } from '~/tenants/chooser';
import { count } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';
import { rowHeight } from '~/ui/rows';
import { Spacer } from '~/ui/spacer';
import { Time } from '~/ui/time';
import { useWindow } from '~/ui/window';
import { useSubjects } from './subjects';

const columns = 4;

/** Policy lists each subject's roles. The registry shows them to administrators only. */
export const Policy = component$<{ url: Signal<URL | undefined> }>(({ url }) => {
  const seen = useWindow(rowHeight);
  const { found, failure } = useSubjects(url, seen);
  const f = found.value;
  const first = f?.first ?? 0;
  return (
    <section aria-labelledby="policy">
      <h2 id="policy">Who may do what</h2>
      <Problem failure={failure.value} />
      {f?.noPolicy && <p class="notice warn">The registry has no access policy: everybody who reaches it may do everything. Start it with a policy before others use it.</p>}
      {f && !f.noPolicy && (
        <div class="tools">
          <TextFilter label="Search" name="q" value={param(url.value, 'q')} placeholder="a name, role or tenant" />
          <TenantChooser value={param(url.value, 'tenant')} any="all tenants" />
          <span class="faint found" role="status">{count(f.total)} in the policy</span>
        </div>
      )}
      {f && !f.noPolicy && f.total === 0 && <p class="card empty">Nobody matches.</p>}
      {f && f.total > 0 && (
        <div class="viewport windowed" ref={seen.viewport} onScroll$={seen.onScroll$} tabIndex={0} role="region" aria-label="Who may do what">
          <table aria-rowcount={f.total + 1}>
            <thead>
              <tr><th scope="col">Name</th><th scope="col">May</th><th scope="col">Known by</th><th scope="col" class="spare">Next to expire</th></tr>
            </thead>
            <tbody>
              <Spacer rows={first} height={seen.rowHeight} columns={columns} />
              {f.subjects.map((s, i) => <Row key={s.name} s={s} at={first + i} />)}
              <Spacer rows={f.total - first - f.subjects.length} height={seen.rowHeight} columns={columns} />
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
});

const Row = ({ s, at }: { s: PolicySubject; at: number }) => (
  <tr aria-rowindex={at + 2}>
    <td>{plain(s.name)}{s.agent && <> <span class="tag">agent</span></>}</td>
    <td class="clip" title={may(s)}>{may(s) || <span class="faint">nothing</span>}</td>
    <td>{knownBy(s)}{s.expiredTokens > 0 && <> <span class="tag warn">{s.expiredTokens} expired</span></>}</td>
    <td class="spare">{s.nextExpiry ? <Time at={s.nextExpiry} /> : <span class="faint">never</span>}</td>
  </tr>
);

const may = (s: PolicySubject): string =>
  plain(s.grants.map((g) => `${g.roles.join(', ')} for ${g.tenants.length > 0 ? g.tenants.join(', ') : 'all tenants'}`).join('; '));

function knownBy(s: PolicySubject): string {
  const kinds: [number, string, string][] = [
    [s.certificates, 'certificate', 'certificates'],
    [s.tokens, 'token', 'tokens'],
    [s.jwts, 'JSON Web Token', 'JSON Web Tokens'],
    [s.users, 'local user', 'local users'],
  ];
  return kinds.filter(([n]) => n > 0).map(([n, one, many]) => `${n} ${n === 1 ? one : many}`).join(', ');
}
