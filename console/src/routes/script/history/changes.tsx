import { component$ } from '@builder.io/qwik';
import type { HistoryEntry } from '~/gen/proto/script/v1/script_pb';
import { By } from '~/release/by';
import { changeText } from '~/release/change';
import { Time } from '~/ui/time';

/** Changes lists the history of the script, newest first. */
export const Changes = component$(({ history }: { history: HistoryEntry[] }) => (
  <section aria-labelledby="changes">
    <h2 id="changes">Changes</h2>
    <div class="viewport short" role="region" aria-label="Changes" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th><th scope="col">Change</th><th scope="col">Runs</th><th scope="col">Candidate</th><th scope="col">By</th><th scope="col">Why</th>
          </tr>
        </thead>
        <tbody>
          {history.map((e) => (
            <tr key={String(e.revision)}>
              <td><Time at={e.time} /></td>
              <td>{changeText(e)}{e.held && <> <span class="tag warn">held</span></>}</td>
              <td>{e.version ? `version ${e.version}` : ''}</td>
              <td>{e.candidate ? `version ${e.candidate}` : ''}</td>
              <td><By entry={e} /></td>
              <td class="wrap">
                {e.note}
                {e.changeSet && <span class="faint"> change set {e.changeSet}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </section>
));
