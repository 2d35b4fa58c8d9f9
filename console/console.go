// Package console has the files of the web application. `make console` builds them from the source beside this file; a build
// without them has one page that says so.
package console

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Built reports whether the program has the web application.
func Built() bool {
	_, err := fs.Stat(dist, "dist/app/index.html.gz")
	return err == nil
}

// Assets returns the files.
func Assets() fs.FS {
	folder := "dist/none"
	if Built() {
		folder = "dist/app"
	}
	files, err := fs.Sub(dist, folder)
	if err != nil {
		panic(err) // the name is valid
	}
	return files
}
