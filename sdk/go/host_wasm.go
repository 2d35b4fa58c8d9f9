package scriptorium

import "unsafe"

// argument and result keep what the agent writes and reads from the garbage collector.
var (
	argument []byte
	result   string
)

//go:wasmexport scriptorium_alloc
func allocate(size int32) unsafe.Pointer {
	argument = make([]byte, max(size, 1))
	return unsafe.Pointer(&argument[0])
}

//go:wasmexport handle
func handle(address unsafe.Pointer, length int32) int64 {
	result = call(unsafe.String((*byte)(address), length))
	if result == "" {
		return 0
	}
	return int64(uintptr(unsafe.Pointer(unsafe.StringData(result))))<<32 | int64(len(result))
}

//go:wasmimport scriptorium log
func importLog(level uint32, text unsafe.Pointer, length uint32)

//go:wasmimport scriptorium fail
func importFail(text unsafe.Pointer, length uint32)

//go:wasmimport scriptorium config
func importConfig(buffer unsafe.Pointer, capacity uint32) int32

//go:wasmimport scriptorium kv_get
func importKVGet(key unsafe.Pointer, length uint32, buffer unsafe.Pointer, capacity uint32) int32

//go:wasmimport scriptorium kv_keys
func importKVKeys(prefix unsafe.Pointer, prefixLength uint32, after unsafe.Pointer, afterLength, limit uint32, buffer unsafe.Pointer, capacity uint32) int32

//go:wasmimport scriptorium counter_add
func importCounterAdd(name unsafe.Pointer, length uint32, n float64) float64

//go:wasmimport scriptorium ratelimit_take
func importRateLimit(bucket unsafe.Pointer, length uint32, n, rate, burst float64) float64

func hostLog(level uint32, text string) { importLog(level, pointer(text), uint32(len(text))) }

func hostFail(text string) { importFail(pointer(text), uint32(len(text))) }

func hostConfig() string {
	text, _ := read(importConfig)
	return text
}

func hostKVGet(key string) (string, bool) {
	return read(func(buffer unsafe.Pointer, capacity uint32) int32 {
		return importKVGet(pointer(key), uint32(len(key)), buffer, capacity)
	})
}

func hostKVKeys(prefix, after string, limit int) string {
	text, _ := read(func(buffer unsafe.Pointer, capacity uint32) int32 {
		return importKVKeys(pointer(prefix), uint32(len(prefix)), pointer(after), uint32(len(after)), uint32(limit), buffer, capacity)
	})
	return text
}

func hostCounterAdd(name string, n float64) float64 {
	return importCounterAdd(pointer(name), uint32(len(name)), n)
}

func hostRateLimit(bucket string, n, rate, burst float64) float64 {
	return importRateLimit(pointer(bucket), uint32(len(bucket)), n, rate, burst)
}

func pointer(text string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(text)) }

// read calls f again with a larger buffer until the text fits. The text may change in between.
func read(f func(buffer unsafe.Pointer, capacity uint32) int32) (text string, ok bool) {
	for size := int32(1024); ; {
		buffer := make([]byte, size)
		length := f(unsafe.Pointer(&buffer[0]), uint32(size))
		if length < 0 {
			return "", false
		}
		if length <= size {
			return unsafe.String(&buffer[0], length), true
		}
		size = length
	}
}
