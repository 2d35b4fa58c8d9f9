package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// disk collects the state of the disk with the state folder.
type disk struct{ agent *Agent }

var (
	diskFailing = prometheus.NewDesc("scriptorium_agent_disk_failing", "1 while the state folder cannot be written: changes wait, and what is live stays live.", nil, nil)
	diskFree    = prometheus.NewDesc("scriptorium_agent_disk_free_bytes", "Bytes that are free for the agent on the disk with the state folder.", nil, nil)
	diskSize    = prometheus.NewDesc("scriptorium_agent_disk_size_bytes", "Size of the disk with the state folder.", nil, nil)
)

// Describe implements prometheus.Collector.
func (disk) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{diskFailing, diskFree, diskSize} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (d disk) Collect(metrics chan<- prometheus.Metric) {
	tell := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	tell(diskFailing, flag(d.agent.state.diskError(time.Now()) != nil))
	var is unix.Statfs_t
	if err := unix.Statfs(d.agent.cfg.Dir, &is); err != nil {
		return // the alert on a disk that cannot be written covers it
	}
	block := float64(is.Bsize)
	tell(diskFree, float64(is.Bavail)*block)
	tell(diskSize, float64(is.Blocks)*block)
}

// statEvery is how often the status looks at the disk at most.
const statEvery = 4 * time.Second

// diskStatus is how the disk is, for the status. The follower alone uses it.
type diskStatus struct {
	agent              *Agent
	corrupt, untrusted int // files at the start
	at                 time.Time
	free, size         uint64
}

// tell returns what the status says at the time.
func (d *diskStatus) tell(now time.Time) *eventv1.Disk {
	if now.Sub(d.at) >= statEvery {
		var is unix.Statfs_t
		if err := unix.Statfs(d.agent.cfg.Dir, &is); err == nil {
			block := uint64(is.Bsize)                                                    //nolint:gosec // a size
			d.at, d.free, d.size = now, uint64(is.Bavail)*block, uint64(is.Blocks)*block //nolint:unconvert // the type is another one on other systems
		}
	}
	m := &eventv1.Disk{FreeBytes: d.free, SizeBytes: d.size, CorruptFiles: uint32(d.corrupt), UntrustedFiles: uint32(d.untrusted)} //nolint:gosec // files in a folder
	if err := d.agent.state.diskError(now); err != nil {
		m.Fault = err.Error()
	}
	return m
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
