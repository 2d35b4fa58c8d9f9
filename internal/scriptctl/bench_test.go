package scriptctl_test

import (
	"encoding/json"
	"strings"
	"testing"
)

type benchOutput struct {
	Against string
	Rounds  int
	Cases   []struct {
		Script, Name, File string
		Line               int
		Metrics            []struct {
			Name              string
			Median, Low, High float64
			Against           *struct{ Median float64 }
			ChangePercent, P  *float64
			Significant       *bool
		}
	}
}

// quick are flags of a measurement that is over soon.
var quick = []string{"--rounds", "6", "--time", "1ms"}

func runBench(t *testing.T, wantErr string, args ...string) (v benchOutput) {
	t.Helper()
	stdout, stderr, code := run(t, append(append([]string{"bench", "-o", "json"}, quick...), args...)...)
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 || !strings.Contains(stderr, wantErr) || wantErr == "" && stderr != "" {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	return v
}

func benchFolder(t *testing.T) {
	t.Helper()
	t.Chdir(testFolder(t, map[string]string{
		"route.yaml": patientManifest, "route_test.yaml": passingCases, "wrong_test.yaml": "script: route.yaml\n" + failingCases,
		"loop.lua":  "function handle(request) for i = 1, 1000 do end return {upstream = 'fast'} end",
		"other.lua": "function handle(request) return {upstream = 'other'} end", "broken.lua": "function handle(",
		"none.yaml": strings.NewReplacer("name: route", "name: none", "  tests:\n", "", "  - {name: gold is fast, request: {plan: gold}, expect: {upstream: fast}}\n", "",
			"  - {name: backend, request: {kv: true}, expect: {upstream: up}}\n", "").Replace(patientManifest),
	}))
}

func TestBench(t *testing.T) {
	benchFolder(t)
	v := runBench(t, `left out \"backend\": it reads values with kv`, "route.yaml", "route_test.yaml")
	if len(v.Cases) != 5 || v.Rounds != 6 || v.Cases[0].Script != "acme/route" || v.Cases[0].Name != "gold is fast" || v.Cases[0].File != "route.yaml" || v.Cases[0].Line == 0 {
		t.Fatalf("%+v", v)
	}
	for _, m := range v.Cases[0].Metrics {
		if !(m.Low > 0 && m.Low <= m.Median && m.Median <= m.High) || m.Against != nil || m.P != nil {
			t.Errorf("%+v", m)
		}
	}
}

func TestBenchAgainst(t *testing.T) {
	benchFolder(t)
	v := runBench(t, "", "route.yaml", "--run", "gold", "--against", "loop.lua")
	if v.Against != "loop.lua" || len(v.Cases) != 1 {
		t.Fatalf("%+v", v)
	}
	for _, m := range v.Cases[0].Metrics {
		if m.Name == "instructions" && (!*m.Significant || *m.P >= 0.05 || *m.ChangePercent > -80 || m.Against.Median < 1000) {
			t.Errorf("%+v", m)
		}
	}
	v = runBench(t, "", "route.yaml", "--run", "gold", "--against", "route.yaml")
	for _, m := range v.Cases[0].Metrics {
		if (m.Name == "instructions" || m.Name == "allocatedBytes") && (*m.Significant || *m.ChangePercent != 0) {
			t.Errorf("%+v", m)
		}
	}
	v = runBench(t, `\"gold is fast\" is not compared, because other.lua does not pass it`, "route.yaml", "--run", "gold", "--against", "other.lua")
	if v.Cases[0].Metrics[0].Against != nil {
		t.Errorf("%+v", v)
	}
}

func TestBenchRefuses(t *testing.T) {
	benchFolder(t)
	for args, want := range map[string]struct {
		code  int
		error string
	}{
		"route.yaml --rounds 5":           {2, "--rounds: 5 is not between 6 and 10000: fewer rounds have no confidence interval"},
		"route.yaml --time 0s":            {2, "--time: 0s is not between 0 and 1m0s"},
		"route.yaml --run (":              {2, "--run: is no RE2 expression: "},
		"route.yaml --against @x":         {2, `--against: "@x" is not a version: want @N with N ≥ 1, or a file`},
		"route.yaml --against none":       {2, `--against: "none" is neither @VERSION nor a file: `},
		"route.yaml --against none.lua":   {2, "--against: none.lua: cannot be read: no such file or directory"},
		"route.yaml --against none.yaml":  {2, "--against: none.yaml has no manifest of acme/route"},
		"route.yaml --against broken.lua": {4, "broken.lua:1:"},
		"route.yaml --against @7":         {5, "cannot reach the registry at unix:none.sock "},
		"wrong_test.yaml":                 {11, "6 tests of acme/route failed, so nothing was measured: see scriptctl test"},
		"none.yaml":                       {11, "there is no test to measure in none.yaml: add spec.tests to a manifest, or name a test file"},
		"":                                {2, "bench wants a manifest or a test file: scriptctl bench FILE..."},
	} {
		stdout, stderr, code := run(t, append([]string{"bench"}, strings.Fields(args)...)...)
		if code != want.code || !strings.HasPrefix(stderr, "error: "+want.error) || stdout != "" {
			t.Errorf("%s: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
}
