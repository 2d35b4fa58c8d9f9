package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Writer writes an archive. It is not safe for concurrent use.
type Writer struct {
	tar     *tar.Writer
	header  *Header
	content contents
}

// NewWriter returns a writer to w, which the caller closes.
func NewWriter(w io.Writer) *Writer {
	return &Writer{tar: tar.NewWriter(w), content: newContents()}
}

// Add writes an item: the header first, and a script after its sources. A source
// that is there is not written again. Errors are Invalid for an item that does
// not belong there, or else those of the writer.
func (w *Writer) Add(item Item) error {
	switch {
	case item.Header != nil:
		return w.addHeader(*item.Header)
	case w.header == nil:
		return script.Errorf(script.Invalid, manifestEntry, "has to come first")
	case item.Script != nil:
		return w.addScript(item.Script)
	case item.Value != nil:
		return w.addValue(item.Value)
	case item.Tenant != nil:
		return w.addTenant(item.Tenant)
	}
	name := blobPath(script.DigestOf(item.Source))
	if w.content.has(name) {
		return nil
	}
	return w.add(name, item.Source)
}

func (w *Writer) addHeader(h Header) error {
	w.header = &h
	data, err := encode(manifest{
		Format: Format, Fleet: h.Fleet, Head: int64(h.Head), ExportedAt: h.ExportedAt.UTC(), Tenant: h.Tenant,
	})
	if err != nil {
		return err
	}
	return w.add(manifestEntry, data)
}

func (w *Writer) addScript(m *registryv1.ScriptRecord) error {
	name, err := w.content.checkRecord(m)
	if err != nil {
		return err
	}
	data, err := encodeMessage("script", m)
	if err != nil {
		return err
	}
	return w.add(scriptPath(name), data)
}

func (w *Writer) addValue(m *registryv1.ValueRecord) error {
	key := script.ValueKey{Tenant: m.GetValue().GetTenant(), Key: m.GetValue().GetKey()}
	if err := key.Validate(); err != nil {
		return err
	}
	return w.add(valuePath(key), m.GetContent())
}

func (w *Writer) addTenant(m *scriptv1.Tenant) error {
	if err := script.ValidateLabel("tenant", m.GetName()); err != nil {
		return err
	}
	data, err := encodeMessage("tenant", m)
	if err != nil {
		return err
	}
	return w.add(tenantPath(m.GetName()), data)
}

func (w *Writer) add(name string, data []byte) error {
	if err := w.content.add(name, data); err != nil {
		return err
	}
	return w.put(name, data)
}

// longestPlain is the longest name that every tar takes as it is; those of values may be
// longer.
const longestPlain = 100

func (w *Writer) put(name string, data []byte) error {
	format := tar.FormatUSTAR
	if len(name) > longestPlain {
		format = tar.FormatPAX
	}
	err := w.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, Format: format,
	})
	if err != nil {
		return err
	}
	_, err = w.tar.Write(data)
	return err
}

// Summary returns what was written.
func (w *Writer) Summary() Summary {
	s := Summary{Scripts: w.content.scripts, Sources: w.content.sources - len(w.content.specs), Values: w.content.values, Tenants: w.content.tenants}
	if w.header != nil {
		s.Header = *w.header
	}
	return s
}

// Close ends the archive: without it, nobody can read it.
func (w *Writer) Close() error {
	if w.header == nil {
		return script.Errorf(script.Invalid, manifestEntry, "is missing")
	}
	data, err := encode(w.content.end())
	if err != nil {
		return err
	}
	if err := w.put(endEntry, data); err != nil {
		return err
	}
	return w.tar.Close()
}

func encode(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "cannot be written as JSON: %w", err)
	}
	return append(data, '\n'), nil
}

// encodeMessage gives the same bytes for the same message: protojson alone puts
// spaces where it likes.
func encodeMessage(what string, m proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, script.Errorf(script.Invalid, what, "cannot be written as JSON: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, script.Errorf(script.Internal, what, "cannot be written as JSON: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
