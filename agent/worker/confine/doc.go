// Package confine bounds what a process may do, on Linux: which system calls it may
// make, whom it runs as, and how much memory and processor it gets. The agent uses
// one half of it for the processes that it starts; the other half is called by
// such a process about itself, before it sees anything of a tenant.
package confine
