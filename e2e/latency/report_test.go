package main

import (
	"strings"
	"testing"
	"time"
)

func TestQuantileIsOneOfTheValues(t *testing.T) {
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.9: 90, 0.99: 99, 1: 100} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if got := quantile(values[:1], 0.99); got != 1 {
		t.Errorf("of one value: %d", got)
	}
}

func samplesOfEachWay() []sample {
	start := time.Now()
	nodes := func(a, b time.Duration) map[string]time.Duration {
		return map[string]time.Duration{"node1": a, "node2": b}
	}
	return []sample{
		{way: wayLuaScript, started: start.Add(time.Second), answered: 8 * time.Millisecond, nodes: nodes(20*time.Millisecond, 10*time.Millisecond), converged: 30 * time.Millisecond},
		{way: wayConfigMap, started: start, answered: 5 * time.Millisecond, nodes: nodes(40*time.Second, 50*time.Second)},
	}
}

func TestTableHasARowForEachFigure(t *testing.T) {
	got := table(samplesOfEachWay())
	for _, want := range []string{
		"| (a) ConfigMap volume, kubelet defaults | on a node | 2 | 40.0 s | 50.0 s | 50.0 s | 50.0 s |",
		"|  | on every node | 1 | 50.0 s |",
		"| on the first node | 1 | 10.0 ms |",
		"**calls answered with it on every node** | 1 | 20.0 ms |",
		"| `Converged` seen by a watch | 1 | 30.0 ms |",
		"| the same, from calls answered with it on every node on | 1 | 10.0 ms |",
	} {
		if !strings.Contains(strings.ReplaceAll(got, "calls answered with it on the first", "on the first"), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "(b)") {
		t.Errorf("there was no (b):\n%s", got)
	}
	if got := verdict(samplesOfEachWay()); strings.Contains(got, "missed") {
		t.Error(got)
	}
}

func TestDataAreInTheOrderOfTime(t *testing.T) {
	var out strings.Builder
	if err := writeData(&out, samplesOfEachWay()); err != nil {
		t.Fatal(err)
	}
	const want = `change,way,started_s,what,node,ms
1,configmap,0.000,answered,,5.000
1,configmap,0.000,seen,node1,40000.000
1,configmap,0.000,seen,node2,50000.000
2,luascript,1.000,answered,,8.000
2,luascript,1.000,seen,node2,10.000
2,luascript,1.000,seen,node1,20.000
2,luascript,1.000,converged,,30.000
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestBoardKeepsTheFirstSight(t *testing.T) {
	b := newBoard()
	began := time.Now()
	b.saw("node1", "x", began)
	go func() {
		b.saw("node1", "x", began.Add(time.Hour))
		b.saw("node2", "x", began.Add(time.Second))
	}()
	seen, err := b.await(t.Context(), "x", 2)
	if err != nil {
		t.Fatal(err)
	}
	if !seen["node1"].Equal(began) || !seen["node2"].Equal(began.Add(time.Second)) {
		t.Errorf("got %v", seen)
	}
}
