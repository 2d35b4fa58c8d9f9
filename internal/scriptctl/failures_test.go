package scriptctl_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	"github.com/scriptorium-dev/scriptorium/script"
)

// failure is what programs read of a failure with -o json.
type failure struct {
	Error struct {
		Agent   string      `json:"agent"`
		Kind    script.Kind `json:"kind"`
		Field   string      `json:"field"`
		Message string      `json:"message"`
		File    string      `json:"file"`
		Line    int         `json:"line"`
		Column  int         `json:"column"`
		Source  string
		Stack   []struct {
			Function, Source string
			Line             int
		}
	} `json:"error"`
	ExitCode int `json:"exitCode"`
}

// run runs scriptctl without a terminal, where there is no registry.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	nowhere := []string{"--registry", "unix:none.sock", "--author", "ada"}
	code = scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader("{}"), Out: &out, Err: &errs}, append(nowhere, args...))
	return out.String(), errs.String(), code
}

// failures runs scriptctl, which has to fail, and returns the objects on standard error.
func failures(t *testing.T, args ...string) (all []failure) {
	t.Helper()
	stdout, stderr, code := run(t, args...)
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, `{"notice":`) {
			continue
		}
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		var f failure
		if err := dec.Decode(&f); err != nil {
			t.Errorf("%v: %q on standard error is not the object of an error: %v", args, line, err)
		}
		if f.Error.Message == "" || f.ExitCode == 0 {
			t.Errorf("%v: %q lacks the message or the exit code", args, line)
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		t.Errorf("%v: exit code %d, and no error on standard error; on standard output: %s", args, code, stdout)
		return []failure{{}}
	}
	if all[0].ExitCode != code {
		t.Errorf("%v: the exit code is %d, and the first error says %d", args, code, all[0].ExitCode)
	}
	return all
}

// failing are arguments with which commands fail where there is no registry, after they
// have understood them. A new command needs a line here.
var failing = map[string]string{
	"test":                   "DIR/none.yaml",
	"dev":                    "DIR/none.yaml",
	"lint":                   "DIR/none.yaml",
	"explain":                "W999",
	"krm":                    "-f DIR/none.lua",
	"schema":                 "none",
	"import argocd":          "DIR/none --tenant acme --out DIR/out",
	"import kruise":          "DIR/none --tenant acme --out DIR/out",
	"import karmada":         "DIR/none --tenant acme --out DIR/out",
	"import redis":           "DIR/none --tenant acme --out DIR/out",
	"run":                    "DIR/none.yaml",
	"bench":                  "DIR/none.yaml",
	"publish":                "DIR/route.yaml",
	"apply":                  "DIR/route.yaml",
	"sign":                   "DIR/route.yaml --with DIR/none.key",
	"pin":                    "acme/route 1",
	"hold":                   "acme/route",
	"release":                "acme/route",
	"rollback":               "acme/route",
	"rollout status":         "acme/route",
	"rollout promote":        "acme/route 2",
	"rollout abort":          "acme/route",
	"rollout retry":          "acme/route",
	"rollout approve":        "acme/route",
	"rollout explain":        "acme/route",
	"rollout diff":           "acme/route",
	"enable":                 "acme/route",
	"disable":                "acme/route",
	"owner":                  "acme/route",
	"delete":                 "acme/route --yes",
	"changeset create":       "acme/cart-2 -f DIR/none/cart-2.yaml",
	"changeset add":          "DIR/none.yaml DIR/route.yaml",
	"changeset publish":      "DIR/none.yaml",
	"changeset status":       "acme/cart-2",
	"changeset list":         "acme",
	"changeset rollback":     "acme/cart-2",
	"kv put":                 "acme/flags 1",
	"kv get":                 "acme/flags",
	"kv list":                "acme",
	"kv delete":              "acme/flags",
	"kv history":             "acme/flags",
	"kv rollback":            "acme/flags",
	"list":                   "",
	"get":                    "acme/route",
	"history":                "acme/route",
	"diff":                   "acme/route",
	"status":                 "",
	"top":                    "acme",
	"agents":                 "",
	"agents profile":         "n1 -f DIR/none/cpu.pb.gz",
	"events":                 "acme",
	"profile":                "acme/route",
	"replay":                 "acme/route --from DIR/route.yaml",
	"call":                   "acme/route",
	"logs":                   "acme",
	"tenant set":             "acme --values 1Mi",
	"tenant get":             "acme",
	"tenant list":            "",
	"tenant unset":           "acme",
	"usage":                  "",
	"audit":                  "",
	"export":                 "-f DIR/new.tar",
	"doctor":                 "",
	"init":                   "DIR/route.yaml",
	"check":                  "",
	"freeze":                 "",
	"thaw":                   "",
	"import":                 "-f DIR/none.tar",
	"keys generate":          "--out DIR/none/k --public DIR/none/p",
	"keys id":                "DIR/none.key",
	"keys public":            "DIR/none.key",
	"keys rotate":            "--trusted DIR/none.pem --out DIR/new.key",
	"keys retire":            "0123456789abcdef --trusted DIR/none.pem",
	"config get-contexts":    "--config DIR/none",
	"config current-context": "--config DIR/none",
	"config use-context":     "none --config DIR/none.yaml",
	"config set-context":     "Bad! --config DIR/none.yaml",
	"config delete-context":  "none --config DIR/none.yaml",
	"config view":            "--config DIR/none",
	"token":                  "",
	"version":                "",
}

