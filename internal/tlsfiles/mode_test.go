package tlsfiles_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/script"
)

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// TestModes: secrets and private keys are refused if others can read or change them. The
// group may read, also through links: this is how Kubernetes mounts a Secret.
func TestModes(t *testing.T) {
	pair := certtest.NewCA(t).Issue("own", certtest.Leaf{})
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	linked := map[string]string{token: filepath.Join(dir, "linked"), pair.Key: filepath.Join(dir, "linked.key")}
	for to, from := range linked {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		mode    fs.FileMode
		refused bool
	}{
		{0o400, false},
		{0o440, false},
		{0o600, false},
		{0o640, false},
		{0o700, false},
		{0o604, true},
		{0o602, true},
		{0o620, true},
		{0o644, true},
		{0o660, true},
		{0o666, true},
		{0o777, true},
	} {
		open := map[string]func(path string, modes tlsfiles.Modes, r *recorder) error{
			token: func(path string, modes tlsfiles.Modes, r *recorder) error {
				_, err := tlsfiles.Secret(path, modes, r.log())
				return err
			},
			pair.Key: func(path string, modes tlsfiles.Modes, r *recorder) error {
				_, err := tlsfiles.Load(tlsfiles.Files{Cert: pair.Cert, Key: path, Modes: modes}, r.log())
				return err
			},
		}
		for file, open := range open {
			chmod(t, file, tt.mode)
			for _, path := range []string{file, linked[file]} {
				var record recorder
				err := open(path, tlsfiles.RefuseOpen, &record)
				switch {
				case !tt.refused && err != nil:
					t.Errorf("%#o: %v", tt.mode, err)
				case tt.refused && (script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), path+": has mode 0") ||
					!strings.Contains(err.Error(), "chmod 600 "+path) || !strings.Contains(err.Error(), "--insecure-file-modes")):
					t.Errorf("%#o: %v, want an error with the file, its mode, a command and a flag", tt.mode, err)
				}
				err = open(path, tlsfiles.WarnOfOpen, &record)
				if want := map[bool]int{true: 1}[tt.refused]; err != nil || record.count("other users can read or change") != want {
					t.Errorf("%#o with the flag: %v, want %d warnings in\n%s", tt.mode, err, want, record.String())
				}
			}
		}
	}
}

// TestModesOfARenewal: an open file that replaces a good one is used, with one warning.
func TestModesOfARenewal(t *testing.T) {
	ca := certtest.NewCA(t)
	own, renewed := ca.Issue("own", certtest.Leaf{}), ca.Issue("renewed", certtest.Leaf{})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var record recorder
		secret, err := tlsfiles.Secret(token, tlsfiles.RefuseOpen, record.log())
		if err != nil {
			t.Fatal(err)
		}
		m := load(t, tlsfiles.Files{Cert: own.Cert, Key: own.Key}, record.log())
		replace(t, own.Cert, renewed.Cert)
		replace(t, own.Key, renewed.Key)
		if err := os.WriteFile(token, []byte("second"), 0o600); err != nil {
			t.Fatal(err)
		}
		chmod(t, own.Key, 0o644)
		chmod(t, token, 0o644)
		for range 3 {
			<-time.After(2 * time.Second)
			if text, err := secret(); text != "second" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
			config, err := m.Server()
			if err != nil || !config.Certificates[0].Leaf.Equal(renewed.Certificate) {
				t.Errorf("the renewed certificate is not in use: %v", err)
			}
		}
		if record.count("file="+token+" mode=0644") != 1 || record.count("file="+own.Key+" mode=0644") != 1 {
			t.Errorf("want one warning for each file:\n%s", record.String())
		}
	})
}
