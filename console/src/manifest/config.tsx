import { $, component$, useSignal } from '@builder.io/qwik';
import { changeSettings, settingsOf, useBench } from '~/editor/bench';
import { bytesOf, textOf } from '~/ui/bytes';
import { CodeEditor } from '~/editor/code';
import { pretty, problemOf } from '~/ui/json';

/** ConfigForm edits the config, which scripts read as config. */
export const ConfigForm = component$(() => {
  const bench = useBench();
  const problem = useSignal('');
  const { config } = settingsOf(bench.draft.value.request);
  const refused = bench.check.value.problems.find((p) => p.field.startsWith('settings.config'))?.message;
  return (
    <fieldset>
      <legend>Config</legend>
      <p class="faint">A JSON object. The script reads it as <code>config</code>, or as <code>data.config</code> in Rego.</p>
      <CodeEditor
        label="Config, in JSON"
        language="json"
        size="small"
        content={{ text: pretty(textOf(config) || '{}'), edition: bench.edition.value }}
        onEdit$={$((text: string) => {
          problem.value = problemOf(text);
          if (!problem.value) {
            changeSettings(bench, { config: bytesOf(text) });
          }
        })}
      />
      {(problem.value || refused) && <p class="error" role="alert">{problem.value ? `This is not JSON yet: ${problem.value}` : refused}</p>}
    </fieldset>
  );
});
