import { $, component$, useSignal } from '@builder.io/qwik';
import { create } from '@bufbuild/protobuf';
import { changeSettings, settingsOf, useBench } from '~/editor/bench';
import { yaml } from '~/editor/unfinished';
import { bytesOf, textOf } from '~/ui/bytes';
import type { TryResult } from '~/gen/proto/event/v1/try_pb';
import { TestSchema } from '~/gen/proto/script/v1/script_pb';
import { freeName } from '~/manifest/tests';
import { fieldsOf } from '~/ui/form';

const testable = new Set(['SCRIPT', 'LIMIT', 'TIMEOUT']);

/** SaveAsTest adds a call and its result to the tests of the draft. */
export const SaveAsTest = component$(({ json, result }: { json: string; result: TryResult }) => {
  const bench = useBench();
  const saved = useSignal('');
  const save = $((_: Event, form: HTMLFormElement) => {
    const { tests } = settingsOf(bench.draft.value.request);
    const free = freeName(tests, fieldsOf(form).name || 'test');
    const expect = result.results[0] ?? new Uint8Array();
    const isNull = textOf(expect) === 'null';
    changeSettings(bench, {
      tests: [...tests, create(TestSchema, { name: free, request: bytesOf(json), ...(result.error ? { error: result.error.kind } : { expect: isNull ? new Uint8Array() : expect }) })],
    });
    saved.value = free;
    form.reset();
  });
  if (yaml in bench.unfinished.value) {
    return <p class="faint">You can save it as a test once the YAML has no problems.</p>;
  }
  if (result.truncated || (result.error && !testable.has(result.error.kind))) {
    return null;
  }
  return (
    <form class="tools" preventdefault:submit onSubmit$={save}>
      <label>Name of the test <input name="name" maxLength={128} placeholder="test" autocomplete="off" /></label>
      <button type="submit">Save as test</button>
      {saved.value && <span role="status">{saved.value} is among the tests of the draft.</span>}
    </form>
  );
});
