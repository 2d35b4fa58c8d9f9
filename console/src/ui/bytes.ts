const encoder = new TextEncoder();
const decoder = new TextDecoder();
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export const bytesOf = (text: string): Uint8Array<ArrayBuffer> => encoder.encode(text);

/** textOf replaces what is not UTF-8. */
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes);

/** plainTextOf returns undefined for binary bytes: for bytes that are not UTF-8, or have a NUL. */
export function plainTextOf(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) {
    return undefined;
  }
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && a.every((v, i) => v === b[i]);

export const hex = (bytes: Uint8Array): string => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
