package fleet

// Look returns what looks once, as a watch does, without its pace.
func (f *Fleet) Look(filter NodesFilter) func() Nodes {
	watch := look{fleet: f, filter: &filter, labeling: labeling{label: filter.Label}}
	return func() Nodes {
		f.mu.Lock()
		defer f.mu.Unlock()
		return watch.nodes()
	}
}
