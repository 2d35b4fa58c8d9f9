import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import { type Bench } from '~/editor/bench';
import { hasAny, placesOf } from '~/editor/unfinished';
import { bytesOf } from '~/ui/bytes';
import type { TryResponse } from '~/gen/proto/registry/v1/registry_pb';
import type { Error as ScriptError } from '~/gen/proto/script/v1/script_pb';

/** Outcome is the result of trying a draft. */
export interface Outcome {
  response: TryResponse | undefined;
  /** The registry refused, or no agent answered. */
  failure: Failure | undefined;
  /** The request of the call, if it was one. */
  json: string | undefined;
}

/** tryDraft runs the draft on an agent, with one call or with its tests. It marks the line that failed. */
export async function tryDraft(bench: Bench, json: string | undefined): Promise<Outcome> {
  const { tenant, name, source, engine, entrypoint, settings } = bench.draft.value.request;
  if (hasAny(bench.unfinished.value)) {
    return { response: undefined, failure: failureOf(new Error(`The draft does not have the text of ${placesOf(bench.unfinished.value)} yet. Finish it, then run.`)), json };
  }
  const calls = json === undefined ? [] : [{ args: [bytesOf(json)] }];
  try {
    const response = await registry().try({ tenant, name, source, engine, settings, calls, tests: json === undefined, ...(entrypoint === undefined ? {} : { entrypoint }) });
    const error = whyNot(response) ?? response.calls[0]?.error;
    bench.mark.value = error && error.line > 0 ? { line: error.line, message: error.message } : undefined;
    return { response, failure: undefined, json };
  } catch (e) {
    bench.mark.value = undefined;
    return { response: undefined, failure: failureOf(e), json };
  }
}

/** whyNot is why no call ran. */
export const whyNot = (r: TryResponse): ScriptError | undefined => r.error ?? r.run?.compileError;
