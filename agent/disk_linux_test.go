package agent_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/smallfs"
)

// TestFullDiskIsDegraded: an agent with a full disk serves what it has, says why it does not
// get what is new, and recovers when there is room.
func TestFullDiskIsDegraded(t *testing.T) {
	disk := smallfs.New(t, "4m")
	r := newRegistry(t)
	r.publish("route", "one")
	r.start()
	n := startNode(t, r, filepath.Join(disk.Dir, "state"))
	n.answers(t, r, "acme/route", "one")

	said := listen(t, r)
	eventually(t, r, "the status says how large the disk is", func() bool { d := said.disk(); return d.GetSizeBytes() > 1<<20 && d.GetFault() == "" })
	disk.Fill(t)
	two := strings.Repeat("2", 900_000) // more than the journal leaves when the agent removes it
	r.publish("route", two)
	eventually(t, r, "degraded", func() bool { return strings.Contains(n.Degraded(time.Now()), "no space left on device") })
	eventually(t, r, "the status says why the disk cannot be written", func() bool { return strings.Contains(said.disk().GetFault(), "no space left on device") })
	if got, err := n.call(t, "acme/route"); err != nil || got != "one" {
		t.Errorf("with a full disk: %.20s, %v", got, err)
	}
	disk.Free(t)
	n.answers(t, r, "acme/route", two)
	eventually(t, r, "well again", func() bool { return n.Degraded(time.Now()) == "" })
	eventually(t, r, "the status says that all is well", func() bool { return said.disk().GetFault() == "" })
	n.stop() // before its disk is unmounted
}
