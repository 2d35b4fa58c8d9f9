// Command goguest is a script in Go, written against the contract without an SDK. Its argument says what it does.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"
	"unsafe"
)

func main() {}

//go:wasmimport scriptorium config
func hostConfig(buf unsafe.Pointer, room uint32) uint32

//go:wasmimport scriptorium kv_get
func hostGet(key unsafe.Pointer, keyLen uint32, buf unsafe.Pointer, room uint32) int32

// held keeps memory that was handed out, for as long as the call lasts.
var held [][]byte

//go:wasmexport scriptorium_alloc
func alloc(size uint32) uint32 {
	b := make([]byte, max(size, 1))
	held = append(held, b)
	return uint32(uintptr(unsafe.Pointer(&b[0])))
}

type request struct {
	Do   string          `json:"do"`
	Text string          `json:"text"`
	N    int             `json:"n"`
	Echo json.RawMessage `json:"echo"`
}

var count int

//go:wasmexport handle
func handle(address, length uint32) uint64 {
	var r request
	if err := json.Unmarshal(unsafe.Slice((*byte)(unsafe.Pointer(uintptr(address))), length), &r); err != nil {
		return result(map[string]any{"error": err.Error()})
	}
	return result(do(r))
}

func do(r request) any {
	count++
	switch r.Do {
	case "panic":
		panic(r.Text)
	case "exit":
		os.Exit(r.N)
	case "spin":
		for {
			count++
		}
	case "grow":
		return len(make([]byte, r.N))
	case "print":
		fmt.Println(r.Text)
		fmt.Fprintln(os.Stderr, r.Text)
		return nil
	case "count":
		return count
	case "now":
		return time.Now().UTC().Format(time.RFC3339Nano)
	case "random":
		var b [8]byte
		rand.Read(b[:])
		return hex.EncodeToString(b[:])
	case "environ":
		return append(os.Environ(), os.Args...)
	case "open":
		_, err := os.ReadFile(r.Text)
		return err.Error()
	case "config":
		buf := make([]byte, 4096)
		return json.RawMessage(buf[:hostConfig(unsafe.Pointer(&buf[0]), uint32(len(buf)))])
	case "get":
		key, buf := []byte(r.Text), make([]byte, 4096)
		n := hostGet(unsafe.Pointer(&key[0]), uint32(len(key)), unsafe.Pointer(&buf[0]), uint32(len(buf)))
		if n < 0 {
			return nil
		}
		return string(buf[:n])
	}
	return r.Echo
}

func result(v any) uint64 {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	held = append(held, b)
	return uint64(uintptr(unsafe.Pointer(&b[0])))<<32 | uint64(len(b))
}
