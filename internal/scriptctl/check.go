package scriptctl

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/script"
)

const checkLong = `Check examines the way to a registry and what is behind it, a line for each point:

  address       where the address of the registry is from
  certificate   that the files of certificates can be used, and how long they are valid
  registry      that it answers
  versions      that scriptctl, the registry and the agents are of one edition
  clock         that this machine and the registry agree on the time
  etcd, NATS    how they are, as the registry sees them
  caller        who you are to the registry, and your roles
  agents        that agents are connected, current and without failures

A point is ok, warn or fail, and says what to do next. Check ends with exit code 1 if a
point fails, and with 5 if the registry cannot be reached. It changes nothing.

Use "scriptctl doctor" to examine the records in the registry's store.`

// The levels of what check found.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// The limits of what is ok.
const (
	mostSkew     = 5 * time.Second // tokens and freezes go by the registry's clock
	fewDays      = 14 * 24 * time.Hour
	mostAgentLag = 10 * time.Second
)

// checkView is one point.
type checkView struct {
	Check   string `json:"check"`
	State   string `json:"state"` // ok, warn or fail
	Message string `json:"message"`
	Next    string `json:"next,omitempty"` // what to do; empty if nothing
}

// checks collects the points.
type checks struct{ all []checkView }

func (c *checks) add(what, state, message, next string) {
	c.all = append(c.all, checkView{Check: what, State: state, Message: message, Next: next})
}

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Examine the way to the registry, its parts, the agents and your rights", Long: checkLong,
		Example: "  scriptctl check\n  scriptctl check --context production -o json",
		Args:    wantArgs(0, 0, "no argument", ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context()) },
	}
}

func (a *app) check(ctx context.Context) error {
	c := &checks{}
	err := a.checkAll(ctx, c)
	rows := [][]string{{"CHECK", "STATE", "MESSAGE"}}
	failed := 0
	for _, v := range c.all {
		text := v.Message
		if v.Next != "" {
			text += ": " + v.Next
		}
		rows = append(rows, []string{v.Check, v.State, plain(text)})
		if v.State == checkFail {
			failed++
		}
	}
	if printErr := a.print(c.all, func(w io.Writer) { columns(w, rows) }); printErr != nil {
		return printErr
	}
	if failed == 0 {
		return nil
	}
	code := exitOther
	if err != nil && exitCode(err) == exitUnreachable {
		code = exitUnreachable
	}
	return &exitError{code: code, err: errors.New(count(failed, "check") + " failed")}
}

// checkAll adds the points in the order of the way. It returns the error that ends the way early.
func (a *app) checkAll(ctx context.Context, c *checks) error {
	s, err := a.settings()
	if err != nil {
		c.add("address", checkFail, text(err), "")
		return err
	}
	c.add("address", checkOK, a.way(), "")
	now := time.Now()
	for _, f := range []sourced{s.ca, s.cert} {
		if f.value != "" {
			c.certificates(f, now)
		}
	}
	client, err := a.connect()
	if err != nil {
		c.add("registry", checkFail, text(err), "")
		return err
	}
	begin := time.Now()
	found, err := client.Check(ctx)
	took := time.Since(begin)
	if err != nil {
		if !registryclient.IsUnimplemented(err) {
			c.add("registry", checkFail, text(err), nextOf(err))
			return err
		}
		c.add("registry", checkWarn, "it answers, and is older than this check", "upgrade it")
	} else {
		c.add("registry", checkOK, fmt.Sprintf("it answers in %v", took.Round(time.Millisecond)), "")
		c.registry(&found, begin.Add(took/2), now)
	}
	return c.agents(ctx, client, found.Software)
}

// nextOf says what to do about an error that does not say it.
func nextOf(err error) string {
	if script.KindOf(err) == script.Denied {
		return "name a certificate or token that the access policy knows (--cert and --key, or --token-file)"
	}
	return ""
}

