package etcdstore

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// keys names what is stored, under one prefix:
//
//	blobs/<sha256>               source bytes
//	versions/<tenant>/<name>/<n> scriptorium.script.v1.Version
//	releases/<tenant>/<name>     scriptorium.script.v1.Release
//	history/<tenant>/<name>/<r>  scriptorium.script.v1.HistoryEntry; r is the
//	                             revision that the change replaced
//	meta/fleet                   the registry's identity
//	meta/head                    empty; written by each transaction, so that its
//	                             mod revision is that of the last one
//
// Numbers have 20 digits, so that keys sort like numbers. A release's revision is
// its key's mod revision.
type keys struct {
	prefix string // ends with a '/'
}

func (k keys) blob(d script.Digest) string { return k.prefix + "blobs/" + hex.EncodeToString(d[:]) }

func (k keys) version(name script.Name, number uint64) string {
	return fmt.Sprintf("%sversions/%s/%020d", k.prefix, name, number)
}

func (k keys) releases() string { return k.prefix + "releases/" }

func (k keys) tenant(tenant string) string { return k.releases() + tenant + "/" }

func (k keys) release(name script.Name) string { return k.releases() + name.String() }

func (k keys) history(name script.Name) string { return k.prefix + "history/" + name.String() + "/" }

func (k keys) historyEntry(name script.Name, replaced script.Revision) string {
	return fmt.Sprintf("%s%020d", k.history(name), replaced)
}

func (k keys) fleet() string { return k.prefix + "meta/fleet" }

func (k keys) head() string { return k.prefix + "meta/head" }

// after returns the first key behind key.
func after(key string) string { return key + "\x00" }

// normalPrefix returns p with one '/' at its end.
func normalPrefix(p string) string { return strings.TrimRight(p, "/") + "/" }
