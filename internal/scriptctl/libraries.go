package scriptctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// libraryView is a library as a version has it.
type libraryView struct {
	Script  string        `json:"script"`            // tenant/name
	Version uint64        `json:"version,omitempty"` // absent in a file
	Digest  script.Digest `json:"digest"`            // of the source
}

func viewOfLibraries(libraries []script.Library) (views []libraryView) {
	for _, l := range libraries {
		views = append(views, libraryView{l.Name.String(), l.Version, l.Digest})
	}
	return views
}

// withLibraries says what a version was published with; "" for none.
func withLibraries(views []libraryView) string {
	texts := make([]string, len(views))
	for i, v := range views {
		texts[i] = fmt.Sprintf("%s v%d", v.Script, v.Version)
	}
	if len(texts) == 0 {
		return ""
	}
	return " with " + strings.Join(texts, ", ")
}

// resolve finds the libraries of the manifests: among them, in their folders unless unread, and in the registry.
func (a *app) resolve(ctx context.Context, manifests []manifest.Manifest, unread bool) error {
	libraries := offline.Libraries{Beside: manifests, Unread: unread, Elsewhere: func(name script.Name) (script.Library, error) {
		return a.libraryOf(ctx, name)
	}}
	var faults []error
	for i := range manifests {
		if err := libraries.Resolve(&manifests[i]); err != nil {
			faults = append(faults, named(&manifests[i], err))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return &exitError{code: exitRefused, err: errors.Join(faults...)}
}

// libraryOf returns the active version of a library in the registry.
func (a *app) libraryOf(ctx context.Context, name script.Name) (l script.Library, err error) {
	client, err := a.connect()
	if err != nil {
		return l, err
	}
	edition, err := client.Source(ctx, script.Ref{Name: name})
	switch {
	case script.KindOf(err) == script.NotFound:
		return l, script.Errorf(script.NotFound, "source", "there is no library %s, neither in a file nor in the registry: publish it first", name)
	case err != nil:
		return l, err
	case !edition.Spec.Library:
		return l, script.Errorf(script.NotFound, "source", "%s is no library: set spec.library to true in its manifest, and publish it", name)
	}
	return script.Library{Name: name, Version: edition.Number, Digest: edition.Digest, Source: string(edition.Source)}, nil
}

// awaitsLibrary reports whether the registry refused the script in m because it requires a library that one of the
// manifests is of: a dry run has not stored that.
func awaitsLibrary(m *manifest.Manifest, manifests []manifest.Manifest, err error) bool {
	e := script.AsError(err)
	return e.Kind == script.NotFound && e.Field == "source" && slices.ContainsFunc(m.Settings.Libraries, func(l script.Library) bool {
		return slices.ContainsFunc(manifests, func(other manifest.Manifest) bool { return other.Name == l.Name })
	})
}
