package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// alwaysHere are calls of this architecture alone.
var alwaysHere []uintptr
