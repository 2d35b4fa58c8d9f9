package query_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
)

// TestAnAgentStartsAgain: who asks one incarnation does not wait for the next.
func TestAnAgentStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAir(&agent{name: "n1", incarnation: "second"})
		q := question()
		q.Agents, q.Incarnation = []string{"n1"}, "first"
		begun := time.Now()
		result, err := a.asker().Ask(t.Context(), q, func(query.Part) {})
		if err != nil || time.Since(begun) != time.Second || !slices.Equal(result.Silent, q.Agents) || !slices.Equal(result.Gone, q.Agents) {
			t.Errorf("%+v, %v after %v", result, err, time.Since(begun))
		}
	})
}

// TestAnotherIncarnationAnswers: a question for one incarnation has no answer of another one, which runs beside it for a while.
func TestAnotherIncarnationAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := &agent{name: "n1", identity: "agents", incarnation: "first"}
		now := &agent{name: "n1", incarnation: "second", answer: func(a *agent, q *eventv1.Query) {
			before.say(q, nil, "of before")
			a.say(q, nil, "of now")
		}}
		a := newAir(now)
		before.air = a
		for incarnation, want := range map[string]string{"second": "map[n1:[of now]]", "": "map[n1:[of before]]"} {
			q, got := question(), collected{}
			q.Agents, q.Incarnation = []string{"n1"}, incarnation
			result, err := a.asker().Ask(t.Context(), q, got.take)
			if err != nil || fmt.Sprint(got) != want || !slices.Equal(result.Answered, q.Agents) {
				t.Errorf("for %q: %v, %+v, %v; want %s", incarnation, got, result, err, want)
			}
		}
	})
}

// TestManyAgentsLeave: their names are sorted.
func TestManyAgentsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var agents []*agent
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("n%02d", i))
			agents = append(agents, &agent{name: names[i]})
		}
		a := newAir(agents...)
		go func() {
			<-time.After(500 * time.Millisecond)
			for _, name := range names {
				a.remove(name)
			}
		}()
		result, err := a.asker().Ask(t.Context(), question(), func(query.Part) {})
		if err != nil || !slices.Equal(result.Silent, names) || !slices.Equal(result.Gone, names) {
			t.Errorf("%+v, %v", result, err)
		}
	})
}
