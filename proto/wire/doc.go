// Package wire translates between the nouns of package script and the messages
// of the wire contract, and packs what travels over NATS into envelopes.
//
// Messages come from strangers: every function that reads one returns an error
// for what it cannot accept, and never panics.
package wire
