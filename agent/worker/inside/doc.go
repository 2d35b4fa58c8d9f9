// Package inside is what runs in the process of one tenant. The process is started
// without one, confines itself, and waits: when its agent assigns it, it gets the
// tenant's sockets and what is live of the tenant, and serves until its agent or
// itself ends. It holds nothing that its agent does not have.
package inside
