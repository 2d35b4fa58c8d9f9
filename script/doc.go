// Package script holds the nouns of Scriptorium: names, digests, versions,
// releases, limits and the kinds of errors. Every other package speaks in these
// words (docs/concepts.md is the glossary).
//
// It imports the standard library alone, so that anyone may import it. Values
// are plain data: they are safe to copy, and safe for concurrent use as long as
// nobody modifies them. The byte slices and maps inside a value are shared by
// its copies and must not be modified after the value is handed on.
package script
