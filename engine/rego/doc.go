// Package rego is the engine of policies in Rego, on the Open Policy Agent. No other package imports OPA.
//
// A source is one module of Rego, or a bundle of OPA. Its entrypoint is the path of a rule. The argument of the call is
// input, and the rule's value is the result. data.values are the tenant's values, and data.config the script's config.
//
// A policy runs in one of two ways. As wasm, it has the bounds of a wasm script: instructions, memory and time. OPA's own
// evaluator, the interpreter, counts expressions and looks at the clock, but cannot bound the memory that a policy
// allocates: it runs only where the tenant has a process of its own.
package rego
