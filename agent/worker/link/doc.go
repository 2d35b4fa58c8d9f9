// Package link is what an agent and the process of one tenant share: three
// socketpairs, and a page of memory. One socketpair carries the assignment with its
// descriptors, and ends when either side does; over the other two each calls the
// other by gRPC.
package link
