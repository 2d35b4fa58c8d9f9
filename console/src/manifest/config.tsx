import { $, component$ } from '@builder.io/qwik';
import { changeSettings, settingsOf, useBench } from '~/editor/bench';
import { bytesOf, textOf } from '~/ui/bytes';
import { CodeEditor } from '~/editor/code';
import { put } from '~/editor/unfinished';
import { pretty, problemOf } from '~/ui/json';

const place = 'Config';

/** ConfigForm edits the config, which scripts read as config. */
export const ConfigForm = component$(() => {
  const bench = useBench();
  const typed = bench.unfinished.value[place];
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
        content={{ text: typed?.text ?? pretty(textOf(config) || '{}'), edition: bench.edition.value }}
        onEdit$={$((text: string) => {
          const problem = problemOf(text);
          put(bench.unfinished, place, problem ? { text, problem } : undefined);
          if (!problem) {
            changeSettings(bench, { config: bytesOf(text) });
          }
        })}
      />
      {(typed || refused) && <p class="error" role="alert">{typed ? `This is not JSON yet: ${typed.problem}` : refused}</p>}
    </fieldset>
  );
});
