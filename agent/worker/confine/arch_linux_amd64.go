package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// alwaysHere are calls of this architecture alone.
var alwaysHere = []uintptr{unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL, unix.SYS_TIME}
