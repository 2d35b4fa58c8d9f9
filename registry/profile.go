package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// AgentProfile is a profile that somebody wants of the process of an agent.
type AgentProfile struct {
	By       access.Identity
	Agent    string
	Type     string
	Duration time.Duration // 0 if it takes no time
}

// NoteProfile has the audit trail say who takes a profile of an agent's process. It needs the role
// admin for all tenants: the process has the calls of all of them.
func (r *Registry) NoteProfile(ctx context.Context, p AgentProfile) error {
	if err := mayAdminister(p.By, ""); err != nil {
		return err
	}
	note := fmt.Sprintf("agent %.253s: %.32s", p.Agent, p.Type)
	if p.Duration > 0 {
		note += fmt.Sprintf(" for %v", p.Duration)
	}
	return r.store.AddAudit(ctx, script.AuditEntry{Time: r.now(), Change: script.ChangeProfile, Identity: p.By.Name, Peer: p.By.Peer, Note: note})
}
