package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// rule allows a system call if all of the checks hold. Several rules of one call
// allow it if one of them does.
type rule struct {
	nr     uintptr
	checks []check
}

// check holds if the low half of the argument, with the mask, is the value, or is not.
// All that is checked here are ints and flags, of which the kernel looks at no more.
type check struct {
	arg         int
	mask, value uint32
	not         bool
}

func is(arg int, value uint32) check { return check{arg: arg, mask: ^uint32(0), value: value} }

func isNot(arg int, value uint32) check {
	return check{arg: arg, mask: ^uint32(0), value: value, not: true}
}

func without(arg int, bits uint32) check { return among(arg, bits, 0) }

func with(arg int, bits uint32) check { return among(arg, bits, bits) }

// among holds if of all these bits exactly those of value are set.
func among(arg int, all, value uint32) check { return check{arg: arg, mask: all, value: value} }

// Offsets in the kernel's struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
	wordBytes    = 4
)

// threadFlags are what makes a clone a thread of the process and no process.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD

// Memory that no limit of a process counts: a stack that grows by itself, and huge
// pages. Nor does one count what is anonymous and shared.
const uncounted = unix.MAP_GROWSDOWN | unix.MAP_HUGETLB

// rules say what a process may do once it is confined: use the descriptors that it
// has or is handed, have memory that holds no code, threads and time. It can open,
// create, connect to, look at and signal nothing. It can hand no descriptor out, and is
// handed some over the receiver alone, in whose place it can put no other.
func rules(pid, receiver int) []rule {
	list := make([]rule, 0, len(always)+len(alwaysHere)+16)
	for _, nr := range append(always, alwaysHere...) {
		list = append(list, rule{nr: nr})
	}
	self := uint32(pid)
	list = append(list,
		rule{unix.SYS_MMAP, []check{without(2, unix.PROT_EXEC), among(3, uncounted|unix.MAP_ANONYMOUS|unix.MAP_TYPE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)}},
		rule{unix.SYS_MMAP, []check{without(2, unix.PROT_EXEC), without(3, uncounted|unix.MAP_ANONYMOUS)}},
		rule{unix.SYS_RECVMSG, []check{is(0, uint32(receiver))}},
		rule{unix.SYS_CLOSE, []check{isNot(0, uint32(receiver))}},
		rule{unix.SYS_MPROTECT, []check{without(2, unix.PROT_EXEC)}},
		rule{unix.SYS_CLONE, []check{with(0, threadFlags)}},
		rule{unix.SYS_TGKILL, []check{is(0, self)}},
		rule{unix.SYS_KILL, []check{is(0, self)}},
		rule{unix.SYS_PRLIMIT64, []check{is(0, 0)}},
		rule{unix.SYS_PRCTL, []check{is(0, unix.PR_SET_VMA)}},
	)
	// Others would let signals be sent by way of a socket.
	for _, cmd := range []uint32{unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL} {
		list = append(list, rule{unix.SYS_FCNTL, []check{is(1, cmd)}})
	}
	return list
}

// always are the calls that are allowed with any arguments; the frequent first. The
// tenant's sockets are those of the processes that come after, too: they cannot be shut
// down or changed.
var always = []uintptr{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_FUTEX, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL,
	unix.SYS_NANOSLEEP, unix.SYS_SCHED_YIELD, unix.SYS_MADVISE, unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_ACCEPT4,
	unix.SYS_GETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EVENTFD2, unix.SYS_PPOLL, unix.SYS_FSTAT,
	unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRUSAGE,
	unix.SYS_GETRANDOM, unix.SYS_SCHED_GETAFFINITY, unix.SYS_RESTART_SYSCALL,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_MEMBARRIER,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// program returns the filter: what no rule allows fails with EPERM, and a call by
// another architecture's numbers ends the process.
func program(arch uint32, list []rule) ([]unix.SockFilter, error) {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: wordBytes},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
	}
	for _, r := range list {
		allow := []bpf.Instruction{bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}}
		for i := len(r.checks) - 1; i >= 0; i-- {
			c := r.checks[i]
			fails := bpf.JumpNotEqual
			if c.not {
				fails = bpf.JumpEqual
			}
			allow = append([]bpf.Instruction{
				bpf.LoadAbsolute{Off: offsetArgs + 2*wordBytes*uint32(c.arg), Size: wordBytes},
				bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask},
				bpf.JumpIf{Cond: fails, Val: c.value, SkipTrue: uint8(len(allow))},
			}, allow...)
		}
		prog = append(prog,
			bpf.LoadAbsolute{Off: offsetNumber, Size: wordBytes},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(r.nr), SkipTrue: uint8(len(allow))})
		prog = append(prog, allow...)
	}
	prog = append(prog,
		// Its flags are in memory, where no filter sees them. A C library that gets ENOSYS
		// makes its threads by clone.
		bpf.LoadAbsolute{Off: offsetNumber, Size: wordBytes},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("assemble the filter of system calls: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return filter, nil
}

// filterSystemCalls bounds the system calls of all threads, there and to come, for good.
func filterSystemCalls(pid, receiver int) error {
	filter, err := program(auditArch, rules(pid, receiver))
	if err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	failed, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("filter the system calls: %w", errno)
	}
	if failed != 0 {
		return fmt.Errorf("filter the system calls: thread %d has a filter of its own", failed)
	}
	return nil
}
