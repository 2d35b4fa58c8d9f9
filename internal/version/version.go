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
	if info.Main.Path != module { // it is part of another program, whose commit says nothing of it
		return dependency(info.Deps)
	}
	if v := info.Main.Version; v != "" && v != devel {
		return v
	}
	return "devel" + commit(info.Settings)
})

const (
	module = "github.com/scriptorium-dev/scriptorium"
	devel  = "(devel)" // what Go calls a version that it does not know
)

// dependency returns the version of this module among those that a program depends on.
func dependency(deps []*debug.Module) string {
	for _, d := range deps {
		if d.Path == module && d.Replace == nil && d.Version != devel {
			return d.Version
		}
	}
	return "devel"
}

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
