import { $, component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { manifests } from '~/api/client';
import { failureOf, placeOf, text as textOf } from '~/api/failure';
import { isNew, replace, useBench, type Bench } from '~/editor/bench';
import { CodeEditor, type Content } from '~/editor/code';
import type { Problem } from '~/editor/problem';
import { put, yaml } from '~/editor/unfinished';
import type { PublishRequest } from '~/gen/proto/registry/v1/registry_pb';

const pause = 300;

/** YamlView edits the draft as a manifest for scriptctl or a cluster, without the source. */
export const YamlView = component$(() => {
  const bench = useBench();
  const content = useSignal<Content>({ text: '', edition: 0 });
  const problems = useSignal<Problem[]>([]);
  const failure = useSignal('');
  const typed = useSignal<string>();
  // The request that the YAML describes.
  const own = useSignal<PublishRequest>();

  useVisibleTask$(
    async ({ track }) => {
      // Another part of the page can change the draft: the person saves a test, or loads the newest version.
      const { request } = track(() => bench.draft.value);
      if (request === own.value) {
        return;
      }
      const broken = bench.unfinished.value[yaml]?.text;
      try {
        const text = broken ?? (await format(bench, request));
        if (request !== bench.draft.value.request || broken !== bench.unfinished.value[yaml]?.text) {
          return; // The draft changed meanwhile, or the person types: that is newer.
        }
        content.value = { text, edition: content.value.edition + 1 };
        own.value = request;
        typed.value = broken;
      } catch (error) {
        failure.value = textOf(failureOf(error));
      }
    },
    { strategy: 'document-ready' },
  );

  useVisibleTask$(
    ({ track, cleanup }) => {
      const now = track(() => typed.value);
      if (now === undefined) {
        problems.value = [];
        return;
      }
      const abort = new AbortController();
      const timer = setTimeout(async () => {
        try {
          problems.value = await parse(bench, now, abort.signal);
          own.value = problems.value.length === 0 ? bench.draft.value.request : own.value;
          failure.value = '';
        } catch (error) {
          const f = failureOf(error);
          failure.value = f.canceled ? failure.value : textOf(f);
        }
      }, pause);
      cleanup(() => {
        clearTimeout(timer);
        abort.abort();
      });
    },
    { strategy: 'document-ready' },
  );

  return (
    <>
      {failure.value && <p class="error" role="alert">{failure.value}</p>}
      {content.value.edition > 0 && (
        <CodeEditor
          label="Manifest, in YAML, without the source"
          language="yaml"
          content={content.value}
          problems={problems.value}
          onEdit$={$((now: string) => {
            // The forms are disabled until the console has parsed it.
            put(bench.unfinished, yaml, { text: now, problem: '' });
            typed.value = now;
          })}
        />
      )}
      <p class="faint hint">The source has its own tab. <kbd>Esc</kbd>, then <kbd>Tab</kbd>, leaves the editor.</p>
      <ul class="problems" aria-label="Problems of the YAML">
        {problems.value.map((p, i) => (
          <li key={i}>
            <span class="tag bad">error</span> {placeOf(p)}{textOf(p)}
          </li>
        ))}
      </ul>
    </>
  );
});

/** format writes the draft, and keeps the comments and the order of the YAML that somebody wrote before. */
async function format(bench: Bench, request: PublishRequest): Promise<string> {
  const { text } = await manifests().format({ script: request, owner: bench.owner.value, withoutSource: true, previous: bench.written.value });
  bench.written.value = text;
  return text;
}

/** parse makes YAML the draft if nothing is wrong with it, and returns what is. */
async function parse(bench: Bench, text: string, signal: AbortSignal): Promise<Problem[]> {
  const { source } = bench.draft.value.request;
  const answer = await manifests().parse({ text, source }, { signal });
  const problems: Problem[] = answer.problems.map(({ message, field, line, column }) => ({ severity: 'error', message, field, line, column }));
  const { script } = answer;
  if (script && problems.length === 0) {
    const moved = movedTo(bench, script);
    if (moved) {
      return [moved];
    }
    put(bench.unfinished, yaml);
    bench.written.value = text;
    const { tenant, name, engine, entrypoint, settings, enabled, pin, signature } = script;
    replace(bench, { ...bench.draft.value.request, tenant, name, engine, settings, signature, ...{ entrypoint, enabled, pin } } as PublishRequest);
  }
  return problems;
}

/** movedTo refuses to make another script of this one. */
function movedTo(bench: Bench, { tenant, name }: PublishRequest): Problem | undefined {
  const { request } = bench.draft.value;
  if (isNew(bench.draft.value) || (tenant === request.tenant && name === request.name)) {
    return undefined;
  }
  return { severity: 'error', field: 'metadata.name', message: `This page is about ${request.tenant}/${request.name}. Write a new script to have another name.`, line: 0, column: 0 };
}
