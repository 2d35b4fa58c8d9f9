// Package console has the files of the web application. `make console` builds them from the source beside this file; a build
// without them has one page that says so.
package console

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Assets returns the files.
func Assets() fs.FS {
	for _, folder := range []string{"dist/app", "dist/none"} {
		if _, err := fs.Stat(dist, folder+"/index.html"); err == nil {
			sub, err := fs.Sub(dist, folder)
			if err != nil {
				panic(err) // a name that is not valid
			}
			return sub
		}
	}
	panic("dist/none/index.html is not in the repository")
}
