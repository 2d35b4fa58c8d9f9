/** save downloads a file that the page made. Nothing goes to a server. */
export function save(name: string, type: string, parts: BlobPart[]): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has started to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** fileTime is the present time for the name of a file. */
export const fileTime = (): string => new Date().toISOString().slice(0, 19).replaceAll(':', '');
