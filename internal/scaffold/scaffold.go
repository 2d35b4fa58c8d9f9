// Package scaffold has the files that a new folder of scripts begins with.
package scaffold

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/docs/api"
	"github.com/scriptorium-dev/scriptorium/internal/schema"
)

//go:embed all:files
var files embed.FS

// Templates are the names of the templates, the default first.
var Templates = []string{"decision", "transform"}

// Lua is the runtime of Templates.
const Lua = "lua"

// Runtimes are the runtimes that a folder can be for, the default first. Those after it have one template, of their name.
var Runtimes = []string{Lua, "rego", "wasm"}

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

// Files returns the files of a template or of a runtime other than Lua, for a project and a tenant.
func Files(template, project, tenant string) ([]File, error) {
	replace := strings.NewReplacer("PROJECT", project, "TENANT", tenant).Replace
	inLua := slices.Contains(Templates, template)
	var all []File
	for _, dir := range []string{"files/every", "files/" + template} {
		err := fs.WalkDir(files, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if !inLua && name == "files/every/.luarc.json" {
				return nil
			}
			data, err := files.ReadFile(name)
			all = append(all, File{Path: strings.TrimPrefix(name, dir+"/"), Content: []byte(replace(string(data)))})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if !inLua {
		return append(all, editorSchemas()...), nil
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
