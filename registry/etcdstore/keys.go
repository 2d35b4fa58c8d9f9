package etcdstore

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// keys names what is stored, under one prefix:
//
//	blobs/<sha256>               source bytes, and contents of values
//	                             or how many chunks have the content
//	chunks/<sha256>/<n>          a part of a content of more than 1 MiB
//	touched/<sha256>             empty; written by each commit that needs the
//	                             blob, so that its mod revision tells the last
//	versions/<tenant>/<name>/<n> scriptorium.script.v1.Version
//	releases/<tenant>/<name>     scriptorium.script.v1.Release
//	values/<tenant>/<key>        scriptorium.script.v1.Value; the key may have slashes
//	kvhistory/<tenant>/<key>     scriptorium.script.v1.ValueHistory; nobody watches it
//	usage/<tenant>               JSON of how much the tenant's values take; written
//	                             with each of them, so that two writers together
//	                             cannot take more than there is
//	tenants/<tenant>             scriptorium.script.v1.Tenant
//	graves/<tenant>/<name>       of a tombstone that was collected: the number of
//	                             the latest version
//	history/<tenant>/<name>/<r>  scriptorium.script.v1.HistoryEntry; r is the
//	                             revision that the change replaced
//	imported/<tenant>/<name>     scriptorium.registry.v1.HistoryResponse: the lines
//	                             of history that the script was imported with
//	changesets/<tenant>/<name>   scriptorium.script.v1.ChangeSet; nobody watches it
//	hours/<t>/<nn>               scriptorium.registry.v1.UsagePart: see usage.go
//	audit/<t>-<random>           scriptorium.script.v1.AuditEntry; t falls as time
//	                             goes on, so that the newest comes first
//	requests/<tenant>/<name>/<id> JSON of what became of the write with the id; on a
//	                             lease
//	sources/last                 the last small source, or content of a value, that a
//	                             commit brought: who watches gets it with the commit
//	sources/last/<nn>            the same of a transaction of several changes: at most
//	                             maxAnnounced, which each such transaction overwrites
//	meta/fleet                   the registry's identity
//	meta/freeze                  scriptorium.script.v1.Freeze
//	meta/head                    the W3C traceparent of the transaction, or empty;
//	                             written by each, so that its mod revision is that
//	                             of the last one
//	meta/heads/<tenant>          the same of each tenant; never removed
//	meta/loss                    how many objects' loss an administrator accepted last
//	meta/removals/<tenant>       empty; written with each of the tenant's objects that is
//	                             removed, so that the key's version counts them
//	meta/removals/<tenant>/<n>   the same of the n-th object, from the second on, that one
//	                             transaction removes: etcd writes a key only once in it
//	meta/floor                   a revision: tombstones up to it may be gone
//	meta/restored                empty; written by each import of a script
//	meta/sessions                JSON of the secrets that agents' sessions are made with
//
// Numbers have 20 digits, so that keys sort like numbers. The revision of a release, a
// value or a tenant's settings is its key's mod revision.
type keys struct {
	prefix string // ends with a '/'
}

func (k keys) blobs() string { return k.prefix + "blobs/" }

func (k keys) blob(d script.Digest) string { return k.blobs() + hex.EncodeToString(d[:]) }

func (k keys) chunks(d script.Digest) string { return k.allChunks() + hex.EncodeToString(d[:]) + "/" }

func (k keys) allChunks() string { return k.prefix + "chunks/" }

func (k keys) chunk(d script.Digest, n int) string { return fmt.Sprintf("%s%020d", k.chunks(d), n) }

func (k keys) touched(d script.Digest) string {
	return k.prefix + "touched/" + hex.EncodeToString(d[:])
}

func (k keys) allVersions() string { return k.prefix + "versions/" }

func (k keys) versions(name script.Name) string { return k.allVersions() + name.String() + "/" }

func (k keys) version(name script.Name, number uint64) string {
	return fmt.Sprintf("%s%020d", k.versions(name), number)
}

func (k keys) releases() string { return k.prefix + "releases/" }

func (k keys) tenant(tenant string) string { return k.releases() + tenant + "/" }

func (k keys) release(name script.Name) string { return k.releases() + name.String() }

