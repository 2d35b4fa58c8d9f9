package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/script"
)

// reason why a call does not run.
type reason uint8

const (
	free              reason = iota // there is none but that others do
	cpu                             // its tenant has used up its processor time
	tenantConcurrency               // its tenant has as many calls in progress as it may
	scriptConcurrency               // its script has
	processors                      // it waited too long for a processor
	tenantFull                      // too many calls of its tenant wait
	allFull                         // too many calls wait
	crowdedOut                      // its tenant had to make room for one that has fewer waiting
	caller                          // its caller's deadline passed, or it gave up
	reasons
)

// names of the reasons in metrics; those of which nobody is refused have none.
var names = [reasons]string{
	cpu:               "cpu",
	tenantConcurrency: "tenant_concurrency",
	scriptConcurrency: "script_concurrency",
	processors:        "processors",
	tenantFull:        "tenant_queue",
	allFull:           "agent_queue",
	crowdedOut:        "crowded_out",
	caller:            "caller",
}

// Reasons returns the keys of Stats.Overloaded.
func Reasons() []string { return names[free+1:] }

// field is the path of the setting that would have to be higher.
func (r reason) field() string {
	return [reasons]string{
		cpu:               "tenant.cpu",
		tenantConcurrency: "tenant.concurrency",
		scriptConcurrency: "limits.concurrency",
	}[r]
}

// message says which bound a call has met, and where it is set. The gate's mutex is
// held.
func (r reason) message(g *Gate, t *Turn) string {
	name, tn := t.call.Tenant, t.tenant
	switch r {
	case cpu:
		return fmt.Sprintf("%s has used the %d thousandths of a core that its setting cpu allows", name, t.call.Settings.CPU)
	case tenantConcurrency:
		return fmt.Sprintf("%d calls of %s are in progress, as many as its setting concurrency allows", tn.inProgress, name)
	case scriptConcurrency:
		return fmt.Sprintf("%d calls of %s/%s are in progress, as many as its limit concurrency allows",
			tn.scripts[t.call.Script], name, t.call.Script)
	case tenantFull:
		return fmt.Sprintf("%d calls of %s are waiting, the most that one tenant may have on this agent, half of --max-waiting%s",
			tn.fresh, name, because(g, t))
	case allFull, crowdedOut:
		return fmt.Sprintf("%d calls are running (--max-running) and %d are waiting (--max-waiting), the most that this agent takes, and no tenant has more waiting than %s",
			len(g.turns), g.fresh, name)
	}
	return fmt.Sprintf("the call waited %v for its turn; %d calls run at once on this agent (--max-running)", patience, g.running)
}

// because says what the calls of a full queue wait for, if it is not just a processor.
func because(g *Gate, t *Turn) string {
	if why := t.tenant.blocks(t, g.now()); why != free {
		return ", and " + why.message(g, t)
	}
	return ""
}

// ended returns the error of a call whose ctx is done, with the cause but
// without its words, which are for Go programmers.
func ended(ctx context.Context, kind script.Kind, when string) *script.Error {
	what := "the call's time ran out"
	if errors.Is(ctx.Err(), context.Canceled) {
		what = "the call was canceled"
	}
	return &script.Error{Kind: kind, Message: what + " " + when, Err: context.Cause(ctx)}
}
