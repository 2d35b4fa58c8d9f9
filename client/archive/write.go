package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"

	"google.golang.org/protobuf/encoding/protojson"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
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
	data, err := encodeRecord(m)
	if err != nil {
		return err
	}
	return w.add(scriptPath(name), data)
}

func (w *Writer) add(name string, data []byte) error {
	if err := w.content.add(name, data); err != nil {
		return err
	}
	return w.put(name, data)
}

func (w *Writer) put(name string, data []byte) error {
	err := w.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, Format: tar.FormatUSTAR,
	})
	if err != nil {
		return err
	}
	_, err = w.tar.Write(data)
	return err
}

// Summary returns what was written.
func (w *Writer) Summary() Summary {
	s := Summary{Scripts: w.content.scripts, Sources: w.content.sources}
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

// encodeRecord gives the same bytes for the same record: protojson alone puts
// spaces where it likes.
func encodeRecord(m *registryv1.ScriptRecord) ([]byte, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "script", "cannot be written as JSON: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, script.Errorf(script.Internal, "script", "cannot be written as JSON: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
