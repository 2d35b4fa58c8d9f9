package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Caller is a gateway beside one agent: it calls all the time. It is safe for
// concurrent use.
type Caller struct {
	agent   string
	record  *Record
	scripts []script.Name
	resp    *respConn
	grpc    *agentclient.Client
}

// How often a caller calls, over each socket, and asks what there is.
const (
	respEvery = 5 * time.Millisecond
	grpcEvery = 20 * time.Millisecond
	listEvery = 60 * time.Millisecond
	// A call that has no answer by then has failed.
	callPatience = 10 * time.Second
)

// NewCaller returns a caller of the agent behind the sockets. The caller closes it.
func NewCaller(agent, resp, grpc string, scripts []script.Name, record *Record) (*Caller, error) {
	client, err := agentclient.New(grpc, agentclient.WithConnections(1))
	if err != nil {
		return nil, err
	}
	return &Caller{
		agent: agent, record: record, scripts: scripts,
		resp: &respConn{socket: resp}, grpc: client,
	}, nil
}

// Close ends the caller's connections. Run must have returned.
func (c *Caller) Close() {
	c.resp.close()
	_ = c.grpc.Close()
}

// Run calls until ctx is done.
func (c *Caller) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { c.each(ctx, respEvery, c.callRESP) })
	all.Go(func() { c.each(ctx, grpcEvery, c.callGRPC) })
	all.Go(func() { c.each(ctx, listEvery, func(ctx context.Context, _ script.Name) { _, _ = c.List(ctx) }) })
	all.Wait()
}

// each calls one script after another, and finishes the call in progress.
func (c *Caller) each(ctx context.Context, every time.Duration, call func(context.Context, script.Name)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), callPatience)
		call(bounded, c.scripts[i%len(c.scripts)])
		cancel()
	}
}

func (c *Caller) callRESP(ctx context.Context, name script.Name) {
	g := c.sight(name.String(), "resp")
	reply, err := c.resp.do(ctx, "SCRIPTORIUM.CALL", name.String(), "0")
	g.End = c.record.Now()
	refused, _ := errors.AsType[refusal](err)
	kind, _, _ := strings.Cut(string(refused), " ")
	switch {
	case err == nil:
		fromReply(&g, reply)
	case kind == string(script.NotFound):
		g.State = history.Absent
	case kind == string(script.Disabled):
		g.State = history.Disabled
	default:
		g.State, g.Err = history.Failed, err.Error()
	}
	c.record.called()
	c.record.sight(g)
}

// fromReply reads version, digest, staleness and results.
func fromReply(g *history.Sight, reply any) {
	parts, _ := reply.([]any)
	if len(parts) != 4 {
		g.State, g.Err = history.Failed, fmt.Sprintf("the reply %v has not four parts", reply)
		return
	}
	version, _ := parts[0].(int64)
	digest, _ := parts[1].(string)
	results, _ := parts[3].([]any)
	g.State, g.Version, g.Digest = history.Runs, uint64(version), digest
	if len(results) == 1 {
		text, _ := results[0].(string)
		g.Proof = unquote([]byte(text))
	}
}

// unquote returns what the script returned, as a text.
func unquote(value []byte) string {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return fmt.Sprintf("%q", value)
	}
	return text
}

func (c *Caller) callGRPC(ctx context.Context, name script.Name) {
	g := c.sight(name.String(), "grpc")
	result, err := c.grpc.Call(ctx, name.String())
	g.End = c.record.Now()
	if err == nil && len(result.Values) == 1 {
		g.State, g.Version, g.Digest = history.Runs, result.Version, result.Digest.String()
		g.Proof = unquote(result.Values[0])
	} else {
		g.State, g.Err = stateOf(err)
	}
	c.record.called()
	c.record.sight(g)
}

// stateOf is what an error says of the script.
func stateOf(err error) (history.State, string) {
	switch script.KindOf(err) {
	case script.NotFound:
		return history.Absent, ""
	case script.Disabled:
		return history.Disabled, ""
	}
	return history.Failed, fmt.Sprint(err)
}

// Reached waits until the agent answers over the caller's own connections, which
// may take a moment longer to come back than the agent does.
func (c *Caller) Reached(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.List(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// List asks the agent what it runs, and keeps the answer for every script.
func (c *Caller) List(ctx context.Context) (map[script.Name]agentclient.Script, error) {
	if len(c.scripts) == 0 {
		return nil, nil
	}
	g := c.sight("", "list")
	list, err := c.grpc.List(ctx, agentclient.ListOptions{Tenant: c.scripts[0].Tenant})
	g.End = c.record.Now()
	live := map[script.Name]agentclient.Script{}
	for _, s := range list {
		live[s.Name] = s
	}
	for _, name := range c.scripts {
		one := g
		one.Script = name.String()
		s, ok := live[name]
		switch {
		case err != nil:
			one.State, one.Err = history.Failed, err.Error()
		case !ok:
			one.State = history.Absent
		default:
			one.State, one.Revision, one.Version, one.Digest = history.Runs, int64(s.Revision), s.Active.Number, s.Active.Digest.String()
			if !s.Enabled {
				one.State = history.Disabled
			}
		}
		c.record.sight(one)
	}
	return live, err
}

// sight begins an answer.
func (c *Caller) sight(name, via string) history.Sight {
	return history.Sight{Agent: c.agent, Script: name, Via: via, Start: c.record.Now()}
}
