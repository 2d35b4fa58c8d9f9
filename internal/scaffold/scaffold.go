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
	"github.com/scriptorium-dev/scriptorium/internal/schema"
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

// schemas are the files that each JSON Schema is for, by its name: see package schema.
var schemas = map[string][]string{
	"manifest": {"*.yaml", "!*_test.yaml", "!.scriptorium.yaml", "!.github/**"},
	"test":     {"*_test.yaml"},
	"project":  {".scriptorium.yaml"},
}

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
	all = append(all, File{Path: ".luals/scriptorium.lua", Content: []byte(api.Globals)}, File{Path: ".luals/kube.lua", Content: []byte(api.Kube)})
	return append(all, editorSchemas()...), nil
}

// editorSchemas returns the schemas, and the settings that name them.
func editorSchemas() []File {
	var all []File
	byFile := map[string][]string{}
	for _, name := range schema.Names() {
		file := path.Join(".vscode", name+".schema.json")
		text, _ := schema.Of(name)
		all = append(all, File{Path: file, Content: text})
		byFile["./"+file] = schemas[name]
	}
	var settings bytes.Buffer
	encoder := json.NewEncoder(&settings)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(map[string]any{"yaml.schemas": byFile}) // texts alone
	return append(all, File{Path: ".vscode/settings.json", Content: settings.Bytes()})
}
