package link_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestFrames(t *testing.T) {
	var wire []byte
	var err error
	want := []*workerv1.ExecuteRequest{{Script: "acme/a", Args: [][]byte{[]byte("1"), make([]byte, 100_000)}}, {}, {Script: "acme/b", Traceparent: "x"}}
	for i, m := range want {
		if wire, err = link.AppendFrame(link.AppendTimeout(wire, time.Duration(i)*time.Second), m); err != nil {
			t.Fatal(err)
		}
	}
	r, buf := bytes.NewReader(wire), []byte(nil)
	for i, m := range want {
		var got workerv1.ExecuteRequest
		timeout, err := link.ReadTimeout(r)
		if err != nil || timeout != time.Duration(i)*time.Second {
			t.Errorf("%v, %v", timeout, err)
		}
		if buf, err = link.ReadFrame(r, link.MaxMessage, buf, &got); err != nil || !proto.Equal(&got, m) {
			t.Errorf("frame %d: %v", i, err)
		}
	}
	if _, err := link.AppendFrame(nil, &workerv1.ExecuteRequest{Args: [][]byte{make([]byte, link.MaxMessage)}}); script.KindOf(err) != script.Limit {
		t.Errorf("too large: %v", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	frame, err := link.AppendFrame(nil, &workerv1.ExecuteResponse{Results: [][]byte{[]byte("1")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	f.Add([]byte{255, 255, 255, 255, 0})
	f.Fuzz(func(_ *testing.T, b []byte) {
		var m workerv1.ExecuteResponse
		_, _ = link.ReadFrame(bytes.NewReader(b), 1000, nil, &m)
	})
}

// TestALengthAloneCostsNothing: who only says that there is much to come gets no memory
// for it.
func TestALengthAloneCostsNothing(t *testing.T) {
	var m workerv1.ExecuteResponse
	for _, tt := range []struct {
		name  string
		size  uint32
		sends int
		most  uint64 // bytes
	}{
		{"nothing comes", link.MaxMessage, 0, 64 << 10},
		{"some comes", link.MaxMessage, 100_000, 512 << 10},
		{"more than is allowed", link.MaxMessage + 1, 1 << 20, 64 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wire := append(binary.BigEndian.AppendUint32(nil, tt.size), make([]byte, tt.sends)...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := link.ReadFrame(bytes.NewReader(wire), link.MaxMessage, nil, &m)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("it is a frame")
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > tt.most {
				t.Errorf("it cost %d bytes", got)
			}
		})
	}
	frame, err := link.AppendFrame(nil, &workerv1.ExecuteResponse{Results: [][]byte{make([]byte, 2000)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := link.ReadFrame(bytes.NewReader(frame), 1000, nil, &m); err == nil {
		t.Error("a frame is read that is larger than the reader takes")
	}
}

// TestManyResultsOfNothing: an answer does not take far more than its bytes.
func TestManyResultsOfNothing(t *testing.T) {
	for results, ok := range map[int]bool{10_000: true, 500_000: false} {
		frame, err := link.AppendFrame(nil, &workerv1.ExecuteResponse{Results: make([][]byte, results)})
		if err != nil {
			t.Fatal(err)
		}
		var m workerv1.ExecuteResponse
		if _, err := link.ReadFrame(bytes.NewReader(frame), link.MaxMessage, nil, &m); (err == nil) != ok {
			t.Errorf("%d results: %v", results, err)
		}
	}
}

// TestPage: what one side writes, the other reads, though each has mapped it for itself.
func TestPage(t *testing.T) {
	agent, file, err := link.NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	process, err := link.MapPage(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(0); err == nil {
		t.Error("the page can be cut off")
	}
	a, b := link.MarkScript(script.Name{Tenant: "acme", Script: "a"}), link.MarkSource(script.DigestOf([]byte("b")))
	first := process.Enter(a)
	second, again := process.Enter(b), process.Enter(a)
	process.Beat()
	if got := agent.Running(); len(got) != 2 || !got[a] || !got[b] || agent.Beats() != 1 {
		t.Errorf("running %v, %d beats", got, agent.Beats())
	}
	process.Leave(second)
	process.Leave(first)
	if got := agent.Running(); len(got) != 1 || !got[a] {
		t.Errorf("running %v", got)
	}
	process.Leave(again)
	var slots []int
	for range 5000 { // more than there is room for
		slots = append(slots, process.Enter(b))
	}
	for _, slot := range slots {
		process.Leave(slot)
	}
	if got := agent.Running(); len(got) != 0 {
		t.Errorf("running %v", got)
	}
	if err := process.Close(); err != nil {
		t.Error(err)
	}
	if err := agent.Close(); err != nil {
		t.Error(err)
	}
}
