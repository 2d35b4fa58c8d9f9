// Package archive is the file that holds an export of a registry: a tar archive
// that a person can look into.
//
//	manifest.json                 format, fleet, revision, time: comes first
//	tenants/<tenant>.json         a tenant's settings, as the JSON form of
//	                              scriptorium.script.v1.Tenant
//	values/<tenant>/<key>         the content of a value; the key may have slashes
//	blobs/sha256/<hex>            the source of a version, before the first script that needs it
//	scripts/<tenant>/<name>.json  all there is of one script, as the JSON form of
//	                              scriptorium.registry.v1.ScriptRecord
//	end.json                      how many there are, and a digest of them: comes last
//
// Whoever reads an archive that was cut off or altered gets an error. Headers are
// fixed and the order is that of the items, so that the same items give the same
// bytes. The digest is the SHA-256 of what sha256sum prints of the entries before
// end.json, in their order.
//
// Archives are written and read as streams: one item is in memory at a time, and
// some hundred bytes for each.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Format is the number of the format that this package writes and reads.
const Format = 1

// Item is one part of an export. One of its fields is set: Source if the others
// are nil.
type Item struct {
	// Tenant is the settings of a tenant, and Value a value with its content: of what
	// it says besides, an archive keeps the key alone.
	Tenant *scriptv1.Tenant
	Value  *registryv1.ValueRecord
	Header *Header // first, and only there
	// Script is moved and not read, so that it stays the message that it is on the
	// wire. The sources that it needs are among the items before it.
	Script *registryv1.ScriptRecord
	Source []byte
}

// Header says what an export is of.
type Header struct {
	Fleet      string          // the registry's identity
	Head       script.Revision // the items are as of this revision
	ExportedAt time.Time
	Tenant     string // that it is limited to; "" for all
}

// Summary says what is in an archive.
type Summary struct {
	Header
	Scripts int
	Sources int
	Values  int
	Tenants int // that have settings
}

// Names of entries.
const (
	manifestEntry = "manifest.json"
	endEntry      = "end.json"
	blobFolder    = "blobs/sha256/"
	scriptFolder  = "scripts/"
	scriptSuffix  = ".json"
	valueFolder   = "values/"
	tenantFolder  = "tenants/"
	tenantSuffix  = ".json"
)

// manifest is the form of manifest.json.
type manifest struct {
	Format     int       `json:"format"`
	Fleet      string    `json:"fleet"`
	Head       int64     `json:"headRevision"`
	ExportedAt time.Time `json:"exportedAt"`
	Tenant     string    `json:"tenant,omitempty"`
}

// end is the form of end.json.
type end struct {
	Scripts int    `json:"scripts"`
	Sources int    `json:"sources"`
	Values  int    `json:"values,omitempty"`
	Tenants int    `json:"tenants,omitempty"`
	Digest  string `json:"digest"`
}

// words says what is in an archive, for people.
func (e end) words() string {
	return fmt.Sprintf("%d scripts, %d sources, %d values and %d tenants with the digest %s", e.Scripts, e.Sources, e.Values, e.Tenants, e.Digest)
}

func blobPath(d script.Digest) string { return blobFolder + hex.EncodeToString(d[:]) }

func scriptPath(n script.Name) string {
	return scriptFolder + n.Tenant + "/" + n.Script + scriptSuffix
}

func valuePath(k script.ValueKey) string { return valueFolder + k.String() }

func tenantPath(tenant string) string { return tenantFolder + tenant + tenantSuffix }

// contents keeps account of the entries of one archive.
type contents struct {
	sum     hash.Hash
	entries map[string]struct{}
	scripts int
	sources int
	specs   map[string]struct{} // the digests of those sources that are documents of settings
	values  int
	tenants int
}

func newContents() contents {
	return contents{sum: sha256.New(), entries: make(map[string]struct{}), specs: make(map[string]struct{})}
}

// add counts an entry. It is Invalid if there was one of that name.
func (c *contents) add(name string, data []byte) error {
	if c.has(name) {
		return script.Errorf(script.Invalid, name, "is there twice")
	}
	c.entries[name] = struct{}{}
	fmt.Fprintf(c.sum, "%x  %s\n", sha256.Sum256(data), name)
	switch {
	case strings.HasPrefix(name, scriptFolder):
		c.scripts++
	case strings.HasPrefix(name, blobFolder):
		c.sources++
	case strings.HasPrefix(name, valueFolder):
		c.values++
	case strings.HasPrefix(name, tenantFolder):
		c.tenants++
	}
	return nil
}

func (c *contents) has(name string) bool {
	_, ok := c.entries[name]
	return ok
}

func (c *contents) end() end {
	return end{Scripts: c.scripts, Sources: c.sources, Values: c.values, Tenants: c.tenants, Digest: "sha256:" + hex.EncodeToString(c.sum.Sum(nil))}
}

// checkRecord returns the name of the script, and an Invalid error if it has none
// or needs a source that is not there.
func (c *contents) checkRecord(m *registryv1.ScriptRecord) (script.Name, error) {
	name := script.Name{Tenant: m.GetRelease().GetTenant(), Script: m.GetRelease().GetName()}
	if err := name.Validate(); err != nil {
		return name, err
	}
	for _, v := range slices.Concat(m.GetRelease().GetRetained(), m.GetVersions()) {
		for _, raw := range [][]byte{v.GetDigest(), v.GetSpec()} {
			digest, err := wire.ToDigest(raw)
			if err != nil {
				return name, err
			}
			if len(raw) > 0 && !c.has(blobPath(digest)) {
				return name, script.Errorf(script.Invalid, scriptPath(name), "needs the source %s, which is not before it", digest)
			}
		}
		c.specs[string(v.GetSpec())] = struct{}{}
	}
	delete(c.specs, "") // of an older registry
	return name, nil
}
