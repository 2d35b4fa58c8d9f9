// Package docker_test checks the images' recipe without docker: that what it names is
// there, and that each image is as it has to be.
package docker_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// stage is a part of the Dockerfile that begins with FROM.
type stage struct {
	name, from string
	lines      [][]string // words of each instruction
}

func stages(t *testing.T) []stage {
	t.Helper()
	f, err := os.Open("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []stage
	instruction := ""
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line, more := strings.CutSuffix(line, `\`)
		instruction += line + " "
		if more {
			continue
		}
		words := strings.Fields(instruction)
		instruction = ""
		if words[0] == "FROM" {
			all = append(all, stage{name: words[len(words)-1], from: words[len(words)-3]})
			continue
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, words)
	}
	return all
}

// of returns the instructions of a kind.
func (s stage) of(kind string) (found [][]string) {
	for _, line := range s.lines {
		if line[0] == kind {
			found = append(found, line[1:])
		}
	}
	return found
}

// built returns the commands that the first stage builds.
func built(t *testing.T, s stage) []string {
	t.Helper()
	var commands []string
	for _, run := range s.of("RUN") {
		for _, word := range run {
			if command, ok := strings.CutPrefix(word, "./cmd/"); ok {
				if _, err := os.Stat(filepath.Join(root, "cmd", command, "main.go")); err != nil {
					t.Errorf("the Dockerfile builds %s: %v", word, err)
				}
				commands = append(commands, command)
			}
		}
	}
	return commands
}

func TestImages(t *testing.T) {
	all := stages(t)
	commands := built(t, all[0])
	if all[0].name != "build" || len(commands) == 0 {
		t.Fatalf("the first stage is %s and builds %v", all[0].name, commands)
	}
	want := map[string][]string{"registryd": {"registryd"}, "agentd": {"agentd", "scriptctl"}, "operator": {"operator"}, "scriptorium-krm": {"scriptorium-krm"}}
	for _, s := range all[1:] {
		var programs []string
		for _, words := range s.of("COPY") {
			program := path.Base(words[2])
			if words[0] != "--from=build" || words[1] != "/out/"+program || words[2] != "/"+program || !slices.Contains(commands, program) {
				t.Errorf("%s: COPY %v", s.name, words)
			}
			programs = append(programs, program)
		}
		if !slices.Equal(programs, want[s.name]) {
			t.Errorf("%s holds %v, want %v", s.name, programs, want[s.name])
		}
		delete(want, s.name)
		if entry := s.of("ENTRYPOINT"); len(entry) != 1 || len(entry[0]) != 1 || entry[0][0] != `["/`+s.name+`"]` {
			t.Errorf("%s begins with %v", s.name, entry)
		}
		if user := s.of("USER"); s.from != "scratch" || len(user) != 1 || user[0][0] != "65532:65532" {
			t.Errorf("%s is made from %s and runs as %v", s.name, s.from, user)
		}
		labels := s.of("LABEL")
		for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
			if len(labels) != 1 || !slices.ContainsFunc(labels[0], func(w string) bool { return strings.HasPrefix(w, "org.opencontainers.image."+label+"=") }) {
				t.Errorf("%s has no label %s", s.name, label)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no image of %v", want)
	}
}

// TestTheContextHasAllPackages that the commands are built from, with the files that these embed.
func TestTheContextHasAllPackages(t *testing.T) {
	text, err := os.ReadFile("Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	var in, out []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if folder, ok := strings.CutPrefix(line, "!"); ok {
			if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
				t.Errorf("the context names %v", err)
			}
			in = append(in, folder)
		} else if line != "" && !strings.ContainsAny(line, "#*") {
			out = append(out, line)
		}
	}
	under := func(dir string, folders []string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return dir == f || strings.HasPrefix(dir, f+"/") })
	}
	args := []string{"list", "-deps", "-json=ImportPath,EmbedFiles,Module"}
	for _, command := range built(t, stages(t)[0]) {
		args = append(args, "./cmd/"+command)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	list, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(list))); d.More(); {
		var p struct {
			ImportPath string
			EmbedFiles []string
			Module     *struct {
				Path string
				Main bool
			}
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		dir := strings.TrimPrefix(p.ImportPath, p.Module.Path+"/")
		paths := []string{dir}
		for _, file := range p.EmbedFiles {
			paths = append(paths, path.Join(dir, file))
		}
		for _, p := range paths {
			if !under(p, in) || under(p, out) {
				t.Errorf("%s is not in the context of the images", p)
			}
		}
	}
}
