import { $, component$, useSignal, useTask$ } from '@builder.io/qwik';
import { bytes } from '~/ui/number';
import { change, changeSettings, settingsOf, useBench } from './bench';
import { bytesOf, hex, textOf } from '~/ui/bytes';
import { CodeEditor } from './code';
import type { Language } from './view';

/** SourceView edits the source of the draft: text, a file, or the name of an artifact. */
export const SourceView = component$(() => {
  const bench = useBench();
  const { request } = bench.draft.value;
  const settings = settingsOf(request);
  if (settings.artifact) {
    return <ArtifactView />;
  }
  return isBinary(request.engine, request.source) ? <FileView /> : <TextView />;
});

const TextView = component$(() => {
  const bench = useBench();
  const { request } = bench.draft.value;
  return (
    <>
      <CodeEditor
        key={request.engine}
        label={`Source of ${request.tenant}/${request.name}`}
        language={languageOf(request.engine)}
        content={{ text: textOf(request.source), edition: bench.edition.value }}
        problems={bench.check.value.problems}
        mark={bench.mark.value}
        place={bench.place.value}
        config={textOf(settingsOf(request).config)}
        onEdit$={$((text: string) => change(bench, { source: bytesOf(text) }))}
      />
      <p class="faint hint">
        <kbd>Ctrl Space</kbd> completes. <kbd>Tab</kbd> indents: press <kbd>Esc</kbd>, then <kbd>Tab</kbd>, to leave the editor.
      </p>
    </>
  );
});

/** FileView is for modules and bundles, which are not text. */
const FileView = component$(() => {
  const bench = useBench();
  const { request } = bench.draft.value;
  const digest = useSignal('');
  const error = useSignal('');

  useTask$(({ track }) => {
    const { source } = track(() => bench.draft.value).request;
    void crypto.subtle.digest('SHA-256', new Uint8Array(source)).then((d) => (digest.value = hex(new Uint8Array(d))));
  });
  const take = $(async (_: Event, input: HTMLInputElement) => {
    const file = input.files?.[0];
    if (!file) {
      return;
    }
    error.value = file.size > largest ? `${file.name} has ${bytes(file.size)}: at most ${bytes(largest)} are possible.` : '';
    if (!error.value) {
      change(bench, { source: new Uint8Array(await file.arrayBuffer()) });
    }
    input.value = '';
  });

  return (
    <div class="card">
      <h2>{request.engine === 'wasm' ? 'A WebAssembly module' : 'A bundle'}</h2>
      {request.source.length === 0 ? (
        <p>Build a module, and choose its file here. The page WebAssembly of the documentation describes what it exports.</p>
      ) : (
        <dl class="facts">
          <dt>Size</dt><dd>{bytes(request.source.length)}</dd>
          <dt>SHA-256</dt><dd class="mono">{digest.value}</dd>
        </dl>
      )}
      <label class="field">
        {request.source.length === 0 ? 'File' : 'Replace by a file'}
        <input type="file" accept={request.engine === 'wasm' ? '.wasm,application/wasm' : '.gz,.tgz'} onChange$={take} />
      </label>
      {error.value && <p class="error" role="alert">{error.value}</p>}
    </div>
  );
});

const largest = 4 << 20;

/** ArtifactView edits the reference from which the registry fetches the source. */
const ArtifactView = component$(() => {
  const bench = useBench();
  const settings = settingsOf(bench.draft.value.request);
  return (
    <div class="card">
      <h2>An artifact</h2>
      <p>The registry fetches the source of this script from a registry of images. Publish another digest to change it.</p>
      <label class="field">
        Artifact
        <input class="mono" value={settings.artifact} onChange$={(_, input) => changeSettings(bench, { artifact: input.value.trim() })} spellcheck={false} autocomplete="off" />
      </label>
    </div>
  );
});

const languageOf = (engine: string): Language => (engine === 'rego' ? 'rego' : 'lua');

/** isBinary reports a module, or a bundle of policies, which is gzip. */
const isBinary = (engine: string, source: Uint8Array): boolean => engine === 'wasm' || (source[0] === 0x1f && source[1] === 0x8b);
