/**
 * fieldsOf reads what the form has. Handlers are loaded when they are first needed, so the one of the last key may run after
 * the one that submits: the elements themselves are never behind.
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
