// Package hostile attacks the sockets of an agent that is a process of its own, and watches its
// memory, its descriptors and callers who mean well. It has tests alone; docs/isolation.md lists
// what they try.
package hostile
