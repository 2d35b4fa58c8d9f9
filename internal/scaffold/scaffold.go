// Package scaffold has the files that a new folder of scripts begins with.
package scaffold

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"path"
	"strings"

	"github.com/scriptorium-dev/scriptorium/docs/api"
)

//go:embed all:files
var files embed.FS

// Templates are the names of the templates, the default first.
var Templates = []string{"decision", "transform"}

// File is one file of the folder.
type File struct {
	Path    string // with slashes, relative to the folder
	Content []byte
}

// schema is a JSON Schema for editors, and the files that it is for.
type schema struct {
	name    string // of the file
	content []byte
	globs   []string
}

// schemas are those that the folder gets, and that .vscode/settings.json names. A schema that is added
// here is embedded with the others.
var schemas = []schema{}

// Files returns the files of a template, for a project and a tenant.
func Files(template, project, tenant string) ([]File, error) {
	replace := strings.NewReplacer("PROJECT", project, "TENANT", tenant).Replace
	var all []File
	for _, dir := range []string{"files/every", "files/" + template} {
		err := fs.WalkDir(files, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := files.ReadFile(name)
			all = append(all, File{Path: strings.TrimPrefix(name, dir+"/"), Content: []byte(replace(string(data)))})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	all = append(all, File{Path: ".luals/scriptorium.lua", Content: api.LanguageServer})
	return append(all, editorSchemas()...), nil
}

// editorSchemas returns the schemas, and the settings that name them.
func editorSchemas() []File {
	if len(schemas) == 0 {
		return nil
	}
	var all []File
	byFile := map[string][]string{}
	for _, s := range schemas {
		file := path.Join(".vscode", s.name)
		all = append(all, File{Path: file, Content: s.content})
		byFile["./"+file] = s.globs
	}
	var settings bytes.Buffer
	encoder := json.NewEncoder(&settings)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(map[string]any{"yaml.schemas": byFile}) // texts alone
	return append(all, File{Path: ".vscode/settings.json", Content: settings.Bytes()})
}
