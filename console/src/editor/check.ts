import { useVisibleTask$ } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import type { PublishRequest } from '~/gen/proto/registry/v1/registry_pb';
import type { Bench } from './bench';
import type { Problem } from './problem';

/** Check is the registry's opinion of the draft. */
export interface Check {
  state: 'waiting' | 'checking' | 'done' | 'failed';
  problems: Problem[];
  /** Why there is no result: the person is not allowed to publish, or the registry does not answer. */
  failure: Failure | undefined;
}

export const unchecked: Check = { state: 'waiting', problems: [], failure: undefined };

/** blamesDraft has the kinds of errors that are faults of the draft. */
const blamesDraft = new Set(['INVALID', 'SCRIPT', 'LIMIT']);

/** check asks the registry to validate a publish. It names the script's owner, so that ownership is not reported as a problem. */
async function check(request: PublishRequest, owner: string, signal: AbortSignal): Promise<Check> {
  try {
    const { warnings } = await registry().publish({ ...request, author: 'draft', owner, expectedRevision: 0n, dryRun: true }, { signal });
    return { state: 'done', failure: undefined, problems: warnings.map((message) => ({ severity: 'warning', message, field: '', line: 0, column: 0 })) };
  } catch (error) {
    const failure = failureOf(error);
    if (!blamesDraft.has(failure.kind)) {
      return { state: 'failed', problems: [], failure };
    }
    const { message, field, line, column } = failure;
    return { state: 'done', failure: undefined, problems: [{ severity: 'error', message, field, line, column }] };
  }
}

/** The registry checks the draft after this many milliseconds without a change. */
const pause = 500;

/** useChecks keeps the check of the bench up to date. */
export function useChecks(bench: Bench): void {
  useVisibleTask$(
    ({ track, cleanup }) => {
      const { request } = track(() => bench.draft.value);
      // Without the right to publish, every check would fail: the first failure stays on the page.
      if (bench.check.value.failure?.kind === 'DENIED') {
        return;
      }
      if (bench.check.value.state === 'done') {
        bench.check.value = { ...bench.check.value, state: 'waiting' }; // The problems stay until the registry answers.
      }
      const abort = new AbortController();
      const timer = setTimeout(async () => {
        bench.check.value = { ...bench.check.value, state: 'checking' };
        const answer = await check(request, bench.owner.value, abort.signal);
        if (!abort.signal.aborted) {
          bench.check.value = answer;
        }
      }, pause);
      cleanup(() => {
        clearTimeout(timer);
        abort.abort();
      });
    },
    { strategy: 'document-ready' },
  );
}
