package console

import "fmt"

// The bounds of sessions, for tests.
const (
	IdleTimeout     = idleTimeout
	AbsoluteTimeout = absoluteTimeout
	MaxPerCaller    = maxPerCaller
	MaxStreams      = maxStreams
	MaxCalls        = maxCalls
	RequestBurst    = requestBurst
	MaxSessions     = maxSessions
)

// Sweep ends the sessions that are over, as Run does from time to time.
func (s *Server) Sweep() { s.console.sessions.sweep() }

// Fill begins sessions of so many callers.
func (s *Server) Fill(callers int) {
	for i := range callers {
		if _, err := s.console.sessions.begin(identity{caller: fmt.Sprint("caller ", i)}); err != nil {
			return
		}
	}
}

// OwnPage is where a sign-in leads that asks for the page.
func OwnPage(page string) string { return ownPage(page) }
