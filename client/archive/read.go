package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Most bytes of an entry.
const (
	maxSmall  = 64 << 10 // manifest.json, end.json
	maxRecord = 8 << 20  // what a registry lets a script have is far below
	maxSource = script.MaxArtifactBytes
	maxValue  = script.MaxValueBytes
)

// Verify reads an archive to its end and says what is in it. Errors are those of
// Read.
func Verify(r io.Reader) (Summary, error) {
	var s Summary
	specs := map[string]struct{}{"": {}} // sources that are documents of settings; none of an older registry
	for item, err := range Read(r) {
		switch {
		case err != nil:
			return Summary{}, err
		case item.Header != nil:
			s.Header = *item.Header
		case item.Script != nil:
			s.Scripts++
			for _, v := range item.Script.GetRelease().GetRetained() {
				specs[string(v.GetSpec())] = struct{}{}
			}
		case item.Value != nil:
			s.Values++
		case item.Tenant != nil:
			s.Tenants++
		default:
			s.Sources++
		}
	}
	s.Sources -= len(specs) - 1
	return s, nil
}

// Read yields the items of an archive, the header first. An error ends the
// sequence: it is Invalid, and names the entry, for what is no archive, was cut off
// or altered, and else that of r. What was yielded before an error is not to be
// relied on: Verify finds it first, where r can be read twice.
func Read(r io.Reader) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		in := bufio.NewReader(r)
		if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
			yield(Item{}, script.Errorf(script.Invalid, "", "this is compressed: gunzip it first"))
			return
		}
		rd := reader{tar: tar.NewReader(in), content: newContents()}
		for {
			item, err := rd.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// reader reads the entries of one archive.
type reader struct {
	tar     *tar.Reader
	content contents
	last    string // name of the entry before
}

// next returns io.EOF alone when the archive is complete.
func (r *reader) next() (Item, error) {
	h, err := r.tar.Next()
	switch {
	case errors.Is(err, io.EOF) && r.last == "":
		return Item{}, script.Errorf(script.Invalid, "", "this is no archive: it is empty")
	case errors.Is(err, io.EOF):
		return Item{}, r.cutOff()
	case err != nil:
		return Item{}, r.broken(err)
	case h.Typeflag != tar.TypeReg:
		return Item{}, script.Errorf(script.Invalid, h.Name, "is no plain file: scriptctl export did not write this archive")
	case r.last == "" && h.Name != manifestEntry:
		return Item{}, script.Errorf(script.Invalid, manifestEntry, "does not come first: scriptctl export did not write this archive")
	}
	item, err := r.entry(h.Name)
	r.last = h.Name
	return item, err
}

func (r *reader) entry(name string) (Item, error) {
	switch {
	case name == endEntry:
		return Item{}, r.end()
	case name == manifestEntry:
		return r.manifest()
	case strings.HasPrefix(name, blobFolder):
		return r.source(name)
	case strings.HasPrefix(name, scriptFolder) && strings.HasSuffix(name, scriptSuffix):
		return r.script(name)
	case strings.HasPrefix(name, valueFolder):
		return r.value(name)
	case strings.HasPrefix(name, tenantFolder) && strings.HasSuffix(name, tenantSuffix):
		return r.tenant(name)
	}
	return Item{}, script.Errorf(script.Invalid, name, "does not belong into an archive of format %d", Format)
}

// read returns the content of the entry, most bytes at the most, and counts it.
func (r *reader) read(name string, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r.tar, most+1))
	if err != nil {
		r.last = name
		return nil, r.broken(err)
	}
	if int64(len(data)) > most {
		return nil, script.Errorf(script.Invalid, name, "has more than %d bytes", most)
	}
	if name == endEntry {
		return data, nil
	}
	return data, r.content.add(name, data)
}

