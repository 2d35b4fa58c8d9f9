package fleet

// Ignored counts the reports that changed nothing because they were wrong.
type Ignored struct {
	Foreign uint64 // of another fleet
	Stale   uint64 // overtaken by a newer one
	// Impossible: of revisions that the registry never had, of more calls of candidates than there
	// can be, or of other labels than the process of the agent had before. Of the latter two nothing
	// but the calls, or the labels, is ignored.
	Impossible uint64
	TooMany    uint64 // of agents that are too many
	TooLarge   uint64 // of agents that report too much, together
	// OtherIdentity: for an agent that another identity reports for.
	OtherIdentity uint64
}

// Counts is the size of the fleet, for metrics.
type Counts struct {
	Connected int
	Unknown   int
	Foreign   int // agents of other fleets; not among the others
	// Reported is how many bytes are kept of what agents report, about, and Remembered how many
	// of them the Memory has.
	Reported   int
	Remembered int
	Ignored    Ignored
}

// Counts returns the size of the fleet.
func (f *Fleet) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Counts{
		Connected: f.connected, Unknown: len(f.agents) - f.connected, Foreign: len(f.foreign),
		Reported: f.total.bytes, Remembered: f.memory.bytes, Ignored: f.ignored,
	}
}
