// Package link is what an agent and the process of one tenant share: three
// socketpairs, and a page of memory. One socketpair carries the assignment and, later,
// connections for calls, as descriptors; it ends when either side does. Over the other
// two each asks the other by gRPC for what is not a call.
package link
