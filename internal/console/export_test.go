package console

// The bounds of sessions, for tests.
const (
	IdleTimeout     = idleTimeout
	AbsoluteTimeout = absoluteTimeout
	MaxPerCaller    = maxPerCaller
	MaxStreams      = maxStreams
	MaxCalls        = maxCalls
	RequestBurst    = requestBurst
)

// Sweep ends the sessions that are over, as Run does from time to time.
func (s *Server) Sweep() { s.console.sessions.sweep() }

// OwnPage is where a sign-in leads that asks for the page.
func OwnPage(page string) string { return ownPage(page) }
