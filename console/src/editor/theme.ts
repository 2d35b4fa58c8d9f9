import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const sheet = { backgroundColor: 'var(--sheet)', color: 'var(--ink)', border: '1px solid var(--line)' };

/** The editor takes its colours from the style sheet, so they follow the theme of the page. */
const look = EditorView.theme({
  '&': { color: 'var(--ink)', backgroundColor: 'var(--sheet)', fontSize: '0.88rem', height: '100%' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '0.4rem 0' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'var(--sunk)', color: 'var(--faint)', borderRight: '1px solid var(--line)' },
  '.cm-activeLine': { backgroundColor: 'light-dark(#00000008, #ffffff08)' },
  '.cm-activeLineGutter': { backgroundColor: 'transparent', color: 'var(--ink)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: 'light-dark(#b9cdf6, #2c457c)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)', outline: '1px solid var(--accent)' },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: 'var(--bad-soft)' },
  '.cm-searchMatch': { backgroundColor: 'var(--warn-soft)', outline: '1px solid var(--warn)' },
  '.cm-searchMatch-selected': { backgroundColor: 'var(--accent-soft)' },
  '.cm-tooltip': { ...sheet, borderRadius: '6px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', maxHeight: '14rem' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail': { color: 'inherit' },
  '.cm-completionDetail': { color: 'var(--faint)', fontStyle: 'normal' },
  '.cm-completionInfo': { ...sheet, fontFamily: 'inherit', maxWidth: '22rem', padding: '0.4rem 0.6rem' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '700' },
  '.cm-panels': { ...sheet, borderWidth: '1px 0 0' },
  '.cm-panel.cm-search': { padding: '0.4rem 1.8rem 0.4rem 0.6rem' },
  '.cm-panel :is(input, button)': { ...sheet, backgroundImage: 'none', borderColor: 'var(--faint)', borderRadius: '4px', font: 'inherit' },
  '.cm-panel label': { fontSize: 'inherit' },
  '.cm-diagnostic': { padding: '0.3rem 0.6rem', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere', maxWidth: '32rem' },
  '.cm-diagnostic-error': { borderLeft: '4px solid var(--bad)' },
  '.cm-diagnostic-warning': { borderLeft: '4px solid var(--warn)' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)', textDecorationSkipInk: 'none' },
  '.cm-lintRange-warning': { backgroundImage: 'none', textDecoration: 'underline wavy var(--warn)', textDecorationSkipInk: 'none' },
  '.cm-gutter-lint': { width: '1.1em' },
  '.cm-lint-marker': { content: 'none', width: 'auto', height: 'auto', textAlign: 'center' },
  '.cm-lint-marker-error': { color: 'var(--bad)' },
  '.cm-lint-marker-error::before': { content: '"✕"' },
  '.cm-lint-marker-warning': { color: 'var(--warn)' },
  '.cm-lint-marker-warning::before': { content: '"!"', fontWeight: '700' },
  '.cm-failed': { backgroundColor: 'var(--bad-soft)' },
  '.cm-why': { color: 'var(--bad)', marginLeft: '2em', fontStyle: 'italic', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' },
  '.cm-placeholder': { color: 'var(--faint)' },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.moduleKeyword, tags.controlKeyword], color: 'light-dark(#7a2ea0, #d3a5f5)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'light-dark(#1c6b3c, #8fd6a8)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'light-dark(#9a4a00, #f0b57a)' },
  { tag: [tags.standard(tags.variableName), tags.standard(tags.name)], color: 'light-dark(#0b5f87, #82c7ee)' },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'light-dark(#1f4fbf, #9dbcff)' },
  { tag: tags.comment, color: 'var(--faint)', fontStyle: 'italic' },
  { tag: tags.invalid, color: 'var(--bad)' },
]);

export const theme: Extension = [look, syntaxHighlighting(colours)];