// cannotFail are the commands that have no way to fail once they are understood.
var cannotFail = map[string]bool{"token": true, "version": true}

// commands returns the paths of all commands that do something, without "scriptctl".
func commands(cmd *cobra.Command) (paths []string) {
	for _, sub := range cmd.Commands() {
		paths = append(paths, commands(sub)...)
	}
	if len(cmd.Commands()) == 0 {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		paths = append(paths, path)
	}
	return paths
}

// TestFailuresAreObjects: with -o json whatever fails, and however, says so in JSON.
func TestFailuresAreObjects(t *testing.T) {
	dir := t.TempDir()
	manifest, err := os.ReadFile("../../examples/scripts/greet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "route.yaml"), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	var unreachable sync.WaitGroup // each command tries for a second
	defer unreachable.Wait()
	for _, path := range commands(scriptctl.Command()) {
		words := strings.Fields(path)
		with := func(args ...string) []string { return slices.Concat(words, args) }
		if f := failures(t, with("--nonsense", "-o", "json")...)[0]; f.Error.Kind != script.Invalid || f.ExitCode != 2 {
			t.Errorf("%s with a flag that there is not: %+v", path, f)
		}
		if f := failures(t, with("-o=json", "--registry", "nowhere", "1", "2", "3", "4", "5")...)[0]; f.Error.Kind != script.Invalid || f.ExitCode != 2 {
			t.Errorf("%s with arguments that are none: %+v", path, f)
		}
		args, ok := failing[path]
		if !ok {
			t.Errorf("failing needs arguments with which %q fails without a registry", path)
			continue
		}
		if !cannotFail[path] {
			args := strings.Fields(strings.ReplaceAll(args, "DIR", dir))
			unreachable.Go(func() { failures(t, with(append(args, "--output=json")...)...) })
		}
	}
}

func TestFailureOfUsage(t *testing.T) {
	for _, args := range []string{
		"-o json nonsense", "nonsense -ojson", "--output json list --nonsense", "list --nonsense --output=json",
		"rollout nonsense -o json", "list a -o json --registry",
	} {
		t.Run(args, func(t *testing.T) {
			all := failures(t, strings.Fields(args)...)
			if len(all) != 1 || all[0].Error.Kind != script.Invalid || all[0].ExitCode != 2 {
				t.Errorf("%+v", all)
			}
		})
	}
	for _, args := range []string{"list --nonsense", "list --nonsense -o xml", "list --nonsense -- -o json"} {
		if _, stderr, code := run(t, strings.Fields(args)...); code != 2 || !strings.HasPrefix(stderr, "error: ") {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}

// TestFailureHasItsPlace: each fault of a manifest is an object of its own.
func TestFailureHasItsPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.yaml")
	text := "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: a}\nspec:\n  tenantId: Pub\n  source: return 1\n  enabled: maybe\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := failures(t, "publish", file, "-o", "json")
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	if e := all[1].Error; e.Kind != script.Invalid || e.Field != "spec.enabled" || e.File != file || e.Line != 7 || e.Column != 12 || strings.Contains(e.Message, "spec.enabled") {
		t.Errorf("%+v", e)
	}
}

func TestDidYouMean(t *testing.T) {
	for args, want := range map[string]string{
		"publsh":         `error: unknown command "publsh" for "scriptctl": did you mean publish?` + "\n",
		"nonsense":       `error: unknown command "nonsense" for "scriptctl"` + "\n",
		"rollout statsu": `error: "statsu" is not a command of scriptctl rollout: did you mean status?` + "\n",
	} {
		if _, stderr, code := run(t, strings.Fields(args)...); stderr != want || code != 2 {
			t.Errorf("%s: exit code %d, %s, want %s", args, code, stderr, want)
		}
	}
	if all := failures(t, "publsh", "-o", "json"); !strings.HasSuffix(all[0].Error.Message, "did you mean publish?") {
		t.Errorf("%+v", all)
	}
}

// TestNobodyThere: the error says where the address is from. What helps developers alone
// is said of their address alone.
func TestNobodyThere(t *testing.T) {
	for _, test := range []struct{ args, registry, agent, want string }{
		{"list --registry unix:a.sock", "unix:b.sock", "", "registryd runs there; the address is from --registry"},
		{"list", "unix:b.sock", "", "registryd runs there; the address is from SCRIPTORIUM_REGISTRY"},
		{"list", "", "", `registryd runs there; this is the address of "make run", the default: for another registry set --registry or SCRIPTORIUM_REGISTRY`},
		{"call acme/x --agent-socket a.sock", "", "b.sock", "agentd runs there; the socket is from --agent-socket"},
		{"call acme/x", "", "b.sock", "agentd runs there; the socket is from SCRIPTORIUM_AGENT"},
		{"call acme/x --agent a", "unix:b.sock", "", "agentd runs there; --agent names a folder beside the registry's socket"},
		{"call acme/x", "unix:b.sock", "", "agentd runs there; this is the default: for another agent set --agent-socket or SCRIPTORIUM_AGENT"},
		{"call acme/x", "", "", `agentd runs there; this is the default, of "make run": for another agent set --agent-socket or SCRIPTORIUM_AGENT`},
	} {
		t.Setenv("SCRIPTORIUM_REGISTRY", test.registry)
		t.Setenv("SCRIPTORIUM_AGENT", test.agent)
		var out, errs bytes.Buffer
		code := scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, strings.Fields(test.args))
		if code != 5 || !strings.HasSuffix(errs.String(), ": check that "+test.want+"\n") {
			t.Errorf("%s, registry %q, agent %q: exit code %d, %s", test.args, test.registry, test.agent, code, errs.String())
		}
	}
}

// TestOpenFileModes: a command warns of a secret that other users can read, and goes on.
func TestOpenFileModes(t *testing.T) {
	dir := t.TempDir()
	key, token := filepath.Join(dir, "signing.key"), filepath.Join(dir, "ci.token")
	for _, args := range [][]string{{"keys", "generate", "--out", key}, {"token", "--out", token}} {
		if _, stderr, code := run(t, args...); code != 0 {
			t.Fatalf("%v: %s", args, stderr)
		}
	}
	for _, tt := range []struct {
		file string
		code int
		args []string
	}{
		{key, 0, []string{"keys", "public", key}},
		{key, 0, []string{"keys", "id", key}},
		{token, 5, []string{"list", "--token-file", token}},
	} {
		for mode, want := range map[os.FileMode]int{0o600: 0, 0o666: 1} {
			if err := os.Chmod(tt.file, mode); err != nil {
				t.Fatal(err)
			}
			_, stderr, code := run(t, tt.args...)
			warning := "warning: other users can read or change the file of a secret: run chmod 600 on it (file: " + tt.file + ") (mode: 0666)"
			if code != tt.code || strings.Count(stderr, warning) != want {
				t.Errorf("%v with mode %#o: exit code %d, want %d and %d warnings:\n%s", tt.args, mode, code, tt.code, want, stderr)
			}
		}
	}
}
