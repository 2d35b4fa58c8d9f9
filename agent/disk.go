package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
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

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
