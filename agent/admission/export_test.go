package admission

// StandBackBy has the gate's calls do f when they stand back.
func (g *Gate) StandBackBy(f func()) { g.standBack = f }
