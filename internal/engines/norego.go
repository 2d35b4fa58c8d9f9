//go:build no_rego

package engines

var regoEngines []optional
