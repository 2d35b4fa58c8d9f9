package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The bounds of what scripts use of the agent, which are those of engine/lua.
const (
	maxLogLine            = 4 << 10
	logCost               = 20
	logBytesPerCharge     = 16
	hostCost              = 10
	maxKeys               = 1000
	keysPerInstruction    = 2
	maxHostName           = 128
	maxRate               = 1e9
	maxMessageBytes       = 1 << 10
	bytesPerInstruction   = 64
	digestBytesPerCharge  = 16
	cut                   = "…"
	ellipsisKeyBytes      = 40
	counterNameCharacters = "want 1 to 128 of A-Z, a-z, 0-9, '.', '_', '-', ':' and '/'"
)

// agent is what a call may use of the agent.
type agent struct {
	*engine.Invocation
	call        *sandbox.Call
	StringBytes int
}

func fault(format string, args ...any) *script.Error {
	return script.Errorf(script.Script, "", format, args...)
}

func (a *agent) host(function string) (engine.Host, *script.Error) {
	a.call.Charge(hostCost)
	if a.Host == nil {
		return nil, fault("%s is not available: the script runs without an agent", function)
	}
	return a.Host, nil
}

// Log logs a message. What of it is not visible is escaped.
func (a *agent) Log(level engine.Level, message string) *script.Error {
	a.call.Charge(logCost + len(message)/logBytesPerCharge)
	if a.Host != nil {
		a.Host.Log(a.Invocation, level, visible(message))
	}
	return nil
}

// visible returns a line of the log: valid UTF-8, all of it visible, and no longer than it may be.
func visible(s string) string {
	plain := len(s) <= maxLogLine
	for i := 0; i < len(s) && plain; i++ {
		plain = ' ' <= s[i] && s[i] <= '~'
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = "\uFFFD"
		case !strconv.IsPrint(r):
			quoted := strconv.QuoteRune(r)
			piece = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(piece) > maxLogLine-len(cut) {
			return b.String() + cut
		}
		b.WriteString(piece)
		i += size
	}
	return b.String()
}

// Text returns the content of the tenant's value with the key.
func (a *agent) Text(key string) (content []byte, ok bool, err *script.Error) {
	host, err := a.host("kv_get")
	if err != nil || len(key) > script.MaxValueKeyLen { // there can be none
		return nil, false, err
	}
	content, ok, problem := host.Value(a.Tenant, key)
	if problem != nil {
		return nil, false, fault("the value of %s cannot be read: %s", shortKey(key), clip(problem.Error()))
	}
	a.call.Charge(len(content) / bytesPerInstruction)
	if len(content) > a.StringBytes {
		return nil, false, script.Errorf(script.Limit, "", "the value of %s has %d bytes, and a text may have %d: raise limits.stringBytes", key, len(content), a.StringBytes)
	}
	return content, ok, nil
}

func shortKey(key string) string {
	if len(key) > ellipsisKeyBytes {
		return strings.ToValidUTF8(key[:ellipsisKeyBytes], "") + cut
	}
	return key
}

// Keys returns the tenant's keys that begin with the prefix and come after the key `after`, sorted, 1,000 at most.
func (a *agent) Keys(prefix, after string) ([]string, *script.Error) {
	host, err := a.host("kv_keys")
	if err != nil {
		return nil, err
	}
	keys := host.Keys(a.Tenant, prefix, after, maxKeys)
	a.call.Charge(len(keys) / keysPerInstruction)
	return keys, nil
}

// Add adds n to the tenant's counter on this agent and returns what it is then.
func (a *agent) Add(counter string, n float64) (float64, *script.Error) {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fault("counter_add: n: want a finite number")
	}
	if !isCounterName(counter) {
		return 0, fault("counter_add: name: %s", counterNameCharacters)
	}
	host, err := a.host("counter_add")
	if err != nil {
		return 0, err
	}
	value, problem := host.Count(a.Tenant, counter, n)
	if problem != nil {
		return 0, script.Errorf(script.KindOf(problem), "", "%s", clip(problem.Error()))
	}
	return value, nil
}

func isCounterName(name string) bool {
	if name == "" || len(name) > maxHostName {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '-' <= c && c <= ':', c == '_': // "-./", digits and ":"
		default:
			return false
		}
	}
	return true
}

// Rate is what a bucket of tokens is like, and what is taken from it.
type Rate struct{ Rate, Burst, Cost float64 }

// Take takes tokens from the tenant's bucket on this agent.
func (a *agent) Take(bucket string, r Rate) (ok bool, wait time.Duration, err *script.Error) {
	switch {
	case math.IsNaN(r.Rate) || r.Rate <= 0 || r.Rate > maxRate:
		return false, 0, fault("ratelimit_take: rate must be above 0 and at most 1e9")
	case math.IsNaN(r.Burst) || r.Burst <= 0 || r.Burst > maxRate:
		return false, 0, fault("ratelimit_take: burst must be above 0 and at most 1e9")
	case math.IsNaN(r.Cost) || r.Cost < 0 || r.Cost > r.Burst:
		return false, 0, fault("ratelimit_take: n must be between 0 and burst")
	}
	if len(bucket) > maxHostName { // it may be what a stranger sent
		a.call.Charge(len(bucket) / digestBytesPerCharge)
		sum := sha256.Sum256([]byte(bucket))
		bucket = hex.EncodeToString(sum[:])
	}
	host, err := a.host("ratelimit_take")
	if err != nil {
		return false, 0, err
	}
	ok, wait = host.Take(a.Tenant, bucket, r.Cost, r.Rate, r.Burst)
	return ok, wait, nil
}

// clip shortens a message and makes it valid UTF-8.
func clip(s string) string {
	if len(s) > maxMessageBytes {
		end := maxMessageBytes - len(cut)
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + cut
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
