package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// file is one of the web application, as browsers get it.
type file struct {
	data    []byte
	zipped  []byte // nil if there is no such form
	kind    string
	caching string
	tag     string
}

// files holds the web application's files by path. They are part of the program, so newFiles reads them once. A page is
// the index.html of its folder.
type files map[string]*file

// newFiles reads all files but hidden ones.
func newFiles(from fs.FS) (files, error) {
	all := files{}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		var zipped []byte
		if plain, ok := strings.CutSuffix(name, ".gz"); ok { // make console compresses them
			name, zipped = plain, data
			if data, err = unzip(zipped); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		f := newFile(name, data)
		f.zipped = zipped
		all["/"+name] = f
		if page, ok := strings.CutSuffix("/"+name, "/index.html"); ok {
			all[page+"/"] = f
		}
		return nil
	})
	return all, err
}

func unzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// newFile returns a file without a compressed form. Names of files in build/ and assets/ have a digest of
// what is in them, so browsers keep them.
func newFile(name string, data []byte) *file {
	f := &file{data: data, kind: map[string]string{".woff2": "font/woff2", ".js": "text/javascript; charset=utf-8"}[path.Ext(name)], caching: "no-cache"}
	f.kind = cmp.Or(f.kind, mime.TypeByExtension(path.Ext(name)), "application/octet-stream")
	if strings.HasPrefix(name, "build/") || strings.HasPrefix(name, "assets/") {
		f.caching = "public, max-age=31536000, immutable"
	}
	f.tag = fmt.Sprintf(`"%x"`, sha256.Sum256(data))
	return f
}

// ServeHTTP implements http.Handler.
func (all files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found := all[r.URL.Path]
	if found == nil {
		if all[r.URL.Path+"/"] != nil { // a path of ours, so it leads nowhere else
			to := r.URL.Path + "/"
			if r.URL.RawQuery != "" {
				to += "?" + r.URL.RawQuery
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "the console has no such page", http.StatusNotFound)
		return
	}
	h, data := w.Header(), found.data
	h.Set("Cache-Control", found.caching)
	h.Set("Content-Type", found.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", found.tag)
	if found.zipped != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		h.Set("ETag", strings.TrimSuffix(found.tag, `"`)+`-gzip"`)
		data = found.zipped
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// takesGzip reads the header Accept-Encoding.
func takesGzip(accepted string) bool {
	for part := range strings.SplitSeq(accepted, ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, weighed := strings.CutPrefix(strings.TrimSpace(weight), "q=")
			return !weighed || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
