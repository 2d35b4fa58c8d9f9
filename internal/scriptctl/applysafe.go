package scriptctl

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/project"
	"github.com/scriptorium-dev/scriptorium/script"
)

// folderOf returns the folder that a file is in, or the path itself.
func folderOf(path string) string {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return filepath.Dir(path)
	}
	return path
}

// projectOf returns the project that the paths are of; "" for none. They are all of the same one.
func projectOf(paths []string) (name string, err error) {
	first := ""
	for _, path := range paths {
		if path == "-" {
			continue
		}
		config, err := project.Find(folderOf(path))
		switch {
		case err != nil:
			return "", err
		case first == "":
			first, name = path, config.Project
		case config.Project != name:
			return "", script.Errorf(script.Invalid, "--project", "%s is of %s, and %s of %s: apply each by itself, or name one with --project",
				first, projectText(name), path, projectText(config.Project))
		}
	}
	return name, nil
}

func projectText(name string) string {
	if name == "" {
		return "no project"
	}
	return "the project " + name
}

// deletes returns the names of the scripts that the plan deletes.
func (v *projectView) deletes() (names []string) {
	for _, p := range v.Plan {
		if p.Action == planDelete {
			names = append(names, p.Script)
		}
	}
	return names
}

// safeToPrune refuses to delete a script that only seems to be gone: its manifest was not named, or its file is empty, or
// it is a library that a declared script requires.
func safeToPrune(v *projectView, paths []string, set *manifest.ChangeSet, trial *registryclient.ChangeSetResult) error {
	gone := v.deletes()
	if len(gone) == 0 {
		return nil
	}
	for _, r := range trial.Releases {
		libraries := r.Settings.Libraries
		if r.Candidate != nil {
			libraries = slices.Concat(libraries, r.Candidate.Spec.Libraries)
		}
		for _, l := range libraries {
			if slices.Contains(gone, l.Name.String()) {
				return script.Errorf(script.Denied, "--prune", "would delete the library %s, which %s requires: keep its manifest", l.Name, r.Name)
			}
		}
	}
	read := map[string]bool{}
	for i := range set.Scripts {
		read[absolute(set.Scripts[i].File)] = true
	}
	for _, path := range paths {
		if path == "-" {
			continue
		}
		root := absolute(folderOf(path))
		if config, err := project.Find(root); err == nil && config.Project == v.Project {
			root = config.Dir
		}
		if err := seemsGone(root, absolute(path), read, gone); err != nil {
			return err
		}
	}
	return nil
}

func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// seemsGone looks for manifests of the scripts below root, but not in the folders of other projects. named is a path that
// was named, and read are the files with manifests.
func seemsGone(root, named string, read map[string]bool, gone []string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return script.Errorf(script.Denied, "--prune", "cannot see all manifests: %w", err)
		}
		if d.IsDir() {
			_, err := os.Lstat(filepath.Join(path, project.FileName))
			if path != root && (err == nil || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !manifest.IsManifestFile(path) || read[path] {
			return nil
		}
		found, err := manifest.Load(path)
		for i := range found {
			if name := found[i].Name.String(); slices.Contains(gone, name) {
				return script.Errorf(script.Denied, "--prune", "would delete %s, which has a manifest, %s: name this file too, or remove it", name, path)
			}
		}
		if len(found) == 0 && err == nil && (path == named || filepath.Dir(path) == named) {
			return script.Errorf(script.Denied, "--prune", "would delete %s, and %s holds no manifest: remove the file, or restore it", some(gone), path)
		}
		return nil
	})
}
