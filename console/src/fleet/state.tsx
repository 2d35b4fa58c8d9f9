import type { AgentStatus } from '~/gen/proto/registry/v1/registry_pb';
import { duration } from '~/ui/number';

/** Tags are the problems of an agent, or "current". */
export const Tags = ({ agent: a }: { agent: AgentStatus }) => {
  if (a.foreignFleet) {
    return <span class="tag bad">of another fleet</span>;
  }
  const wrong = [
    a.unknown && <span key="unknown" class="tag bad">unknown for {duration(a.unheardFor)}</span>,
    a.behind > 0 && <span key="behind" class="tag warn">{a.behind} behind</span>,
    a.failed > 0 && <span key="failed" class="tag bad">{a.failed} failed</span>,
    a.quarantined > 0 && <span key="quarantined" class="tag bad">{a.quarantined} in quarantine</span>,
    a.held && <span key="held" class="tag warn">holds removals</span>,
    a.disk?.fault && <span key="disk" class="tag bad">disk</span>,
    a.laggingTenants > 0 && <span key="lagging" class="tag warn">{a.laggingTenants} tenants lag</span>,
  ].filter(Boolean);
  return wrong.length > 0 ? <>{wrong}</> : <span class="tag good">current</span>;
};
