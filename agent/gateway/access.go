package gateway

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Access says which peers may use which tenants. A nil or zero Access has no
// rules, and lets every peer use every tenant. It is immutable.
type Access struct {
	rules     []accessRule
	everybody bool // there is the rule Everybody
}

// Everybody is the rule that lets every peer use every tenant.
const Everybody = "*"

// OwnRules returns the rules of an agent that has none: its own user and root may use all tenants.
func OwnRules() []string { return []string{fmt.Sprintf("uid:%d=*", os.Getuid()), "uid:0=*"} }

type accessRule struct {
	group   bool // id is a gid, not a uid
	id      uint32
	all     bool
	tenants []string
}

// ParseAccess parses rules of the form "uid:1000=acme,shop", "gid:33=acme" or
// "uid:0=*", or Everybody. A peer may use what any of the rules for its user or its primary
// group lets it use. Its errors are Invalid.
func ParseAccess(rules []string) (*Access, error) {
	a := &Access{}
	for _, text := range rules {
		text = strings.TrimSpace(text)
		if text == Everybody {
			a.everybody = true
			continue
		}
		rule, err := parseAccessRule(text)
		if err != nil {
			return nil, err
		}
		a.rules = append(a.rules, rule)
	}
	return a, nil
}

func parseAccessRule(text string) (accessRule, error) {
	bad := func(why string) error {
		return script.Errorf(script.Invalid, "access", "rule %q: %s: want uid:NUMBER=TENANT,… or gid:NUMBER=*, or * for everybody", text, why)
	}
	who, tenants, ok := strings.Cut(text, "=")
	if !ok {
		return accessRule{}, bad("there is no '='")
	}
	kind, number, _ := strings.Cut(who, ":")
	if kind != "uid" && kind != "gid" {
		return accessRule{}, bad("it starts with neither uid: nor gid:")
	}
	id, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return accessRule{}, bad("the id is not a number")
	}
	rule := accessRule{group: kind == "gid", id: uint32(id)}
	for tenant := range strings.SplitSeq(tenants, ",") {
		tenant = strings.TrimSpace(tenant)
		if tenant == "*" {
			rule.all = true
			continue
		}
		if err := script.ValidateLabel("tenant", tenant); err != nil {
			return accessRule{}, bad(err.Error())
		}
		rule.tenants = append(rule.tenants, tenant)
	}
	return rule, nil
}

// Open reports whether every peer may use every tenant. An agent that starts so says it
// in its log.
func (a *Access) Open() bool { return a == nil || a.everybody || len(a.rules) == 0 }

// GrantTo returns what the peer may use.
func (a *Access) GrantTo(peer Peer) Grant {
	if a.Open() {
		return Grant{all: true}
	}
	g := Grant{who: peer.String()}
	for _, rule := range a.rules {
		if rule.group && rule.id != peer.GID || !rule.group && rule.id != peer.UID {
			continue
		}
		g.all = g.all || rule.all
		g.tenants = append(g.tenants, rule.tenants...)
	}
	return g
}

// GrantOf returns what the peer at the other end of conn may use: nothing, if
// there are rules and the peer cannot be known. On a socket of one tenant, each peer may use
// that tenant and no other: see OneTenant.
func (a *Access) GrantOf(conn net.Conn) Grant {
	g := Grant{all: a.Open(), who: "an unknown peer", caller: "unknown"}
	if peer, err := PeerOf(conn); err == nil {
		g = a.GrantTo(peer)
		g.who, g.caller = peer.String(), "uid "+strconv.FormatUint(uint64(peer.UID), 10)
	}
	if tenant := tenantOf(conn); tenant != "" {
		g = Grant{tenants: []string{tenant}, who: g.who, caller: g.caller, reason: "this socket is for tenant " + tenant + " alone"}
	}
	return g
}

// Grant is what one connection's peer may use. The zero Grant is nothing. It is
// immutable.
type Grant struct {
	all     bool
	tenants []string
	globs   *script.Selector // more tenants; nil: none
	who     string
	caller  string
	reason  string // why it grants no other tenant; "": no rule does
}

// GrantTo returns a grant of tenants for a caller that is known by its name, such as "caller
// traefik", and not by its user. The reason says in errors why the grant has no other tenant.
func GrantTo(caller string, tenants script.Selector, reason string) Grant {
	return Grant{all: tenants.All(), globs: &tenants, who: caller, caller: caller, reason: reason}
}

// None reports whether no rule grants a tenant to the peer.
func (g Grant) None() bool { return !g.all && len(g.tenants) == 0 && g.globs == nil }

// String names the peer.
func (g Grant) String() string { return g.who }

// Caller names the peer's user, whose connections share one budget: "uid 1000". All
// peers without a grant are one: budget.Stranger.
func (g Grant) Caller() string {
	if g.None() {
		return budget.Stranger
	}
	return g.caller
}

// All reports whether the peer may use all tenants.
func (g Grant) All() bool { return g.all }

// Allows reports whether the peer may use the tenant.
func (g Grant) Allows(tenant string) bool {
	return g.all || slices.Contains(g.tenants, tenant) || g.globs != nil && g.globs.Matches(tenant)
}

// Check returns nil if the peer may use the script ("tenant/name" or
// "tenant/name@7"), a Denied error if it may not, and an Invalid one if ref is
// not a script.
func (g Grant) Check(ref string) error {
	if g.all {
		return nil
	}
	parsed, err := script.ParseRef(ref)
	if err != nil {
		return err
	}
	return g.CheckTenant(parsed.Name.Tenant)
}

// CheckTenant returns nil if the peer may use the tenant, else a Denied error.
func (g Grant) CheckTenant(tenant string) error {
	if g.Allows(tenant) {
		return nil
	}
	reason := g.reason
	if reason == "" {
		reason = "no rule of agentd --allow grants it, such as uid:101=" + tenant
	}
	return script.Errorf(script.Denied, "tenant", "%s may not use tenant %s: %s", g.who, tenant, reason)
}
