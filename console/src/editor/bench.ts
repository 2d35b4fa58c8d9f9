import { createContextId, useContext, type Signal } from '@builder.io/qwik';
import { create, equals, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import { PublishRequestSchema, type PublishRequest } from '~/gen/proto/registry/v1/registry_pb';
import { SettingsSchema, type Settings } from '~/gen/proto/script/v1/script_pb';
import type { Check } from './check';
import type { Draft } from './draft';
import type { Mark } from './mark';
import type { Place } from './problem';
import { hasAny, type UnfinishedTexts } from './unfinished';

export type View = 'source' | 'settings' | 'tests' | 'rollout' | 'yaml';

/** Bench is what the parts of the page about one script share. */
export interface Bench {
  /** The editor, the forms and the YAML all read and write this one draft. */
  draft: Signal<Draft>;
  /** What the draft began with. */
  base: Signal<PublishRequest>;
  /** The owner of the script, such as luascript/default/hello. */
  owner: Signal<string>;
  /** Grows each time something other than the editor replaces the source. */
  edition: Signal<number>;
  check: Signal<Check>;
  /** Where the last call failed. */
  mark: Signal<Mark | undefined>;
  view: Signal<View>;
  place: Signal<Place | undefined>;
  /** What the person typed that the draft does not have yet. */
  unfinished: Signal<UnfinishedTexts>;
  /** The last YAML without problems. Formatting keeps its comments. */
  written: Signal<string>;
}

export const BenchContext = createContextId<Bench>('scriptorium.bench');

export const useBench = (): Bench => useContext(BenchContext);

export const settingsOf = (request: PublishRequest): Settings => request.settings ?? create(SettingsSchema);

/** change changes the request of the draft. */
export function change(bench: Bench, part: Partial<PublishRequest>): void {
  const request = { ...bench.draft.value.request, ...part };
  bench.draft.value = { ...bench.draft.value, request, dirty: differs(request, bench.base.value) };
}

export function changeSettings(bench: Bench, part: Partial<Settings>): void {
  change(bench, { settings: { ...settingsOf(bench.draft.value.request), ...part } });
}

/** changePart changes a part of the settings, and leaves it out if nothing is in it then. */
export function changePart<K extends keyof Settings, D extends DescMessage>(bench: Bench, name: K, schema: D, part: Partial<NonNullable<Settings[K]>>): void {
  const before = settingsOf(bench.draft.value.request)[name] ?? create(schema);
  changeSettings(bench, { [name]: orNone(schema, { ...(before as MessageShape<D>), ...part }) } as Partial<Settings>);
}

/** replace replaces the whole request of the draft, and the editor shows it. */
export function replace(bench: Bench, request: PublishRequest): void {
  change(bench, request);
  bench.edition.value++;
}

export const differs = (a: PublishRequest, b: PublishRequest): boolean => !equals(PublishRequestSchema, a, b);

/** orNone returns nothing for an empty message, as the registry does. */
export const orNone = <D extends DescMessage>(schema: D, message: MessageShape<D>): MessageShape<D> | undefined =>
  equals(schema, message, create(schema)) ? undefined : message;

/** isDirty reports whether the person would lose something without the draft. */
export const isDirty = (bench: Bench): boolean => bench.draft.value.dirty || hasAny(bench.unfinished.value);

/** isNew reports whether the script does not exist yet. */
export const isNew = (draft: Draft): boolean => draft.baseRevision === 0n;
