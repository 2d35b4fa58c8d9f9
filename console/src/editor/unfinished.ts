import type { Signal } from '@builder.io/qwik';

/** Unfinished is text in a field that is no value yet. The draft has the value before it. */
export interface Unfinished {
  text: string;
  problem: string;
}

/** UnfinishedTexts has each text by the place of its field, such as "Test 2: Name". */
export type UnfinishedTexts = Record<string, Unfinished>;

/** yaml is the place of YAML that has problems, or is not parsed yet. */
export const yaml = 'YAML';

export const hasAny = (all: UnfinishedTexts | undefined): boolean => Object.keys(all ?? {}).length > 0;

/** placesOf names the places with text that the draft does not have; empty for none. */
export const placesOf = (all: UnfinishedTexts): string => Object.keys(all).map((place) => `“${place}”`).join(' and ');

/** put keeps the text of a place. Without text, the place has its value. */
export function put(all: Signal<UnfinishedTexts>, place: string, text?: Unfinished): void {
  if (text || place in all.value) {
    const { [place]: _, ...others } = all.value;
    all.value = text ? { ...others, [place]: text } : others;
  }
}

/** shift renames the places in a list when a member comes before them, or goes. The texts of a member go with it. */
export function shift(all: UnfinishedTexts, list: string, at: number, by: 1 | -1): UnfinishedTexts {
  const moved = Object.entries(all).flatMap(([place, text]): [string, Unfinished][] => {
    const [, head, number, rest] = /^(\w+) (\d+)(: .*)$/s.exec(place) ?? [];
    const index = Number(number) - 1;
    if (head !== list || index < at) {
      return [[place, text]];
    }
    return index === at && by < 0 ? [] : [[`${list} ${index + 1 + by}${rest}`, text]];
  });
  return Object.fromEntries(moved);
}
