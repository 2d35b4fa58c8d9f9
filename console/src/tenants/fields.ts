import { clone, create } from '@bufbuild/protobuf';
import { DecisionsSchema, LimitsSchema, TenantSettingsSchema, type TenantSettings } from '~/gen/proto/script/v1/script_pb';
import { listOf } from '~/ui/form';
import { durationOf, millis, numberOf, wants, written, type Kind } from './quantity';

/** Field is a number in the settings of a tenant. */
export interface Field {
  /** As in the messages of the registry, so that an error finds its field. */
  name: string;
  title: string;
  kind: Kind;
  /** The default. */
  preset: string;
}

export const ownFields: Field[] = [
  { name: 'concurrency', title: 'Calls at once on each agent', kind: 'count', preset: '64' },
  { name: 'cpu', title: 'Processor time on each agent', kind: 'cores', preset: 'a fair share' },
  { name: 'memoryBytes', title: 'Memory on each agent', kind: 'bytes', preset: '256Mi' },
  { name: 'logBytes', title: 'Logged in a second', kind: 'bytes', preset: '64Ki' },
  { name: 'scripts', title: 'Scripts', kind: 'count', preset: '20,000' },
  { name: 'valueBytes', title: 'All values', kind: 'bytes', preset: '16Mi' },
  { name: 'sourceBytes', title: 'Sources of all versions', kind: 'bytes', preset: '512Mi' },
  { name: 'writes', title: 'Changes in a second', kind: 'count', preset: '100' },
  { name: 'writeBytes', title: 'Written in a second', kind: 'bytes', preset: '1Mi' },
];

export const limitFields: Field[] = [
  { name: 'limits.instructions', title: 'Instructions of a call', kind: 'count', preset: 'no bound' },
  { name: 'limits.timeout', title: 'Time of a call', kind: 'duration', preset: 'no bound' },
  { name: 'limits.concurrency', title: 'Calls of a script at once', kind: 'count', preset: 'no bound' },
  { name: 'limits.logBytes', title: 'Logged by a script in a second', kind: 'bytes', preset: 'no bound' },
  { name: 'limits.sourceBytes', title: 'A source', kind: 'bytes', preset: 'no bound' },
  { name: 'limits.stringBytes', title: 'A string', kind: 'bytes', preset: 'no bound' },
  { name: 'limits.resultBytes', title: 'A result', kind: 'bytes', preset: 'no bound' },
  { name: 'limits.wasmMemory', title: 'Memory of a WebAssembly instance', kind: 'bytes', preset: 'no bound' },
];

/** Draft is what the form has: the texts of the fields by their names. */
export type Draft = Record<string, string>;

export function draftOf(s: TenantSettings | undefined): Draft {
  const draft: Draft = { isolation: s?.isolation ?? '', audit: s?.audit ?? '' };
  for (const f of ownFields) {
    draft[f.name] = written(f.kind, Number(s?.[f.name as keyof TenantSettings] ?? 0));
  }
  const l = s?.limits;
  for (const f of limitFields) {
    const value = l?.[f.name.slice('limits.'.length) as keyof typeof l];
    draft[f.name] = written(f.kind, f.kind === 'duration' ? millis(l?.timeout) : Number(value ?? 0));
  }
  const d = s?.decisions;
  return { ...draft, coroutines: l?.coroutines ? 'on' : '', decisions: d ? 'on' : '', sample: String(d?.sample ?? 1), errors: d?.errors ? 'on' : '', mask: (d?.mask ?? []).join('\n'), fields: (d?.fields ?? []).join('\n') };
}

/** faultOf names the first field that cannot be read. */
export function faultOf(d: Draft): { field: Field; text: string } | undefined {
  const field = [...ownFields, ...limitFields].find((f) => numberOf(f.kind, d[f.name]?.trim() ?? '') === undefined);
  return field && { field, text: `${field.title}: “${d[field.name]}” is not ${wants[field.kind]}` };
}

/** settingsOf changes the fields of the settings that the form has, and keeps the others. */
export function settingsOf(d: Draft, base: TenantSettings | undefined): TenantSettings {
  const of = (f: Field): number => numberOf(f.kind, d[f.name]?.trim() ?? '') ?? 0;
  const settings = base ? clone(TenantSettingsSchema, base) : create(TenantSettingsSchema);
  const limits = (settings.limits ??= create(LimitsSchema));
  limits.coroutines = d.coroutines === 'on';
  for (const f of limitFields) {
    assign(limits, f.name.slice('limits.'.length), f.kind === 'duration' ? durationOf(of(f)) : of(f));
  }
  settings.isolation = d.isolation ?? '';
  settings.audit = d.audit ?? '';
  for (const f of ownFields) {
    assign(settings, f.name, of(f));
  }
  if (d.decisions === 'on') {
    settings.decisions = create(DecisionsSchema, { sample: Number(d.sample) || 0, errors: d.errors === 'on', mask: listOf(d.mask ?? ''), fields: listOf(d.fields ?? '') });
  } else {
    delete settings.decisions;
  }
  return settings;
}

/** assign keeps the type of a number: some are bigints in the messages. */
function assign(message: object, name: string, value: number | object | undefined): void {
  const target = message as Record<string, unknown>;
  if (typeof value === 'number' && typeof target[name] === 'bigint') {
    target[name] = BigInt(value);
  } else if (value === undefined) {
    delete target[name];
  } else {
    target[name] = value;
  }
}
