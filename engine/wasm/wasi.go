package wasm

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// wasiModule is preview 1 of WASI. There are a clock, random numbers and lines to log, and nothing else.
const wasiModule = "wasi_snapshot_preview1"

// The numbers of errors that functions return.
const (
	errnoSuccess = 0
	errnoBadFD   = 8
	errnoInvalid = 28
	errnoNoSys   = 52
)

// absent are the functions that exist so that modules link, with the letters of their parameters. They return
// errnoBadFD, for there are no files, or errnoNoSys.
var absent = []string{
	"fd_advise iIIi", "fd_allocate iII", "fd_close i", "fd_datasync i", "fd_fdstat_set_flags ii", "fd_fdstat_set_rights iII",
	"fd_filestat_get ii", "fd_filestat_set_size iI", "fd_filestat_set_times iIIi", "fd_pread iiiIi", "fd_prestat_dir_name iii",
	"fd_prestat_get ii", "fd_pwrite iiiIi", "fd_read iiii", "fd_readdir iiiIi", "fd_renumber ii", "fd_seek iIii", "fd_sync i", "fd_tell ii",
	"path_create_directory iii", "path_filestat_get iiiii", "path_filestat_set_times iiiiIIi", "path_link iiiiiii",
	"path_open iiiiiIIii", "path_readlink iiiiii", "path_remove_directory iii", "path_rename iiiiii", "path_symlink iiiii",
	"path_unlink_file iii", "proc_raise i", "sock_accept iii", "sock_recv iiiiii", "sock_send iiiii", "sock_shutdown ii",
}

func wasi() []sandbox.Import {
	list := []sandbox.Import{
		wasiFunction("args_get", "ii", func(*sandbox.Call, []uint64) uint64 { return errnoSuccess }),
		wasiFunction("args_sizes_get", "ii", noneOfThem),
		wasiFunction("environ_get", "ii", func(*sandbox.Call, []uint64) uint64 { return errnoSuccess }),
		wasiFunction("environ_sizes_get", "ii", noneOfThem),
		wasiFunction("clock_res_get", "ii", clockResolution),
		wasiFunction("clock_time_get", "iIi", clockTime),
		wasiFunction("fd_fdstat_get", "ii", fdStat),
		wasiFunction("fd_write", "iiii", fdWrite),
		wasiFunction("poll_oneoff", "iiii", poll),
		wasiFunction("random_get", "ii", randomGet),
		wasiFunction("sched_yield", "", func(*sandbox.Call, []uint64) uint64 { return errnoSuccess }),
	}
	params, results := valueTypes("i:")
	list = append(list, sandbox.Import{Module: wasiModule, Name: "proc_exit", Params: params, Results: results, Call: procExit})
	for _, line := range absent {
		name, types, _ := strings.Cut(line, " ")
		errno := uint64(errnoNoSys)
		if strings.HasPrefix(name, "fd_") || strings.HasPrefix(name, "path_") || strings.HasPrefix(name, "sock_") {
			errno = errnoBadFD
		}
		list = append(list, wasiFunction(name, types, func(*sandbox.Call, []uint64) uint64 { return errno }))
	}
	return list
}

func wasiFunction(name, types string, call func(c *sandbox.Call, stack []uint64) uint64) sandbox.Import {
	params, results := valueTypes(types + ":i")
	return sandbox.Import{Module: wasiModule, Name: name, Params: params, Results: results, Call: func(c *sandbox.Call, stack []uint64) {
		errno := call(c, stack) // which may be without parameters, and stack then has room for the result
		stack[0] = errno
	}}
}

// put64 writes a number of 8 bytes.
func put64(c *sandbox.Call, address, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	c.Write(uint32(address), b[:])
}

func put32(c *sandbox.Call, address uint64, v uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	c.Write(uint32(address), b[:])
}

// noneOfThem says that there are no arguments, and no variables of the environment.
func noneOfThem(c *sandbox.Call, stack []uint64) uint64 {
	put32(c, stack[0], 0)
	put32(c, stack[1], 0)
	return errnoSuccess
}

// The clocks.
const (
	realtime = 0
	cpuTime  = 3 // the last one; 1 is monotonic, and those of processors count as that
)

func clockResolution(c *sandbox.Call, stack []uint64) uint64 {
	if uint32(stack[0]) > cpuTime {
		return errnoInvalid
	}
	put64(c, stack[1], uint64(time.Microsecond))
	return errnoSuccess
}

func clockTime(c *sandbox.Call, stack []uint64) uint64 {
	c.Charge(hostCost)
	now := time.Now()
	if c.Inv.Clock != nil { // it stands still
		now = c.Inv.Clock()
	}
	switch clock := uint32(stack[0]); {
	case clock > cpuTime:
		return errnoInvalid
	case clock != realtime && c.Inv.Clock == nil:
		put64(c, stack[2], uint64(time.Since(c.Epoch())))
	default:
		put64(c, stack[2], uint64(now.UnixNano()))
	}
	return errnoSuccess
}