// certificates adds the validity of those in a file. The one of a bundle that lasts the longest counts.
func (c *checks) certificates(f sourced, now time.Time) {
	data, err := os.ReadFile(f.value)
	if err != nil {
		c.add("certificate", checkFail, text(err)+" ("+f.from+")", "")
		return
	}
	var best *x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && (best == nil || cert.IsCA && cert.NotAfter.After(best.NotAfter)) {
			best = cert
		}
	}
	if best == nil {
		c.add("certificate", checkFail, f.value+" holds no certificate in PEM ("+f.from+")", "")
		return
	}
	names := best.Subject.CommonName
	if len(best.DNSNames) > 0 {
		names += " (" + strings.Join(best.DNSNames, ", ") + ")"
	}
	message := fmt.Sprintf("%s, %s, valid until %s", f.value, names, best.NotAfter.UTC().Format(time.DateOnly))
	left := best.NotAfter.Sub(now)
	switch {
	case now.Before(best.NotBefore):
		c.add("certificate", checkFail, fmt.Sprintf("%s is not valid before %s", f.value, best.NotBefore.UTC().Format(time.RFC3339)), "set the clock of this machine")
	case left <= 0:
		c.add("certificate", checkFail, f.value+" expired on "+best.NotAfter.UTC().Format(time.DateOnly), "renew it")
	case left < fewDays:
		c.add("certificate", checkWarn, message+", "+days(left)+" left", "renew it")
	default:
		c.add("certificate", checkOK, message+", "+days(left)+" left", "")
	}
}

func days(d time.Duration) string { return count(int(d/(24*time.Hour)), "day") }

// registry adds what the registry says of itself, and of the caller. middle is between request and answer.
func (c *checks) registry(found *registryclient.Check, middle, now time.Time) {
	own := version.String()
	if found.Software == own {
		c.add("versions", checkOK, "scriptctl and the registry are "+own, "")
	} else {
		c.add("versions", checkWarn, "scriptctl is "+own+", and the registry "+found.Software, "take one edition for both")
	}
	skew := found.Now.Sub(middle).Round(time.Millisecond)
	if skew.Abs() > mostSkew {
		c.add("clock", checkWarn, fmt.Sprintf("the registry's clock differs by %v", skew), "synchronize both machines by NTP")
	} else {
		c.add("clock", checkOK, fmt.Sprintf("the registry's clock differs by %v", skew), "")
	}
	for _, p := range found.Parts {
		if p.Fault == "" {
			c.add(p.Name, checkOK, "as it should be", "")
			continue
		}
		state := checkWarn
		if p.Name == "etcd" {
			state = checkFail
		}
		c.add(p.Name, state, p.Fault, "")
	}
	var roles []string
	for _, g := range found.Grants {
		tenants := strings.Join(g.Tenants, ", ")
		if len(g.Tenants) == 0 {
			tenants = "all tenants"
		}
		roles = append(roles, strings.Join(g.Roles, " and ")+" for "+tenants)
	}
	if len(roles) == 0 {
		c.add("caller", checkFail, found.Caller+" has no role", "ask whoever keeps the access policy")
		return
	}
	message := "you are " + found.Caller + ": " + strings.Join(roles, "; ")
	if left := found.Expires.Sub(now); !found.Expires.IsZero() && left < fewDays {
		c.add("caller", checkWarn, message+"; until "+found.Expires.UTC().Format(time.RFC3339), "renew the token or the certificate")
		return
	}
	c.add("caller", checkOK, message, "")
}

// agents adds how the fleet is.
func (c *checks) agents(ctx context.Context, client *registryclient.Client, software string) error {
	connected := 0
	var troubled, others []string
	for agent, err := range client.Agents(ctx, false) {
		if script.KindOf(err) == script.Denied {
			c.add("agents", checkWarn, "you may not see agents", "ask for the role read for all tenants")
			return nil
		}
		if err != nil {
			c.add("agents", checkFail, text(err), "")
			return err
		}
		if !agent.Unknown && agent.Foreign == "" {
			connected++
		}
		if agent.Unknown || agent.Foreign != "" || agent.Failed > 0 || agent.Held != "" || agent.Behind > 0 && agent.Lag > mostAgentLag {
			troubled = append(troubled, agent.Name+" ("+agentState(&agent)+")")
		}
		if software != "" && agent.Software != software {
			others = append(others, agent.Name+" ("+orDash(agent.Software)+")")
		}
	}
	switch {
	case connected == 0:
		c.add("agents", checkFail, "none is connected", "start agentd, or check its log and its address of the registry")
	case len(troubled) > 0:
		c.add("agents", checkWarn, fmt.Sprintf("%d connected; in trouble: %s", connected, some(troubled)), "scriptctl agents --troubled")
	default:
		c.add("agents", checkOK, fmt.Sprintf("%d connected, all current", connected), "")
	}
	if len(others) > 0 {
		c.add("versions", checkWarn, "agents of another edition than the registry: "+some(others), "finish the upgrade")
	}
	return nil
}
