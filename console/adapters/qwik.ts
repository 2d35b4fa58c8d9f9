import { readFileSync } from 'node:fs';
import type { Plugin } from 'vite';

/** A fault of Qwik 1.20.1, and what the code becomes. */
interface Fix {
  from: string;
  to: string;
}

/**
 * Both faults leave on the page what is not true any more.
 *
 * The first one: a component inside of `rows.map((row) => <Time at={row.at} />)` never gets another time. Qwik takes members of
 * a variable for values that do not change, unless the variable is a signal or a store.
 *
 * The second one: of `<p>{said.value}{more && <b/>}</p>` the text stays as it is once its component has been rendered again for
 * another reason. Qwik drops the subscription of the text then, and does not add it anew.
 */
const fixes: Fix[] = [
  { from: 'return isSignal(immutable) ? immutable : _IMMUTABLE;', to: 'return isSignal(immutable) ? immutable : target ? _IMMUTABLE : undefined;' },
  { from: 'return r === _IMMUTABLE ? obj[prop] : r;', to: 'return r === _IMMUTABLE || r === undefined ? obj[prop] : r;' },
  {
    from: 'if ("#signal" === tag) {\n        return;\n    }',
    to:
      'if ("#signal" === tag) {\n        const value = trackSignal(newVnode.$signal$, [ 4, currentComponent.$element$, newVnode.$signal$, elm ]);\n' +
      '        if (elm.nodeType === 3 && !isJSXNode(value) && !isArray(value)) {\n            setProperty(staticCtx, elm, "data", jsxToString(value));\n        }\n        return;\n    }',
  },
];

/**
 * fixQwik changes Qwik as it is bundled: its readable edition, also where the minified one was asked for. It fails if Qwik is not
 * as it was, so that whoever updates it looks whether the faults are gone.
 */
export function fixQwik(): Plugin {
  return {
    name: 'fix-qwik',
    enforce: 'pre',
    load(id) {
      const readable = /^(.*@builder\.io\/qwik\/dist\/core\.)(?:min|prod)\.mjs$/.exec(id);
      return readable ? fixes.reduce(applied, readFileSync(`${readable[1]}prod.mjs`, 'utf8')) : null;
    },
  };
}

function applied(code: string, { from, to }: Fix): string {
  if (code.split(from).length !== 2) {
    throw new Error(`Qwik changed: adapters/qwik.ts looks for ${JSON.stringify(from)}. Find out whether the fault is still there.`);
  }
  return code.replace(from, () => to);
}
