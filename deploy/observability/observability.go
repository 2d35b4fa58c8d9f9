// Package observability writes the dashboards and the rules to the files that are shipped.
package observability

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/scriptorium-dev/scriptorium/deploy/observability/dashboards"
	"github.com/scriptorium-dev/scriptorium/deploy/observability/rules"
)

//go:generate go -C ../.. run ./deploy/observability/generate

// The folders of files, in the root of the tree.
const (
	here  = "deploy/observability"
	chart = "deploy/helm/scriptorium/files"
)

// Files returns the content of each generated file by its path in the tree.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, d := range dashboards.All() {
		text, err := d.JSON()
		if err != nil {
			return nil, err
		}
		files[here+"/grafana/"+d.Name+".json"] = text
		files[chart+"/dashboards/"+d.Name+".json"] = text
	}
	file, err := rules.File()
	if err != nil {
		return nil, fmt.Errorf("write the rules: %w", err)
	}
	object, err := rules.Object()
	if err != nil {
		return nil, fmt.Errorf("write the PrometheusRule: %w", err)
	}
	files[here+"/prometheus/rules.yaml"] = file
	files[chart+"/rules.yaml"] = file
	files[here+"/prometheus/prometheus-rule.yaml"] = object
	return files, nil
}

// Write writes all files into the tree with that root.
func Write(root string) error {
	files, err := Files()
	if err != nil {
		return err
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
