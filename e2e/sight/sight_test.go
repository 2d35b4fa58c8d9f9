package sight_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

func ask(t *testing.T, log *sight.Log, query string) sight.Report {
	t.Helper()
	answer := httptest.NewRecorder()
	log.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/sights?"+query, nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, answer.Code, answer.Body)
	}
	var report sight.Report
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestLogTellsEachStateOnce(t *testing.T) {
	log := sight.NewLog("node1")
	began := time.Now()
	one, two := sight.State{Content: "one", Version: 1}, sight.State{Content: "two", Version: 2}
	for i, state := range []sight.State{one, one, two, two, one} {
		log.See("acme/route", state, began.Add(time.Duration(i)))
	}
	log.See(sight.File, one, began)

	report := ask(t, log, "")
	want := []struct {
		of    string
		state sight.State
		at    time.Duration
	}{{"acme/route", one, 0}, {"acme/route", two, 2}, {"acme/route", one, 4}, {sight.File, one, 0}}
	if len(report.Sights) != len(want) || report.Next != len(want) || report.Node != "node1" {
		t.Fatalf("got %+v", report)
	}
	for i, w := range want {
		s := report.Sights[i]
		if s.Of != w.of || s.State != w.state || !s.At.Equal(began.Add(w.at)) {
			t.Errorf("sight %d is %+v, want %+v", i, s, w)
		}
	}
	if rest := ask(t, log, "from=3"); len(rest.Sights) != 1 || rest.Sights[0].Of != sight.File {
		t.Errorf("from 3: %+v", rest.Sights)
	}
}

func TestLogWaitsForTheNextSight(t *testing.T) {
	log := sight.NewLog("node1")
	log.See("acme/route", sight.State{Version: 1}, time.Now())
	told := make(chan sight.Report)
	go func() { told <- ask(t, log, "from=1&wait=1m") }()
	log.See("acme/route", sight.State{Version: 2}, time.Now())
	if report := <-told; len(report.Sights) != 1 || report.Sights[0].Version != 2 {
		t.Errorf("got %+v", report.Sights)
	}
	if report := ask(t, log, "from=2&wait=1ms"); len(report.Sights) != 0 || report.Next != 2 {
		t.Errorf("nothing new: got %+v", report)
	}
}

func TestLogCountsCalls(t *testing.T) {
	log := sight.NewLog("node1")
	log.Answered("acme/route", 3*time.Millisecond)
	log.Answered("acme/route", time.Millisecond)
	log.Failed("acme/route", "UNAVAILABLE", "no agent")
	calls := ask(t, log, "").Calls["acme/route"]
	if calls.Answered != 2 || calls.Failed["UNAVAILABLE"] != 1 || calls.LastErr != "no agent" || calls.Longest != 3*time.Millisecond {
		t.Errorf("got %+v", calls)
	}
}

func TestLogRefusesNonsense(t *testing.T) {
	for _, query := range []string{"from=x", "from=-1", "wait=soon"} {
		answer := httptest.NewRecorder()
		sight.NewLog("").ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/sights?"+query, nil))
		if answer.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, answer.Code)
		}
	}
}
