package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namesTest   = regexp.MustCompile("`(Test[A-Z][A-Za-z]*)`")
	declaresOne = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
)

// TestNamedTestsExist: each test that a page names is there, and each row of a table of faults names one.
func TestNamedTestsExist(t *testing.T) {
	there := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declaresOne.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range pages(t) {
		for _, m := range namesTest.FindAllStringSubmatch(text, -1) {
			if !there[m[1]] {
				t.Errorf("%s: there is no test %s", file, m[1])
			}
		}
		rows := false
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasSuffix(line, "| test |"):
				rows = true
			case !strings.HasPrefix(line, "|"):
				rows = false
			case rows && !strings.HasPrefix(line, "|---") && !namesTest.MatchString(line[strings.LastIndex(strings.TrimSuffix(line, "|"), "|"):]):
				t.Errorf("%s: the row names no test: %s", file, line)
			}
		}
	}
}
