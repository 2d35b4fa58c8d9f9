import { $, component$, useContextProvider, useSignal, type QRL } from '@builder.io/qwik';
import { create } from '@bufbuild/protobuf';
import { changeSettings, settingsOf, useBench, type Bench } from '~/editor/bench';
import { shift } from '~/editor/unfinished';
import { bytesOf, textOf } from '~/ui/bytes';
import { pretty, problemOf } from '~/ui/json';
import { TestSchema, type Test } from '~/gen/proto/script/v1/script_pb';
import { Field, PlaceContext, SelectField } from './field';
import { FormGuard } from './guard';

/** TestsForm edits the calls that a new version must answer rightly before it goes live. */
export const TestsForm = component$(() => {
  const bench = useBench();
  const removed = useSignal<{ test: Test; at: number }>();
  const { tests, library } = settingsOf(bench.draft.value.request);
  if (library) {
    return <p class="notice">A library has no tests: test the scripts that require it.</p>;
  }
  return (
    <FormGuard>
      {tests.length === 0 && (
        <div class="card empty">
          <h2>There are no tests yet</h2>
          <p>Agents run the tests of a new version before it goes live. Try the script, and save a result that is right as a test.</p>
        </div>
      )}
      {tests.map((t, i) => (
        <TestForm
          key={i}
          test={t}
          at={i}
          onRemove$={$(() => {
            const { tests } = settingsOf(bench.draft.value.request); // newer than what the page shows
            removed.value = { test: tests[i] ?? t, at: i };
            changeSettings(bench, { tests: tests.toSpliced(i, 1) });
            bench.unfinished.value = shift(bench.unfinished.value, 'Test', i, -1);
          })}
        />
      ))}
      <div class="tools">
        <button type="button" onClick$={() => add(bench)}>Add a test</button>
        {removed.value && (
          <span role="status">
            The test {removed.value.test.name} is removed.{' '}
            <button
              type="button"
              class="link"
              onClick$={() => {
                const { test, at } = removed.value!;
                changeSettings(bench, { tests: settingsOf(bench.draft.value.request).tests.toSpliced(at, 0, test) });
                bench.unfinished.value = shift(bench.unfinished.value, 'Test', at, 1);
                removed.value = undefined;
              }}
            >
              Undo
            </button>
          </span>
        )}
      </div>
    </FormGuard>
  );
});

const outcomes = [
  { value: '', title: 'a result' },
  { value: 'SCRIPT', title: 'the error SCRIPT' },
  { value: 'LIMIT', title: 'the error LIMIT' },
  { value: 'TIMEOUT', title: 'the error TIMEOUT' },
];

interface TestProps {
  test: Test;
  at: number;
  onRemove$: QRL<() => void>;
}

const TestForm = component$<TestProps>(({ test, at, onRemove$ }) => {
  const bench = useBench();
  useContextProvider(PlaceContext, { prefix: `Test ${at + 1}: ` });
  return (
    <fieldset>
      <legend>Test {at + 1}</legend>
      <Field label="Name" value={test.name} take$={$((text: string) => (text.trim() === '' ? 'A test needs a name.' : set(bench, at, { name: text.trim() })))} />
      <div class="fields">
        <Field label="Request, in JSON" value={pretty(textOf(test.request) || '{}')} mono rows={6} take$={$((text: string) => takeJSON(text, (request) => set(bench, at, { request })))} />
        <div>
          <SelectField label="It must end with" value={test.error} options={outcomes} take$={$((error: string) => set(bench, at, error ? { error, expect: new Uint8Array() } : { error }))} />
          {!test.error && (
            <Field
              label="Expected result, in JSON"
              value={pretty(textOf(test.expect))}
              mono
              rows={4}
              placeholder="anything"
              hint="Other members of the result do not matter. null means that a member must be absent."
              take$={$((text: string) => (text.trim() === '' ? set(bench, at, { expect: new Uint8Array() }) : takeJSON(text, (expect) => set(bench, at, { expect }))))}
            />
          )}
        </div>
      </div>
      <button type="button" class="danger" onClick$={onRemove$} aria-label={`Remove the test ${test.name}`}>Remove</button>
    </fieldset>
  );
});

function add(bench: Bench): void {
  const { tests } = settingsOf(bench.draft.value.request);
  changeSettings(bench, { tests: [...tests, create(TestSchema, { name: freeName(tests), request: bytesOf('{}') })] });
}

function set(bench: Bench, at: number, part: Partial<Test>): undefined {
  const { tests } = settingsOf(bench.draft.value.request);
  changeSettings(bench, { tests: tests.map((t, i) => (i === at ? { ...t, ...part } : t)) });
  return undefined;
}

function takeJSON(text: string, take: (value: Uint8Array<ArrayBuffer>) => void): string | undefined {
  const problem = problemOf(text);
  if (problem) {
    return `This is not JSON yet: ${problem}`;
  }
  take(bytesOf(text.trim()));
  return undefined;
}

/** freeName is a name that no test has yet. */
export function freeName(tests: Test[], wish = 'test'): string {
  const names = new Set(tests.map((t) => t.name));
  for (let i = 1; ; i++) {
    const name = i === 1 ? wish : `${wish} ${i}`;
    if (!names.has(name)) {
      return name;
    }
  }
}
