// Package version says which edition of Scriptorium this program is.
package version

import (
	"runtime/debug"
	"sync"
)

// release is set by the linker: -X …/internal/version.release=v1.2.3.
var release string

// String returns the released version, or else the commit that the program was
// built from ("devel-1a2b3c4d5e6f", with "-dirty" after it when files had
// changed), or else "devel".
var String = sync.OnceValue(func() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel" + commit(info.Settings)
})

func commit(settings []debug.BuildSetting) string {
	var revision, dirty string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = "-" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return revision + dirty
}
