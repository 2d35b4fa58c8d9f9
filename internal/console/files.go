package console

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// serveFiles serves the files of the web application. A path that ends with / is a page: its index.html. Names of files in build/ and
// assets/ have a digest of what is in them, so browsers keep them.
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
		f, err := files.Open(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			http.NotFound(w, r)
			return
		}
		if err != nil {
			http.Error(w, "this file cannot be read", http.StatusInternalServerError)
			return
		}
		defer f.Close()
		w.Header().Set("Cache-Control", "no-cache")
		if strings.HasPrefix(name, "build/") || strings.HasPrefix(name, "assets/") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		info, err := f.Stat()
		if err != nil {
			http.Error(w, "this file cannot be read", http.StatusInternalServerError)
			return
		}
		http.ServeContent(w, r, name, info.ModTime(), f.(io.ReadSeeker))
	})
}

func orDot(name string) string {
	if name == "" {
		return "."
	}
	return name
}
