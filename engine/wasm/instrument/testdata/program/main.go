// Command program does work of several kinds, for the tests and benchmarks of the rewriter.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// work runs one kind of work, for benchmarks.
//
//go:wasmexport work
func work(which int32) int32 {
	return int32(len([]func() string{hash, transform, sorted, match, recursion}[which]()))
}

func main() {
	which, n := os.Args[1], 1
	if len(os.Args) > 2 {
		n, _ = strconv.Atoi(os.Args[2])
	}
	for range n {
		for _, w := range []struct {
			name string
			f    func() string
		}{{"sha256", hash}, {"json", transform}, {"sort", sorted}, {"regexp", match}, {"recursion", recursion}, {"panic", recovered}, {"goroutines", goroutines}} {
			if which == "all" || which == w.name {
				fmt.Println(w.name, w.f())
			}
		}
	}
}

func hash() string {
	b := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

func transform() string {
	type item struct {
		Name string         `json:"name"`
		Tags []string       `json:"tags"`
		More map[string]any `json:"more"`
	}
	var items []item
	for i := range 100 {
		items = append(items, item{"item " + strconv.Itoa(i), strings.Split("a,b,c,d", ","), map[string]any{"n": i, "f": 1.5, "deep": []any{nil, true}}})
	}
	var total int
	for range 5 {
		b, err := json.Marshal(items)
		if err != nil {
			return err.Error()
		}
		items = nil
		if err := json.Unmarshal(b, &items); err != nil {
			return err.Error()
		}
		total += len(b)
	}
	return strconv.Itoa(total)
}

func sorted() string {
	n := make([]int, 20000)
	x := uint32(1)
	for i := range n {
		x = x*1664525 + 1013904223
		n[i] = int(x >> 8)
	}
	sort.Ints(n)
	return fmt.Sprint(n[0], n[len(n)/2], n[len(n)-1])
}

func match() string {
	re := regexp.MustCompile(`(\w+)@(\w+)\.(com|org)`)
	s := strings.Repeat("someone@example.org and nobody ", 200)
	return strconv.Itoa(len(re.FindAllString(s, -1)))
}

func recursion() string {
	var f func(n int) int
	f = func(n int) int {
		if n < 2 {
			return n
		}
		return f(n-1) + f(n-2)
	}
	var deep func(n int) int
	deep = func(n int) int {
		if n == 0 {
			return 0
		}
		return 1 + deep(n-1)
	}
	return fmt.Sprint(f(20), deep(1000))
}

func recovered() (s string) {
	defer func() { s = fmt.Sprint(recover()) }()
	var p []int
	return strconv.Itoa(p[len(os.Args)+5])
}

func goroutines() string {
	c := make(chan int)
	for i := range 50 {
		go func() { c <- i * i }()
	}
	sum := 0
	for range 50 {
		sum += <-c
	}
	return strconv.Itoa(sum)
}
