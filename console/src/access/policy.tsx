import { $, component$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import type { PolicySubject } from '~/gen/proto/registry/v1/registry_pb';
import { useRows, type Range } from '~/live/rows';
import { TextFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { TenantChooser } from '~/tenants/chooser';
import { count } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';
import { LongTable, rowIndex } from '~/ui/table';
import { Time } from '~/ui/time';
import { useWindow } from '~/ui/window';

const pause = 10_000;

/** Policy lists each subject's roles. The registry shows them to administrators only. */
export const Policy = component$<{ url: Signal<URL | undefined> }>(({ url }) => {
  const seen = useWindow();
  const { rows, found, failure } = useRows(
    url,
    seen,
    pause,
    $(async (at: URL, range: Range, signal: AbortSignal) => {
      const { subjects, total, noPolicy } = await registry().listGrants({ search: param(at, 'q'), tenant: param(at, 'tenant'), ...range }, { signal });
      return { rows: subjects, total, noPolicy };
    }),
  );
  const f = found.value;
  return (
    <section aria-labelledby="policy">
      <h2 id="policy">Who can do what</h2>
      <Problem failure={failure.value} />
      {f?.noPolicy && <p class="notice warn">The registry has no access policy: everybody who reaches it can do everything. Start it with a policy before others use it.</p>}
      {f && !f.noPolicy && (
        <div class="tools">
          <TextFilter label="Search" name="q" value={param(url.value, 'q')} placeholder="a name, role or tenant" />
          <TenantChooser value={param(url.value, 'tenant')} any="all tenants" />
          <span class="faint found" role="status">{count(f.total)} in the policy</span>
        </div>
      )}
      {f && !f.noPolicy && f.total === 0 && <p class="card empty">Nobody matches.</p>}
      {f && f.total > 0 && (
        <LongTable
          label="Who can do what"
          columns={4}
          seen={seen}
          total={f.total}
          head={<><th scope="col">Name</th><th scope="col">May</th><th scope="col">Known by</th><th scope="col" class="spare">Next to expire</th></>}
          row={(at) => {
            const subject = rows.value.get(at);
            return subject && <Row s={subject} at={at} />;
          }}
        />
      )}
    </section>
  );
});

const Row = ({ s, at }: { s: PolicySubject; at: number }) => (
  <tr key={s.name} aria-rowindex={rowIndex(at)}>
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
