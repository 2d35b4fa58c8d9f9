package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// serveFiles serves the files of the web application. A path that ends with / is a page: its index.html. `make console`
// compresses the files, each under its name with .gz.
func serveFiles(files fs.FS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		if info, err := fs.Stat(files, orDot(name)); err == nil && info.IsDir() {
			if name != "" && !strings.HasSuffix(r.URL.Path, "/") {
				http.Redirect(w, r, "/"+name+"/?"+r.URL.RawQuery, http.StatusMovedPermanently)
				return
			}
			name = path.Join(name, "index.html")
		}
		body, compressed, err := read(files, name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			http.NotFound(w, r)
			return
		}
		if err == nil && compressed {
			body, err = encode(w, r, body)
		}
		if err != nil {
			http.Error(w, "this file cannot be read", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		if strings.HasPrefix(name, "build/") || strings.HasPrefix(name, "assets/") {
			// Their names have a digest of what is in them.
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		} else {
			digest := sha256.Sum256(body)
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("Etag", `"`+hex.EncodeToString(digest[:8])+`"`)
			if r.Header.Get("If-None-Match") == w.Header().Get("Etag") {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		_, _ = w.Write(body) // the browser is gone
	})
}

// read returns the file as it is stored.
func read(files fs.FS, name string) (body []byte, compressed bool, err error) {
	if body, err = fs.ReadFile(files, name+".gz"); err == nil {
		return body, true, nil
	}
	body, err = fs.ReadFile(files, name)
	return body, false, err
}

// encode leaves a body compressed for a client that takes it so.
func encode(w http.ResponseWriter, r *http.Request, body []byte) ([]byte, error) {
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		return body, nil
	}
	plain, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}

func orDot(name string) string {
	if name == "" {
		return "."
	}
	return name
}