// poll says that all clocks have rung, since nobody may sleep, and that no file is there. Go's runtime ends without a
// word if it cannot sleep while it panics.
func poll(c *sandbox.Call, stack []uint64) uint64 {
	const (
		subscriptionBytes, eventBytes = 48, 32
		atTag, atErrno, atType        = 8, 8, 10
		clock                         = 0
	)
	subscriptions, events, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	if n == 0 || n > maxVectors {
		return errnoInvalid
	}
	c.Charge(hostCost * int(n))
	for i := range n {
		s := c.Read(subscriptions+i*subscriptionBytes, subscriptionBytes)
		var event [eventBytes]byte
		copy(event[:8], s) // what the module knows it by
		event[atType] = s[atTag]
		if s[atTag] != clock {
			event[atErrno] = errnoBadFD
		}
		c.Write(events+i*eventBytes, event[:])
	}
	put32(c, stack[3], n)
	return errnoSuccess
}

// randomAtOnce is how many bytes are made before the call looks at its turn.
const randomAtOnce = 4 << 10

func randomGet(c *sandbox.Call, stack []uint64) uint64 {
	address, n := uint32(stack[0]), uint32(stack[1])
	c.Read(address, n) // all of it has to be there
	buf := make([]byte, min(n, randomAtOnce))
	for n > 0 {
		part := buf[:min(n, randomAtOnce)]
		c.Charge(hostCost + len(part)/slowBytes)
		if source := c.Inv.Random; source != nil {
			for rest := part; len(rest) > 0; {
				var number [8]byte
				binary.LittleEndian.PutUint64(number[:], source.Uint64())
				rest = rest[copy(rest, number[:]):]
			}
		} else {
			_, _ = rand.Read(part) // never fails
		}
		c.Write(address, part)
		address, n = address+uint32(len(part)), n-uint32(len(part))
	}
	return errnoSuccess
}

// fdStat says that 1 and 2 are terminals, so that C libraries write whole lines at once.
func fdStat(c *sandbox.Call, stack []uint64) uint64 {
	if fd := uint32(stack[0]); fd != 1 && fd != 2 {
		return errnoBadFD
	}
	const (
		characterDevice = 2
		mayWrite        = 1 << 6
	)
	var stat [24]byte
	stat[0] = characterDevice
	binary.LittleEndian.PutUint64(stat[8:], mayWrite)
	c.Write(uint32(stack[1]), stat[:])
	return errnoSuccess
}

// maxVectors is how many pieces one write may have, as in Linux.
const maxVectors = 1024

func fdWrite(c *sandbox.Call, stack []uint64) uint64 {
	fd, vectors, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	switch {
	case fd != 1 && fd != 2:
		return errnoBadFD
	case n > maxVectors:
		return errnoInvalid
	}
	c.Charge(int(n))
	var written uint32
	out := &stateOf(c).out[fd-1]
	for i := range n {
		vector := c.Read(vectors+8*i, 8)
		piece := c.Read(binary.LittleEndian.Uint32(vector), binary.LittleEndian.Uint32(vector[4:]))
		c.Charge(len(piece)) // each is looked at, and may be escaped
		out.write(c, outLevel(fd), piece)
		written += uint32(len(piece))
	}
	put32(c, stack[3], written)
	return errnoSuccess
}

func outLevel(fd uint32) engine.Level {
	if fd == 2 {
		return engine.Error
	}
	return engine.Info
}

// output is what a module wrote and that is not a whole line yet.
type output struct {
	line  []byte
	panic string // the line with which a language says why the module ends
	whole bool   // panic has the line that follows, if it needs that
}

// write logs all lines that are whole, or too long.
func (o *output) write(c *sandbox.Call, level engine.Level, piece []byte) {
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n')
		part := piece
		if end >= 0 {
			part = piece[:end]
		}
		if room := hostapi.MaxLine - len(o.line); len(part) > room {
			part = part[:room]
			piece = piece[room:]
			o.line = append(o.line, part...)
			o.end(c, level)
			continue
		}
		o.line = append(o.line, part...)
		if end < 0 {
			return
		}
		o.end(c, level)
		piece = piece[end+1:]
	}
}

// end charges for the line, and logs it.
func (o *output) end(c *sandbox.Call, level engine.Level) {
	if len(o.line) > 0 {
		c.Charge(hostapi.LogCost)
	}
	o.flush(c, level)
}

// flush logs the line.
func (o *output) flush(c *sandbox.Call, level engine.Level) {
	line := string(o.line)
	o.line = o.line[:0]
	if line == "" {
		return
	}
	switch {
	case strings.HasSuffix(o.panic, ":") && !o.whole: // Rust says why in the next line, and in no other
		o.panic, o.whole = o.panic+" "+line, true
	case o.panic == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.Contains(line, " panicked at ")):
		o.panic = line
	}
	if c.Inv.Host != nil && !stateOf(c).quiet() {
		var visible hostapi.Line
		visible.Text(line)
		c.Inv.Host.Log(c.Inv, level, visible.String())
	}
}

// finish logs what is left when a call ends.
func finish(c *sandbox.Call) {
	if s, ok := c.State.(*state); ok {
		s.out[0].flush(c, engine.Info)
		s.out[1].flush(c, engine.Error)
	}
}

// lastWords returns what the module has written about why it ends; "" if nothing.
func lastWords(c *sandbox.Call) string {
	if s, ok := c.State.(*state); ok {
		return s.out[1].panic
	}
	return ""
}

func procExit(c *sandbox.Call, stack []uint64) {
	finish(c)
	c.Fail(script.Errorf(script.Script, "", "the module ended by proc_exit with the status %d", uint32(stack[0])))
}
