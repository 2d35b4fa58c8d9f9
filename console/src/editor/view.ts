import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, indentOnInput, indentUnit, StreamLanguage } from '@codemirror/language';
import { lua } from '@codemirror/legacy-modes/mode/lua';
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { EditorState, Prec, type Extension, type Text } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { bytesOf, textOf } from '~/ui/bytes';
import { luaCompletion, regoCompletion, type Config } from './complete';
import { marks, showMark, type Mark } from './mark';
import type { Place, Problem } from './problem';
import { rego } from './rego';
import { theme } from './theme';

export type Language = 'lua' | 'rego' | 'json' | 'yaml' | 'text';

interface Options {
  text: string;
  language: Language;
  label: string;
  readOnly: boolean;
  onEdit: (text: string) => void;
  config: Config;
}

/** Code is an editor in the page. */
export interface Code {
  replace(text: string): void;
  problems(list: Problem[]): void;
  mark(mark: Mark | undefined): void;
  goTo(place: Place): void;
  destroy(): void;
}

const pause = 100;

/**
 * openCode puts an editor into host. Its shadow root lets the browser take its styles as adopted sheets: the
 * policy of the page allows no others.
 */
export function openCode(host: HTMLElement, o: Options): Code {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const edits = new Edits(o.onEdit);
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({ doc: o.text, extensions: [extensions(o), edits.extension()] }),
  });
  return {
    replace(text) {
      if (view.state.doc.toString() !== text) {
        edits.quietly(() => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }));
      }
    },
    problems: (list) => view.dispatch(setDiagnostics(view.state, list.filter((p) => p.line > 0).map((p) => diagnostic(view.state.doc, p)))),
    mark: (mark) => showMark(view, mark),
    goTo: (place) =>
      whenShown(() => {
        const at = offset(view.state.doc, place);
        view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) });
        view.focus();
      }),
    destroy() {
      edits.flush(view);
      view.destroy();
    },
  };
}

/** Edits reports the first change at once, and later ones after short pauses: a source can be large. */
class Edits {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private untold = false;
  private quiet = false;

  constructor(private readonly onEdit: (text: string) => void) {}

  quietly(replace: () => void): void {
    this.untold = false;
    this.quiet = true;
    replace();
    this.quiet = false;
  }

  /** flush reports a change that is still waiting. */
  flush(view: EditorView): void {
    if (this.untold) {
      this.untold = false;
      this.onEdit(view.state.doc.toString());
    }
  }

  private changed(view: EditorView): void {
    this.untold = true;
    if (this.timer === undefined) {
      this.flush(view);
      this.timer = setTimeout(() => {
        this.timer = undefined;
        if (this.untold) {
          this.changed(view);
        }
      }, pause);
    }
  }

  extension(): Extension {
    const now = (view: EditorView) => {
      this.flush(view);
      return true;
    };
    return [
      // The page handles these keys. The editor only reports what was typed, before the page uses it.
      Prec.highest(keymap.of([{ key: 'Mod-Enter', run: now }, { key: 'Mod-s', run: now }])),
      EditorView.updateListener.of((update) => {
        if (update.docChanged && !this.quiet) {
          this.changed(update.view);
        }
      }),
      EditorView.domEventHandlers({ blur: (_, view) => void this.flush(view) }),
    ];
  }
}

function extensions(o: Options): Extension {
  const completion = completionOf(o);
  return [
    lineNumbers(),
    lintGutter(),
    marks,
    overwrite,
    highlightSpecialChars(),
    history(),
    drawSelection(),
    EditorState.tabSize.of(2),
    indentUnit.of('  '),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    highlightSelectionMatches(),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ 'aria-label': o.label, tabindex: '0' }),
    EditorState.readOnly.of(o.readOnly),
    languageOf(o.language),
    completion ? autocompletion({ override: [completion], icons: false }) : [],
    // Tab indents. CodeMirror lets Escape and then Tab leave the editor.
    keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap, indentWithTab]),
    theme,
  ];
}

/**
 * overwrite handles text that is typed over a selection. Otherwise Chrome changes the page itself, and keeps the old look with
 * inline styles, which the policy of the page refuses.
 */
const overwrite = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const text = event.data;
    const { from, to } = view.state.selection.main;
    if (event.inputType !== 'insertText' || !text || from === to || view.composing || view.state.readOnly) {
      return false;
    }
    const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: 'input.type', scrollIntoView: true });
    if (!view.state.facet(EditorView.inputHandler).some((take) => take(view, from, to, text, insert))) {
      view.dispatch(insert());
    }
    return true;
  },
});

/** whenShown waits until the page has rendered: an editor in a hidden tab takes no focus. */
const whenShown = (go: () => void) => requestAnimationFrame(() => requestAnimationFrame(go));

function languageOf(language: Language): Extension {
  switch (language) {
    case 'lua':
      return StreamLanguage.define(lua);
    case 'rego':
      return StreamLanguage.define(rego);
    case 'json':
      return json();
    case 'yaml':
      return yaml();
    case 'text':
      return [];
  }
}

function completionOf(o: Options): CompletionSource | undefined {
  return o.language === 'lua' ? luaCompletion(o.config) : o.language === 'rego' ? regoCompletion(o.config) : undefined;
}

function diagnostic(doc: Text, p: Problem): Diagnostic {
  const from = offset(doc, p);
  const line = doc.lineAt(from);
  const [word = ''] = /^\w+|^\S/.exec(line.text.slice(from - line.from)) ?? [];
  // Without a column the whole line is meant.
  const to = p.column > 0 ? Math.max(from + word.length, from) : line.to;
  return { from: p.column > 0 ? from : line.from, to, severity: p.severity, message: p.message };
}

/** offset is the place in doc, or the nearest that there is. Columns count bytes, as compilers do. */
function offset(doc: Text, place: Place): number {
  const line = doc.line(Math.min(Math.max(place.line, 1), doc.lines));
  const bytes = bytesOf(line.text).subarray(0, Math.max(place.column - 1, 0));
  return line.from + Math.min(textOf(bytes).length, line.length);
}
