package respsock

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAFailureIsOneLine, whatever its kind and its message are.
func TestAFailureIsOneLine(t *testing.T) {
	for kind, want := range map[script.Kind]string{
		script.Limit:                            "-LIMIT a b\r\n",
		"":                                      "-INTERNAL a b\r\n",
		"X\r\n+OK":                              "-INTERNAL a b\r\n",
		"two words":                             "-INTERNAL a b\r\n",
		script.Kind(strings.Repeat("A", 1<<20)): "-INTERNAL a b\r\n",
	} {
		if got := string(appendFailure(nil, &script.Error{Kind: kind, Message: "a\nb"})); got != want {
			t.Errorf("%.20q: got %.80q, want %q", kind, got, want)
		}
	}
}