func (k keys) values() string { return k.prefix + "values/" }

func (k keys) valuesOf(tenant string) string { return k.values() + tenant + "/" }

func (k keys) value(key script.ValueKey) string { return k.valuesOf(key.Tenant) + key.Key }

// histories has a name that is not in the range of watched.
func (k keys) histories() string { return k.prefix + "kvhistory/" }

func (k keys) historiesOf(tenant string) string { return k.histories() + tenant + "/" }

func (k keys) valueHistory(key script.ValueKey) string { return k.historiesOf(key.Tenant) + key.Key }

func (k keys) usage(tenant string) string { return k.prefix + "usage/" + tenant }

func (k keys) allSettings() string { return k.prefix + "tenants/" }

func (k keys) settings(tenant string) string { return k.allSettings() + tenant }

// object is where the object is: its own key, under the prefix.
func (k keys) object(o script.Object) string { return k.prefix + o.Key() }

// isObject reports whether an object is stored in the key. One that is no text was not written
// by a registry, and no message could name it.
func (k keys) isObject(key string) bool {
	return utf8.ValidString(key) && (strings.HasPrefix(key, k.releases()) || strings.HasPrefix(key, k.values()) || strings.HasPrefix(key, k.allSettings()))
}

// watched returns a range of keys that has the freeze, the head, which tells what registries
// wrote, and those of all objects: releases/, tenants/ and values/. What lies between them is
// small, or for those who watch: meta/, requests/, sources/, touched/ and usage/.
func (k keys) watched() (from, end string) {
	return k.freeze(), clientv3.GetPrefixRangeEnd(k.values())
}

func (k keys) announced() string { return k.prefix + "sources/last" }

// announcedWith is the n-th content that comes with a transaction of several changes. Registries that
// know none of these look the contents up.
func (k keys) announcedWith(n int) string { return fmt.Sprintf("%s/%02d", k.announced(), n) }

func (k keys) changeSetsOf(tenant string) string { return k.prefix + "changesets/" + tenant + "/" }

func (k keys) changeSet(tenant, name string) string { return k.changeSetsOf(tenant) + name }

func (k keys) versionFloors() string { return k.prefix + "graves/" }

func (k keys) versionFloor(name script.Name) string { return k.versionFloors() + name.String() }

func (k keys) history(name script.Name) string { return k.prefix + "history/" + name.String() + "/" }

func (k keys) historyEntry(name script.Name, replaced script.Revision) string {
	return fmt.Sprintf("%s%020d", k.history(name), replaced)
}

func (k keys) imported(name script.Name) string { return k.prefix + "imported/" + name.String() }

func (k keys) audit() string { return k.prefix + "audit/" }

// auditAt is below the keys of all entries of that time and of earlier ones, and
// above those of later ones.
func (k keys) auditAt(t time.Time) string {
	var nanos int64
	switch {
	case t.Before(time.Unix(0, 0)):
	case t.After(time.Unix(0, math.MaxInt64)):
		nanos = math.MaxInt64
	default:
		nanos = t.UnixNano()
	}
	return fmt.Sprintf("%s%020d", k.audit(), math.MaxInt64-nanos)
}

func (k keys) request(name script.Name, id string) string {
	return k.prefix + "requests/" + name.String() + "/" + id
}

func (k keys) fleet() string { return k.prefix + "meta/fleet" }

func (k keys) sessions() string { return k.prefix + "meta/sessions" }

func (k keys) freeze() string { return k.prefix + "meta/freeze" }

func (k keys) head() string { return k.prefix + "meta/head" }

func (k keys) heads() string { return k.prefix + "meta/heads/" }

func (k keys) tenantHead(tenant string) string { return k.heads() + tenant }

func (k keys) floor() string { return k.prefix + "meta/floor" }

func (k keys) loss() string { return k.prefix + "meta/loss" }

func (k keys) removals() string { return k.prefix + "meta/removals/" }

func (k keys) restored() string { return k.prefix + "meta/restored" }

// after returns the first key behind key.
func after(key string) string { return key + "\x00" }

// normalPrefix returns p with one '/' at its end.
func normalPrefix(p string) string { return strings.TrimRight(p, "/") + "/" }
