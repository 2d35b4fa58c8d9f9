const tokens = /"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/**
 * pretty puts JSON on lines that people can read. It keeps each number and text as it is written: a number may have more digits than the
 * numbers of JavaScript. Text that is not JSON comes back as it is.
 */
export function pretty(text: string): string {
  if (!isJSON(text)) {
    return text;
  }
  let out = '';
  let depth = 0;
  const all = text.match(tokens) ?? [];
  const newline = () => `\n${'  '.repeat(depth)}`;
  all.forEach((token, i) => {
    const next = all[i + 1];
    if (token === '{' || token === '[') {
      if (next === '}' || next === ']') {
        out += token;
        return;
      }
      depth++;
      out += token + newline();
    } else if (token === '}' || token === ']') {
      const before = all[i - 1];
      if (before === '{' || before === '[') {
        out += token;
        return;
      }
      depth--;
      out += newline() + token;
    } else {
      out += token === ',' ? `,${newline()}` : token === ':' ? ': ' : token;
    }
  });
  return out;
}

export function isJSON(text: string): boolean {
  return problemOf(text) === '';
}

/** problemOf says why text is not JSON; empty if it is. */
export function problemOf(text: string): string {
  try {
    JSON.parse(text);
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
