package controller

import "time"

// The times of putting right what others change. Who changed a script by hand, a few
// times, finds it put right at once. Two that both want it their way, by force, or from two
// clusters, would go on as fast as they can, each time with a new version.
const (
	freeRestores   = 5
	minRestorePace = 2 * time.Second // which doubles
	maxRestorePace = 5 * time.Minute
	calm           = 2 * maxRestorePace // after which all is forgotten
)

// damper slows down what is done again and again.
type damper struct {
	times int
	last  time.Time
}

// wait returns how long not to do it yet; 0 if it may be done.
func (d *damper) wait(now time.Time) time.Duration {
	if d.times < freeRestores {
		return 0
	}
	pace := maxRestorePace
	if shift := d.times - freeRestores; shift < 8 {
		pace = min(minRestorePace<<shift, maxRestorePace)
	}
	return max(0, pace-now.Sub(d.last))
}

// done takes note that it was done.
func (d *damper) done(now time.Time) {
	if now.Sub(d.last) > calm {
		d.times = 0
	}
	d.times++
	d.last = now
}
