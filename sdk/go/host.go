package scriptorium

// These functions ask the agent that runs the script. If the agent cannot do what a function asks, for
// example because a key is not valid, the call ends with an error and the function does not return.

// Log levels of the agent.
const (
	levelInfo = iota
	levelWarn
	levelError
)

// LogInfo logs a line at the level info.
func LogInfo(message string) { hostLog(levelInfo, message) }

// LogWarn logs a line at the level warn.
func LogWarn(message string) { hostLog(levelWarn, message) }

// LogError logs a line at the level error.
func LogError(message string) { hostLog(levelError, message) }

// Fail ends the call with an error of the kind SCRIPT. It does not return.
func Fail(message string) {
	hostFail(message)
	panic(message) // the agent has ended the call
}

// Config returns the script's config, an object: spec.config of its manifest.
func Config() Value { return trusted(hostConfig()) }

// KVGet returns the content of a value of the tenant.
func KVGet(key string) (content string, ok bool) { return hostKVGet(key) }

// KVKeys returns at most limit keys of the tenant's values in their order: those that begin with prefix, and
// come after the key after.
func KVKeys(prefix, after string, limit int) []string {
	return trusted(hostKVKeys(prefix, after, limit)).Texts()
}

// CounterAdd adds n to a counter of the tenant on this agent, and returns what the counter is then.
func CounterAdd(name string, n float64) float64 { return hostCounterAdd(name, n) }

// RateLimit takes n tokens from a bucket of the tenant on this agent. The bucket holds up to burst tokens,
// and gets rate tokens a second. If there are too few, RateLimit takes none and returns after how many
// seconds there are enough. 0 says that it took them.
func RateLimit(bucket string, n, rate, burst float64) (wait float64) {
	return hostRateLimit(bucket, n, rate, burst)
}