func (r *reader) manifest() (Item, error) {
	data, err := r.read(manifestEntry, maxSmall)
	if err != nil {
		return Item{}, err
	}
	var numbered struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &numbered); err != nil {
		return Item{}, script.Errorf(script.Invalid, manifestEntry, "cannot be read: %w", err)
	}
	if numbered.Format != Format {
		return Item{}, script.Errorf(script.Invalid, manifestEntry, "says format %d, this scriptctl reads %d: use the one that exported it, or a newer one", numbered.Format, Format)
	}
	var m manifest
	if err := decode(manifestEntry, data, &m); err != nil {
		return Item{}, err
	}
	return Item{Header: &Header{
		Fleet: m.Fleet, Head: script.Revision(m.Head), ExportedAt: m.ExportedAt, Tenant: m.Tenant,
	}}, nil
}

func (r *reader) source(name string) (Item, error) {
	data, err := r.read(name, maxSource)
	if err != nil {
		return Item{}, err
	}
	if blobPath(script.DigestOf(data)) != name {
		return Item{}, script.Errorf(script.Invalid, name, "was altered: its digest is %s", script.DigestOf(data))
	}
	return Item{Source: data}, nil
}

func (r *reader) script(path string) (Item, error) {
	data, err := r.read(path, maxRecord)
	if err != nil {
		return Item{}, err
	}
	m := &registryv1.ScriptRecord{}
	// A field that is not known here would be lost on the way: that is an error.
	if err := protojson.Unmarshal(data, m); err != nil {
		return Item{}, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	name, err := r.content.checkRecord(m)
	if err != nil {
		return Item{}, err
	}
	if scriptPath(name) != path {
		return Item{}, script.Errorf(script.Invalid, path, "is the script %s", name)
	}
	return Item{Script: m}, nil
}

func (r *reader) value(path string) (Item, error) {
	key, err := script.ParseValueKey(strings.TrimPrefix(path, valueFolder))
	if err != nil {
		return Item{}, script.Errorf(script.Invalid, path, "is no value: %w", err)
	}
	data, err := r.read(path, maxValue)
	if err != nil {
		return Item{}, err
	}
	v := script.Value{Key: key, Digest: script.DigestOf(data), Size: len(data)}
	return Item{Value: &registryv1.ValueRecord{Value: wire.FromValue(v), Content: data}}, nil
}

func (r *reader) tenant(path string) (Item, error) {
	data, err := r.read(path, maxSmall)
	if err != nil {
		return Item{}, err
	}
	m := &scriptv1.Tenant{}
	if err := protojson.Unmarshal(data, m); err != nil {
		return Item{}, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	if tenantPath(m.GetName()) != path {
		return Item{}, script.Errorf(script.Invalid, path, "is of the tenant %.80q", m.GetName())
	}
	return Item{Tenant: m}, nil
}

// end returns io.EOF if the archive has what its end says, and ends there.
func (r *reader) end() error {
	data, err := r.read(endEntry, maxSmall)
	if err != nil {
		return err
	}
	var said end
	if err := decode(endEntry, data, &said); err != nil {
		return err
	}
	if found := r.content.end(); said != found {
		return script.Errorf(script.Invalid, endEntry, "the archive was altered: it says %s, and there are %s", said.words(), found.words())
	}
	h, err := r.tar.Next()
	if err == nil {
		return script.Errorf(script.Invalid, h.Name, "comes after %s", endEntry)
	}
	if !errors.Is(err, io.EOF) {
		r.last = endEntry
		return r.broken(err)
	}
	return io.EOF
}

// broken returns the error for one of the tar reader's.
func (r *reader) broken(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.cutOff()
	case !errors.Is(err, tar.ErrHeader) && !errors.Is(err, tar.ErrFieldTooLong):
		return err
	case r.last == "":
		return script.Errorf(script.Invalid, "", "this is no archive: %w", err)
	}
	return script.Errorf(script.Invalid, "", "the archive is damaged after %s: %w", r.last, err)
}

func (r *reader) cutOff() error {
	if r.last == "" {
		return script.Errorf(script.Invalid, "", "this is no archive, or only the beginning of one")
	}
	return script.Errorf(script.Invalid, "", "the archive was cut off at %s: it has no %s; get the whole of it", r.last, endEntry)
}

// decode reads JSON of which every field is known.
func decode(name string, data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return script.Errorf(script.Invalid, name, "cannot be read: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return script.Errorf(script.Invalid, name, "cannot be read: there is more after it")
	}
	return nil
}
