//go:build linux && !amd64 && !arm64

package confine

// auditArch is none: the filter would be of another architecture, and is refused.
const auditArch = 0

var alwaysHere []uintptr
