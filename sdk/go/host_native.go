//go:build !wasm

package scriptorium

import (
	"slices"
	"strings"
)

// A Host stands in for the agent where the package is not compiled to WebAssembly, so that `go test` runs
// handlers. Its zero value has no config and no values.
type Host struct {
	Config   string            // JSON, an object
	Values   map[string]string // what KVGet and KVKeys read
	Lines    []string          // what the handler logged
	Counters map[string]float64
	Wait     float64 // what RateLimit returns
}

// Call calls the handler that Handle or HandleJSON registered, with JSON. Two calls must not run at the same
// time. A call of Fail panics.
func (h *Host) Call(argument string) (result string) {
	native = h
	defer func() { native = nil }()
	return call(argument)
}

// native is the host of the call that runs, as an instance of a module has one.
var native *Host

func host() *Host {
	if native == nil {
		panic("scriptorium: this function needs an agent: call the handler with Host.Call")
	}
	return native
}

func hostLog(_ uint32, text string) { host().Lines = append(host().Lines, text) }

func hostFail(text string) { panic(text) }

func hostConfig() string {
	if host().Config == "" {
		return "{}"
	}
	return host().Config
}

func hostKVGet(key string) (string, bool) {
	content, ok := host().Values[key]
	return content, ok
}

func hostKVKeys(prefix, after string, limit int) string {
	var keys []string
	for key := range host().Values {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return quoteAll(keys[:min(limit, len(keys))])
}

func hostCounterAdd(name string, n float64) float64 {
	if host().Counters == nil {
		host().Counters = map[string]float64{}
	}
	host().Counters[name] += n
	return host().Counters[name]
}

func hostRateLimit(string, float64, float64, float64) float64 { return host().Wait }
