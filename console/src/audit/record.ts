import type { AuditEntry } from '~/gen/proto/script/v1/script_pb';
import { hex } from '~/ui/bytes';
import { milliseconds } from '~/ui/time';

/** The members match `scriptctl audit -o json`, in the same order. */
export function recordOf(e: AuditEntry): Record<string, string | number | boolean> {
  const time = milliseconds(e.time);
  return {
    revision: Number(e.revision),
    ...(time === undefined ? {} : { time: new Date(time).toISOString() }),
    tenant: e.tenant,
    script: e.name && `${e.tenant}/${e.name}`,
    ...(e.key ? { key: e.key } : {}),
    change: e.change,
    version: Number(e.version),
    digest: hex(e.digest),
    ...(e.candidate > 0n ? { candidate: Number(e.candidate), candidateDigest: hex(e.candidateDigest) } : {}),
    ...(e.changeSet ? { changeSet: e.changeSet } : {}),
    author: e.author,
    identity: e.identity,
    peer: e.peer,
    ...(e.owner ? { owner: e.owner } : {}),
    forced: e.forced,
    ...(e.note ? { note: e.note } : {}),
  };
}

const columns = ['revision', 'time', 'tenant', 'script', 'key', 'change', 'version', 'digest', 'candidate', 'candidateDigest', 'changeSet', 'author', 'identity', 'peer', 'owner', 'forced', 'note'];

export const csvHead = `${columns.join(',')}\r\n`;

export function csvLine(e: AuditEntry): string {
  const record = recordOf(e);
  return `${columns.map((c) => cell(record[c] ?? '')).join(',')}\r\n`;
}

/**
 * cell is a value for spreadsheets. They read a text that begins with one of these, also after space, as a formula, which strangers
 * must not write. An apostrophe makes it text.
 */
export function cell(value: string | number | boolean): string {
  if (typeof value !== 'string') {
    return String(value);
  }
  const text = /^[\s\u0000-\u001f]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(value) ? `'${value}` : value;
  return `"${text.replaceAll('"', '""')}"`;
}
