// Package schema has the JSON Schemas of the files that people write, for editors. The folder generate makes them of the
// CustomResourceDefinitions and of the Go types that the files are read into.
package schema

import "embed"

//go:embed *.json
var files embed.FS

// Names are the names of the schemas.
func Names() []string { return []string{"manifest", "test", "project"} }

// Of returns the schema with the name; ok is false if there is none.
func Of(name string) (text []byte, ok bool) {
	text, err := files.ReadFile(name + ".json")
	return text, err == nil
}
