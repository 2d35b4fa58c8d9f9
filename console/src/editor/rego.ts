import type { StreamParser, StringStream } from '@codemirror/language';

const keywords = new Set(['as', 'contains', 'default', 'else', 'every', 'if', 'import', 'in', 'not', 'package', 'some', 'with']);
const atoms = new Set(['true', 'false', 'null']);
const roots = new Set(['input', 'data']);

interface State {
  /** In a string between backquotes, which can have many lines. */
  raw: boolean;
}

/** rego colours policies. */
export const rego: StreamParser<State> = {
  name: 'rego',
  startState: () => ({ raw: false }),
  token(stream, state) {
    if (state.raw) {
      return raw(stream, state);
    }
    if (stream.eatSpace()) {
      return null;
    }
    if (stream.eat('#')) {
      stream.skipToEnd();
      return 'comment';
    }
    if (stream.eat('`')) {
      return raw(stream, state);
    }
    if (stream.match(/^"(?:\\.|[^"\\])*"?/)) {
      return 'string';
    }
    if (stream.match(/^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/)) {
      return 'number';
    }
    if (stream.match(/^[A-Za-z_]\w*/)) {
      return word(stream.current());
    }
    stream.next();
    return /[:=<>!|&+\-*/%]/.test(stream.current()) ? 'operator' : null;
  },
  languageData: { commentTokens: { line: '#' }, closeBrackets: { brackets: ['(', '[', '{', '"', '`'] } },
};

function raw(stream: StringStream, state: State): string {
  state.raw = true;
  while (!stream.eol()) {
    if (stream.next() === '`') {
      state.raw = false;
      break;
    }
  }
  return 'string';
}

function word(text: string): string | null {
  if (keywords.has(text)) {
    return 'keyword';
  }
  return atoms.has(text) ? 'atom' : roots.has(text) ? 'builtin' : 'variable';
}
