package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the other processes too: the driver starts itself
// again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"agent", "etcd", "nats", "registryd", "fleet-worker"}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

func calls(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newCallsCommand()
	cmd.SetArgs(append([]string{"--duration", "20ms", "--rounds", "2", "--connections", "1,3", "--pipeline", "1,4"}, args...))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCallsMeasuresEveryProtocol(t *testing.T) {
	out, err := calls(t, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Environment environment
		Rows        []row
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"resp": 4, "http": 2, "grpc": 2, "grpc-client": 2}
	if _, err := exec.LookPath("redis-server"); err == nil {
		want["redis"] = 4
	}
	got := map[string]int{}
	for _, r := range report.Rows {
		got[r.Protocol]++
		if r.Rate <= 0 || r.P50 <= 0 || r.P99 < r.P50 {
			t.Errorf("impossible figures: %+v", r)
		}
		if (r.Ratio != nil) != (want["redis"] > 0) {
			t.Errorf("ratio %v with Redis %q", r.Ratio, report.Environment.Redis)
		}
	}
	for protocol, n := range want {
		if got[protocol] != n {
			t.Errorf("%s has %d rows, want %d", protocol, got[protocol], n)
		}
	}
}

func TestCallsPrintsATable(t *testing.T) {
	out, err := calls(t, "--redis", "off", "--protocols", "resp,http")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no Redis, so no ratios", "calls/s", "resp", "http"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table does not say %q:\n%s", want, out)
		}
	}
}

func TestCallsRefusesBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--rounds", "0"},
		{"--duration", "0s"},
		{"--connections", "0"},
		{"--pipeline", "-1"},
		{"-o", "xml"},
		{"--protocols", "spdy"},
		{"--redis", "/nonexistent/redis-server"},
		{"--socket-dir", "/nonexistent"},
	} {
		if out, err := calls(t, args...); err == nil {
			t.Errorf("%q was accepted:\n%s", args, out)
		}
	}
}

func TestHistogram(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var h, other histogram
	var all []time.Duration
	for i := range 10_000 {
		d := time.Duration(r.ExpFloat64() * 1e5)
		all = append(all, d)
		if i%2 == 0 {
			h.add(d, 1)
		} else {
			other.add(d, 1)
		}
	}
	h.merge(&other)
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.99, 0.9999} {
		exact := all[int(q*float64(len(all)))]
		if got := h.quantile(q); got < exact || float64(got) > float64(exact)*(1+1.0/perPower)+1 {
			t.Errorf("quantile %v is %v, exactly %v", q, got, exact)
		}
	}
	for ns := uint64(1); ns < 1<<62; ns += ns/7 + 1 {
		if bucket := bucketOf(ns); upperOf(bucket) < ns || bucket > 0 && upperOf(bucket-1) >= ns {
			t.Fatalf("%d is in bucket %d, which ends at %d", ns, bucket, upperOf(bucket))
		}
	}
}

func TestReplies(t *testing.T) {
	for _, tt := range []struct {
		reply func([]byte) (int, []byte, error)
		in    string
		n     int
		want  string
		fails bool
	}{
		{respReply, "$2\r\n{}\r\n$2", 8, "{}", false},
		{respReply, "$2\r\n{}\r", 0, "", false},
		{respReply, "$", 0, "", false},
		{respReply, "-TIMEOUT x\r\n", 12, "", false},
		{respReply, ":1\r\n", 0, "", true},
		{httpReply, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\n{}HTTP", 46, "{}", false},
		{httpReply, "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\n{", 0, "", false},
		{httpReply, "HTTP/1.1 504 X\r\nContent-Length: 2\r\n\r\n{}", 39, "", false},
		{httpReply, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "", true},
	} {
		n, got, err := tt.reply([]byte(tt.in))
		if n != tt.n || string(got) != tt.want || (err != nil) != tt.fails {
			t.Errorf("%q: got %d, %q, %v", tt.in, n, got, err)
		}
	}
}

func TestNeighbours(t *testing.T) {
	cmd := newNeighboursCommand()
	cmd.SetArgs([]string{"--duration", "50ms", "--rounds", "1", "--protocols", "resp", "--neighbours", "2", "-o", "json"})
	var out bytes.Buffer
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []neighbourhood
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i, s := range got {
		if s.Admission != (i < 2) || s.Neighbours != i%2*2 || s.Rate <= 0 || s.P99 < s.P50 || s.Ratio <= 0 {
			t.Errorf("impossible figures: %+v", s)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d situations", len(got))
	}
	for _, args := range [][]string{{"--neighbours", "0"}, {"--spin", "nothing"}, {"-o", "xml"}, {"--rounds", "0"}} {
		cmd := newNeighboursCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestBenchTable(t *testing.T) {
	cmd := newBenchTableCommand()
	cmd.SetArgs(nil)
	cmd.SetIn(strings.NewReader("goos: linux\nBenchmarkBareGopherLua-2 100 60.0 ns/op 0 B/op 0 allocs/op\n" +
		"BenchmarkTypical-2 10 4000 ns/op 2000 B/op 20 allocs/op\nBenchmarkTypical-2 10 6000 ns/op 2000 B/op 20 allocs/op\nPASS\n"))
	var out bytes.Buffer
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "| Typical | 5 µs | 4 µs | 83.3 | 2000 B | 20 |\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%s\nwant its end to be %s", out.String(), want)
	}
	cmd.SetIn(strings.NewReader("FAIL\n"))
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("nothing was taken for benchmarks")
	}
}
