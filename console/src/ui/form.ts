/**
 * fieldsOf reads a form. Qwik loads handlers when they are first needed, so the handler of the last key can run after
 * the handler that submits. The elements themselves are always up to date.
 */
export function fieldsOf(form: HTMLFormElement): Record<string, string> {
  const fields: Record<string, string> = {};
  new FormData(form).forEach((value, name) => {
    fields[name] = typeof value === 'string' ? value.trim() : '';
  });
  return fields;
}

/** listOf reads texts with commas or spaces between. */
export const listOf = (text: string): string[] => text.split(/[\s,]+/).filter((t) => t !== '');
