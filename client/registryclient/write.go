package registryclient

import (
	"context"
	"crypto/rand"
	"errors"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Write is what every write says of itself.
type Write struct {
	Author string // who asks for it; required
	Note   string // why, for the script's history
	// ExpectedRevision: if not 0, the write happens only if the release still
	// has this revision, and is a Conflict otherwise. With script.Absent it happens only if there is no
	// such script, or it was deleted: two who create one at once do not overwrite each other.
	ExpectedRevision script.Revision
	// Owner is who the write acts for; "" for nobody. A script that has an owner is
	// changed by writes for that owner, and is Denied to others unless they Force,
	// which needs the role admin. A publish for an owner gives a script that has
	// none, or is forced, that owner.
	Owner string
	Force bool
	// RequestID names this one write, so that it happens once however often it is
	// sent within an hour: 16 to 64 bytes, such as NewRequestID returns. "" makes one
	// for the call.
	RequestID string
}

// NewRequestID returns a random id for a write, for those who send it again
// themselves.
func NewRequestID() string { return rand.Text() }

// id returns the id that the write is sent with.
func (w *Write) id() string {
	if w.RequestID != "" {
		return w.RequestID
	}
	return NewRequestID()
}

// PublishRequest asks for a source to be what a script runs. A nil pointer
// keeps what the script has, and means the default for a new one.
type PublishRequest struct {
	Name       script.Name
	Source     []byte  // nil if Settings have an Artifact
	Engine     string  // "" means lua
	Entrypoint *string // nil means handle; "" means that the chunk itself is the program
	Settings   *script.Settings
	Enabled    *bool
	Pin        *uint64 // 0 follows the latest; it may be the version that this publish makes
	DryRun     bool    // check everything, store nothing
	// LiftHold lifts the script's hold, if there is one, which needs the role release. Otherwise
	// a held script stays at its active version, and Pin is for when the hold is lifted.
	LiftHold bool
	// Signature of the publisher, as publisher.Sign makes it; "" for none. It takes
	// Settings.
	Signature string
	Write
}

// Published is the answer to a publish.
type Published struct {
	Release script.Release
	Version script.Version // the one that holds the source, new or not
	Changed bool           // anything did; with DryRun, would have
	DryRun  bool
	// Warnings are of what the registry took, and may not do what is expected: a step whose
	// selector selects no agent.
	Warnings []string
	// Libraries are what the source requires, without their sources.
	Libraries []script.Library
}

// Publish stores source as a version, unless it equals the latest one, and
// applies the settings given, in one transaction. A source that does not
// compile is an error of kind Script with its line; nothing is stored then.
//
// A new version of a script that has tests, or steps to be rolled out in, is the
// release's Candidate at first, and what was active stays so.
func (c *Client) Publish(ctx context.Context, p PublishRequest) (Published, error) {
	req := fromPublish(&p)
	if !p.DryRun { // what stores nothing need not happen once
		req.RequestId = p.id()
	}
	resp, err := call(ctx, c, c.registry.Publish, req)
	if err != nil {
		return Published{}, err
	}
	release, err := toRelease(resp.GetRelease())
	if err != nil {
		return Published{}, err
	}
	version, err := wire.ToVersion(resp.GetVersion())
	if err != nil {
		return Published{}, malformed(err)
	}
	libraries, err := wire.ToLibraries(resp.GetLibraries())
	if err != nil {
		return Published{}, malformed(err)
	}
	return Published{Libraries: libraries, Release: release, Version: version, Changed: resp.GetChanged(), DryRun: p.DryRun, Warnings: resp.GetWarnings()}, nil
}

// fromPublish returns the message for the request, without an id.
func fromPublish(p *PublishRequest) *registryv1.PublishRequest {
	req := &registryv1.PublishRequest{
		Tenant:           p.Name.Tenant,
		Name:             p.Name.Script,
		Source:           p.Source,
		Engine:           p.Engine,
		Entrypoint:       p.Entrypoint,
		Enabled:          p.Enabled,
		Pin:              p.Pin,
		Author:           p.Author,
		Note:             p.Note,
		ExpectedRevision: int64(p.ExpectedRevision),
		Owner:            p.Owner,
		Force:            p.Force,
		DryRun:           p.DryRun,
		Signature:        p.Signature,
		LiftHold:         p.LiftHold,
	}
	if p.Settings != nil {
		req.Settings = wire.FromSettings(*p.Settings)
	}
	return req
}

// Pin makes a retained version active, or keeps the active one if version is 0, and holds the
// script there until LiftHold. It returns the release as it is then, and whether that is a
// change.
func (c *Client) Pin(ctx context.Context, name script.Name, version uint64, w Write) (script.Release, bool, error) {
	resp, err := call(ctx, c, c.registry.Pin, &registryv1.PinRequest{
		Tenant: name.Tenant, Name: name.Script, Version: version,
		Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
		Owner: w.Owner, Force: w.Force, RequestId: w.id(),
	})
	if e, ok := errors.AsType[*script.Error](err); ok && version == 0 && e.Kind == script.Invalid && e.Field == "version" {
		err = script.Errorf(script.Invalid, "", "the registry at %s is too old to hold a script: upgrade registryd, or name the version that runs (%w)", c.target, err)
	}
	return changed(resp, err)
}

// LiftHold returns to what publishers declare: the version that they pin, or the latest.
func (c *Client) LiftHold(ctx context.Context, name script.Name, w Write) (script.Release, bool, error) {
	resp, err := call(ctx, c, c.registry.LiftHold, &registryv1.LiftHoldRequest{
		Tenant: name.Tenant, Name: name.Script,
		Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
		Owner: w.Owner, Force: w.Force, RequestId: w.id(),
	})
	return changed(resp, err)
}

// Rollback pins an older version, as Pin does; 0 is the active one if there is a candidate, and else
// the last retained one before it that was live (NotFound if there is none). With 0, a script that
// a rollback has taken back, and that is held there, stays as it is.
func (c *Client) Rollback(ctx context.Context, name script.Name, version uint64, w Write) (script.Release, bool, error) {
	resp, err := call(ctx, c, c.registry.Rollback, &registryv1.RollbackRequest{
		Tenant: name.Tenant, Name: name.Script, Version: version,
		Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
		Owner: w.Owner, Force: w.Force, RequestId: w.id(),
	})
	return changed(resp, err)
}

// SetEnabled enables or disables a script. A disabled one answers Disabled.
func (c *Client) SetEnabled(ctx context.Context, name script.Name, enabled bool, w Write) (script.Release, bool, error) {
	resp, err := call(ctx, c, c.registry.SetEnabled, &registryv1.SetEnabledRequest{
		Tenant: name.Tenant, Name: name.Script, Enabled: enabled,
		Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
		Owner: w.Owner, Force: w.Force, RequestId: w.id(),
	})
	return changed(resp, err)
}

// SetOwner gives a script an owner, another one, or with "" none. The write acts
// for w.Owner, as every other does: for the owner that there is, unless it is forced.
func (c *Client) SetOwner(ctx context.Context, name script.Name, owner string, w Write) (script.Release, bool, error) {
	resp, err := call(ctx, c, c.registry.SetOwner, &registryv1.SetOwnerRequest{
		Tenant: name.Tenant, Name: name.Script, NewOwner: owner,
		Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
		Owner: w.Owner, Force: w.Force, RequestId: w.id(),
	})
	return changed(resp, err)
}

// Steering is what is wanted of a candidate: a version that is tested or rolled out.
type Steering int

// The steerings.
const (
	Promote = Steering(registryv1.Steering_STEERING_PROMOTE) // live everywhere at once, whatever its tests and steps
	Abort   = Steering(registryv1.Steering_STEERING_ABORT)   // given up: what was active before runs everywhere
	Retry   = Steering(registryv1.Steering_STEERING_RETRY)   // tested anew, and through its steps again
	Approve = Steering(registryv1.Steering_STEERING_APPROVE) // may go on after its step, which waits for that
)

// Steer changes the way of a script's candidate: of that version, or of whichever there is
// if version is 0. It is NotFound if there is none, and a Conflict if it is another one.
// With an Abort the note says why.
func (c *Client) Steer(ctx context.Context, name script.Name, s Steering, version uint64, w Write) (script.Release, bool, error) {
	return c.steer(ctx, &registryv1.SteerRequest{Tenant: name.Tenant, Name: name.Script, Steering: registryv1.Steering(s), Version: version}, w)
}

// Approve lets a script's candidate go on after the step. It is a Conflict if the candidate is
// another version, or in another step.
func (c *Client) Approve(ctx context.Context, name script.Name, version uint64, step int, w Write) (script.Release, bool, error) {
	return c.steer(ctx, &registryv1.SteerRequest{
		Tenant: name.Tenant, Name: name.Script, Steering: registryv1.Steering(Approve), Version: version, Step: int32(step), //nolint:gosec // of a plan
	}, w)
}

func (c *Client) steer(ctx context.Context, req *registryv1.SteerRequest, w Write) (script.Release, bool, error) {
	req.Author, req.Note, req.ExpectedRevision = w.Author, w.Note, int64(w.ExpectedRevision)
	req.Owner, req.Force, req.RequestId = w.Owner, w.Force, w.id()
	resp, err := call(ctx, c, c.registry.Steer, req)
	return changed(resp, err)
}

// Delete removes a script and its versions, and returns the tombstone.
func (c *Client) Delete(ctx context.Context, name script.Name, w Write) (script.Release, error) {
	resp, err := call(ctx, c, c.registry.Delete, &registryv1.DeleteRequest{
		Tenant: name.Tenant, Name: name.Script,
		Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
		Owner: w.Owner, Force: w.Force, RequestId: w.id(),
	})
	if err != nil {
		return script.Release{}, err
	}
	return toRelease(resp.GetRelease())
}

// change is what the answers to changes of a release have in common.
type change interface {
	GetRelease() *scriptv1.Release
	GetChanged() bool
}

func changed(resp change, err error) (script.Release, bool, error) {
	if err != nil {
		return script.Release{}, false, err
	}
	release, err := toRelease(resp.GetRelease())
	return release, resp.GetChanged(), err
}

func toRelease(m *scriptv1.Release) (script.Release, error) {
	r, err := wire.ToRelease(m)
	if err != nil {
		return script.Release{}, malformed(err)
	}
	return r, nil
}

// malformed is for an answer that breaks the contract: the fault is not the
// caller's, whatever kind the translation gave it.
func malformed(err error) error {
	return script.Errorf(script.Internal, "", "the registry's answer cannot be read: %w", err)
}
