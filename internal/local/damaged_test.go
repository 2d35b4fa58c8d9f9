package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
)

// TestADamagedJournalGoesBackToNothing: an agent that was killed, and whose journal was damaged
// at its end, with the script's file, answers nothing that it had gone past.
func TestADamagedJournalGoesBackToNothing(t *testing.T) {
	s := start(t)
	const last = 5
	for n := 1; n <= last; n++ {
		s.converge(s.publish(n).Release.Revision)
	}
	key := "releases/" + name.String()
	crashed := filepath.Join(s.AgentDir(1), "state")
	for how, damage := range map[string]func(journal []byte, at int) []byte{
		"a bit":     func(b []byte, at int) []byte { b[at] ^= 1; return b },
		"truncated": func(b []byte, at int) []byte { return b[:at] },
	} {
		t.Run(how, func(t *testing.T) {
			s := s.within(t)
			state := filepath.Join(s.AgentDir(agents+1), "state")
			if err := errors.Join(os.RemoveAll(state), os.CopyFS(state, os.DirFS(crashed))); err != nil {
				t.Fatal(err)
			}
			s.damage(filepath.Join(state, "journal"), func(b []byte) []byte { return damage(b, bytes.LastIndex(b, []byte(key))) })
			s.damage(filepath.Join(state, key), func(b []byte) []byte { return b[:len(b)/2] })
			s.startsWith(agents+1, answer(last))
			if err := s.StopAgent(t.Context(), agents+1); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// within returns the stack for a test within the one that started it.
func (s *stack) within(t *testing.T) *stack {
	t.Helper()
	in := *s
	in.t = t
	return &in
}

func (s *stack) damage(path string, how func([]byte) []byte) {
	s.t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, how(content), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// startsWith starts an agent while its registry does not answer, and then lets the registry
// answer. Nothing else than what is wanted may be answered first.
func (s *stack) startsWith(i int, want string) {
	s.t.Helper()
	socket := strings.TrimPrefix(s.RegistryTarget(), "unix:")
	if err := os.Rename(socket, socket+".away"); err != nil {
		s.t.Fatal(err)
	}
	client, err := agentclient.New("unix:" + filepath.Join(s.AgentDir(i), "grpc.sock"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	began, started := time.Now(), make(chan error, 1)
	go func() { started <- s.StartAgent(i) }()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for try := 0; ; try++ {
		if try == 20 {
			if err := os.Rename(socket+".away", socket); err != nil {
				s.t.Fatal(err)
			}
		}
		result, err := client.Call(s.t.Context(), name.String())
		if err == nil {
			if got := string(result.Values[0]); got != want && time.Since(began) < 2*time.Second { // it waits for three
				s.t.Errorf("the first answer is %s, want %s", got, want)
			}
			break
		}
		<-ticker.C
	}
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
}
