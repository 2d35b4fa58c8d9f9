// Package hostile attacks the sockets of an agent and the listener of a registry, which are
// processes of their own. It watches their memory, their descriptors and callers who mean well. It
// has tests alone; docs/isolation.md lists what they try.
package hostile
