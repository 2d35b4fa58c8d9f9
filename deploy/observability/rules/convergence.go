package rules

import "fmt"

// The objective: of all changes in 30 days, objective are live on every connected agent within a second.
const (
	objective = 0.99
	inTime    = "1.024" // the bucket of scriptorium_registry_converged_seconds for a second
)

// burn is a pair of windows, as in the workbook on site reliability: the long one says that it matters,
// and the short one that it goes on.
type burn struct {
	long, short string
	factor      float64 // how many times faster than the objective allows the budget is used up
}

// slow is the record with the part of the changes that were not live in time.
func slow(window string) string { return "scriptorium:changes_slow:ratio_rate" + window }

// burns is true of a pair of windows. A few changes prove nothing.
func burns(b burn) string {
	bound := b.factor * (1 - objective)
	return fmt.Sprintf(`(%s > %.3g and %s > %.3g and sum by ($BY) (increase(scriptorium_registry_converged_seconds_count[%s])) > 20)`,
		slow(b.long), bound, slow(b.short), bound, b.long)
}

func convergence() Group {
	g := Group{Name: "convergence"}
	for _, window := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"} {
		g.Records = append(g.Records, Record{Name: slow(window), Expr: fmt.Sprintf(`
			1 - sum by ($BY) (rate(scriptorium_registry_converged_seconds_bucket{le="%s"}[%s]))
			/ sum by ($BY) (rate(scriptorium_registry_converged_seconds_count[%s]))`, inTime, window, window)})
	}
	g.Alerts = []Alert{
		{
			Name: "ScriptoriumConvergenceSlow", For: "2m", Severity: Critical,
			Expr:        burns(burn{"1h", "5m", 14.4}) + "\nor " + burns(burn{"6h", "30m", 6}),
			Summary:     "{{ $value | humanizePercentage }} of the changes take more than a second to be live everywhere.",
			Description: "The objective is 99 % in 30 days. At this rate, its error budget is used up within days.",
		},
		{
			Name: "ScriptoriumConvergenceDegraded", For: "15m", Severity: Warning,
			Expr:        burns(burn{"1d", "2h", 3}) + "\nor " + burns(burn{"3d", "6h", 1}),
			Summary:     "{{ $value | humanizePercentage }} of the changes take more than a second to be live everywhere.",
			Description: "The objective is 99 % in 30 days. At this rate, it is missed.",
		},
		{
			Name: "ScriptoriumChangesNotLive", For: "2m", Severity: Critical,
			Expr:        `max by ($BY) (scriptorium_registry_agents_behind_seconds) > 60`,
			Summary:     "A change is not active on a connected agent for {{ $value | humanizeDuration }}.",
			Description: "An agent reports to the registry, and has not activated what was published.",
		},
	}
	return g
}
