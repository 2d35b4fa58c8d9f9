package scriptctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/script"
)

// tenantView is what holds for a tenant in -o json and -o yaml, defaults included: see
// the views. 0 is no bound.
type tenantView struct {
	Tenant      string           `json:"tenant"`
	Revision    script.Revision  `json:"revision"` // 0 when nothing was set
	Isolation   script.Isolation `json:"isolation"`
	Concurrency int              `json:"concurrency"`
	CPU         int              `json:"cpuMillicores"`
	MemoryBytes int64            `json:"memoryBytes"`
	LogBytes    int              `json:"logBytes"` // a second
	ValueBytes  int64            `json:"valueBytes"`
	Scripts     int              `json:"scripts"`
	SourceBytes int64            `json:"sourceBytes"`
	Writes      int              `json:"writes"`          // a second
	WriteBytes  int              `json:"writeBytes"`      // a second
	Log         *recordedView    `json:"log,omitempty"`   // absent when no calls are recorded
	Audit       script.Audit     `json:"audit,omitempty"` // absent for none
	Limits      limitsView       `json:"limits"`
	Author      string           `json:"author,omitempty"`
	ChangedAt   *time.Time       `json:"changedAt,omitempty"`
}

// tenantChangeView is what holds for a tenant after a change.
type tenantChangeView struct {
	tenantView
	Changed bool `json:"changed"`
}

func viewOfTenant(t *script.Tenant) tenantView {
	s := t.Settings.OrDefaults()
	return tenantView{
		Tenant: t.Name, Revision: t.Revision, Isolation: s.Isolation, Concurrency: s.Concurrency, CPU: s.CPU,
		MemoryBytes: s.MemoryBytes, LogBytes: s.LogBytes, ValueBytes: s.ValueBytes,
		Scripts: s.Scripts, SourceBytes: s.SourceBytes, Writes: s.Writes, WriteBytes: s.WriteBytes, Log: viewOfLog(s.Decisions), Audit: s.Audit, Limits: viewOfLimits(s.Limits),
		Author: t.Author, ChangedAt: timeView(t.ChangedAt),
	}
}

// setting is one of a tenant's settings, in words.
type setting struct {
	name      string
	text      string
	isDefault bool
}

// settingsOf returns all of them, in the order of the flags.
func settingsOf(set script.TenantSettings) []setting {
	s, l := set.OrDefaults(), set.Limits
	rate := func(n int) string { return orUnbound(n, exactSize(int64(n))+"/s") }
	size := func(n int) string { return orUnbound(n, exactSize(int64(n))) }
	decisions := "-"
	if d := s.Decisions; d != nil {
		decisions = (*decisionsView)(d).String()
	}
	return []setting{
		{"isolation", string(s.Isolation), set.Isolation == ""},
		{"concurrency", orUnbound(s.Concurrency, strconv.Itoa(s.Concurrency)), set.Concurrency == 0},
		{"cpu", orUnbound(s.CPU, cores(s.CPU)), set.CPU == 0},
		{"memory", exactSize(s.MemoryBytes), set.MemoryBytes == 0},
		{"log-rate", rate(s.LogBytes), set.LogBytes == 0},
		{"values", exactSize(s.ValueBytes), set.ValueBytes == 0},
		{"scripts", strconv.Itoa(s.Scripts), set.Scripts == 0},
		{"sources", exactSize(s.SourceBytes), set.SourceBytes == 0},
		{"writes", strconv.Itoa(s.Writes) + "/s", set.Writes == 0},
		{"write-rate", rate(s.WriteBytes), set.WriteBytes == 0},
		{"decisions", decisions, set.Decisions == nil},
		{"audit", orDash(string(s.Audit)), set.Audit == ""},
		{"max-instructions", orUnbound(l.Instructions, strconv.FormatUint(l.Instructions, 10)), l.Instructions == 0},
		{"max-timeout", orUnbound(l.Timeout, l.Timeout.String()), l.Timeout == 0},
		{"max-source", size(l.SourceBytes), l.SourceBytes == 0},
		{"max-string", size(l.StringBytes), l.StringBytes == 0},
		{"max-result", size(l.ResultBytes), l.ResultBytes == 0},
		{"max-log-rate", rate(l.LogBytes), l.LogBytes == 0},
		{"max-concurrency", orUnbound(l.Concurrency, strconv.Itoa(l.Concurrency)), l.Concurrency == 0},
	}
}

// orUnbound returns text, or what stands for no bound if n is 0.
func orUnbound[T int | uint64 | time.Duration](n T, text string) string {
	if n == 0 {
		return "-"
	}
	return text
}

func (s setting) String() string {
	if s.isDefault && s.text != "-" {
		return s.text + " (default)"
	}
	return s.text
}

func (a *app) tenantCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tenant",
		Short: "Bound what all scripts of a tenant may use together",
		Long: `A tenant has settings that hold for all its scripts together, on each agent: how their
calls are kept from those of others, and how much they may use.`,
	}
	cmd.AddCommand(a.tenantGetCommand(), a.tenantSetCommand(), a.tenantListCommand(), a.tenantUnsetCommand())
	return cmd
}

func wantTenant() cobra.PositionalArgs { return wantArgs(1, 1, "a tenant", "tenant") }

func (a *app) tenantGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "get TENANT",
		Short:             "Show what holds for a tenant",
		Args:              wantTenant(),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := script.ValidateLabel("tenant", args[0]); err != nil {
				return usage(err)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			tenant, err := client.Tenant(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(viewOfTenant(&tenant), func(w io.Writer) { printTenant(w, &tenant) })
		},
	}
}

func printTenant(w io.Writer, t *script.Tenant) {
	if t.Revision == 0 {
		fmt.Fprintf(w, "%s: nothing is set, the defaults hold\n", t.Name)
	} else {
		fmt.Fprintf(w, "%s: set by %s, %s, revision %d\n", t.Name, orDash(t.Author), clock(t.ChangedAt), t.Revision)
	}
	var rows [][]string
	for _, s := range settingsOf(t.Settings) {
		rows = append(rows, []string{s.name + ":", plain(s.String())})
	}
	columns(w, rows)
}

// tenantFlags are what can be set.
type tenantFlags struct {
	isolation                     string
	concurrency                   int
	cpu                           cpuValue
	memory, logRate, values       sizeValue
	scripts, writes               int
	sources, writeRate            sizeValue
	instructions                  uint64
	timeout                       time.Duration
	source, str, result, scriptLR sizeValue
	scriptConcurrency             int
	sample                        float64
	errors                        bool
	mask, fields                  []string
	audit                         string
}

func (f *tenantFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.isolation, "isolation", "", "shared: in the agent's process, or process: in one that the tenant has to itself")
	flags.IntVar(&f.concurrency, "concurrency", 0, "calls that run at once on each agent")
	flags.Var(&f.cpu, "cpu", "processor time on average, such as 500m or 2")
	flags.Var(&f.memory, "memory", "memory of the tenant's process, or that its running calls allocate together in the shared one, such as 256Mi")
	flags.Var(&f.logRate, "log-rate", "what all scripts together may log in a second, such as 64Ki")
	flags.Var(&f.values, "values", "what all of its kv data may have, such as 16Mi")
	flags.IntVar(&f.scripts, "scripts", 0, "how many scripts the tenant can have")
	flags.Var(&f.sources, "sources", "size of all sources in retained versions, such as 512Mi")
	flags.IntVar(&f.writes, "writes", 0, "changes a second on average; 100 times as many can come at once")
	flags.Var(&f.writeRate, "write-rate", "bytes of sources and kv data a second on average, such as 1Mi; 128 times as many can come at once")
	flags.Float64Var(&f.sample, "decisions-sample", 0, "share of the calls that agents record in their decision logs, from 0 to 1, for scripts without spec.log")
	flags.BoolVar(&f.errors, "decisions-errors", false, "record every call that fails, for scripts without spec.log")
	flags.StringSliceVar(&f.mask, "decisions-mask", nil, "paths of arguments and results whose values no record of any script has, such as headers.authorization,body")
	flags.StringSliceVar(&f.fields, "decisions-fields", nil, "what records have, such as error,input.headers.host, for scripts without spec.log; empty for all")
	flags.StringVar(&f.audit, "audit", "", "strict: record every call, and fail those whose record the agent's disk does not accept; none: neither")
	flags.Uint64Var(&f.instructions, "max-instructions", 0, "the most that any script's limits may be: instructions of a call")
	flags.DurationVar(&f.timeout, "max-timeout", 0, "likewise: the time of a call")
	flags.Var(&f.source, "max-source", "likewise: the source")
	flags.Var(&f.str, "max-string", "likewise: any one string")
	flags.Var(&f.result, "max-result", "likewise: the results of a call")
	flags.Var(&f.scriptLR, "max-log-rate", "likewise: what the script logs in a second")
	flags.IntVar(&f.scriptConcurrency, "max-concurrency", 0, "likewise: calls of the script that run at once")
}

// apply sets what was given, and reports whether anything was.
func (f *tenantFlags) apply(flags *pflag.FlagSet, s *script.TenantSettings) (given bool) {
	for name, set := range map[string]func(){
		"isolation":        func() { s.Isolation = script.Isolation(f.isolation) },
		"concurrency":      func() { s.Concurrency = f.concurrency },
		"cpu":              func() { s.CPU = int(f.cpu) },
		"memory":           func() { s.MemoryBytes = int64(f.memory) },
		"log-rate":         func() { s.LogBytes = int(f.logRate) },
		"values":           func() { s.ValueBytes = int64(f.values) },
		"scripts":          func() { s.Scripts = f.scripts },
		"sources":          func() { s.SourceBytes = int64(f.sources) },
		"writes":           func() { s.Writes = f.writes },
		"write-rate":       func() { s.WriteBytes = int(f.writeRate) },
		"audit":            func() { s.Audit = auditOf(f.audit) },
		"max-instructions": func() { s.Limits.Instructions = f.instructions },
		"max-timeout":      func() { s.Limits.Timeout = f.timeout },
		"max-source":       func() { s.Limits.SourceBytes = int(f.source) },
		"max-string":       func() { s.Limits.StringBytes = int(f.str) },
		"max-result":       func() { s.Limits.ResultBytes = int(f.result) },
		"max-log-rate":     func() { s.Limits.LogBytes = int(f.scriptLR) },
		"max-concurrency":  func() { s.Limits.Concurrency = f.scriptConcurrency },
	} {
		if flags.Changed(name) {
			set()
			given = true
		}
	}
	return f.applyDecisions(flags, s) || given
}

func (a *app) tenantSetCommand() *cobra.Command {
	var f tenantFlags
	cmd := &cobra.Command{
		Use:   "set TENANT",
		Short: "Change what holds for a tenant",
		Long: `Set changes the settings that are given, and keeps the others. 0 takes a setting back to
its default, which for most is no bound at all. It needs the role admin.

The --max flags bound what the limits of each script may be: a script that asks for more
gets that much.

The --decisions flags say which calls agents record in the logs of their --decision-log, unless
a script has spec.log. The masks hold for all scripts.`,
		Example:           "  scriptctl tenant set acme --isolation process --memory 256Mi --cpu 500m\n  scriptctl tenant set acme --max-timeout 50ms --concurrency 4\n  scriptctl tenant set acme --decisions-errors --decisions-mask headers.authorization,body --audit strict",
		Args:              wantTenant(),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := script.ValidateLabel("tenant", args[0]); err != nil {
				return usage(err)
			}
			var asked script.TenantSettings
			if !f.apply(cmd.Flags(), &asked) {
				return usage(script.Errorf(script.Invalid, "", "tenant set wants a setting to change, such as --concurrency 4"))
			}
			if err := asked.Validate("settings"); err != nil {
				return usage(err)
			}
			return a.tenantChange(cmd.Context(), args[0], func(s script.TenantSettings) *script.TenantSettings {
				f.apply(cmd.Flags(), &s)
				return &s
			})
		},
	}
	f.add(cmd.Flags())
	must(cmd.RegisterFlagCompletionFunc("audit", cobra.FixedCompletions([]string{string(script.AuditStrict), auditNone}, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("isolation", cobra.FixedCompletions(
		[]string{string(script.IsolationShared), string(script.IsolationProcess)}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func (a *app) tenantUnsetCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "unset TENANT",
		Short:             "Take away all that was set for a tenant",
		Long:              "Unset takes away all that was set for a tenant, so that the defaults hold: its scripts and\nits kv data stay. It needs the role admin.",
		Args:              wantTenant(),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := script.ValidateLabel("tenant", args[0]); err != nil {
				return usage(err)
			}
			return a.tenantChange(cmd.Context(), args[0], func(script.TenantSettings) *script.TenantSettings { return nil })
		},
	}
}

// changeAttempts bounds how often settings are read anew because another one was
// faster.
const changeAttempts = 3

// tenantChange replaces a tenant's settings by what change makes of them; nil takes
// them away.
func (a *app) tenantChange(ctx context.Context, name string, change func(script.TenantSettings) *script.TenantSettings) error {
	write, err := a.dataWrite(0)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		before, err := client.Tenant(ctx, name)
		if err != nil {
			return err
		}
		write.ExpectedRevision = before.Revision
		after, changed, err := client.SetTenant(ctx, name, change(before.Settings), write)
		if script.KindOf(err) == script.Conflict && attempt < changeAttempts {
			continue
		}
		if err != nil {
			return about(name, err)
		}
		return a.print(tenantChangeView{viewOfTenant(&after), changed}, func(w io.Writer) {
			printTenantChange(w, &before, &after, changed)
		})
	}
}

func printTenantChange(w io.Writer, before, after *script.Tenant, changed bool) {
	if !changed {
		fmt.Fprintf(w, "%s (unchanged)\n", after.Name)
		return
	}
	fmt.Fprintf(w, "%s revision %d\n", after.Name, after.Revision)
	was := settingsOf(before.Settings)
	for i, s := range settingsOf(after.Settings) {
		if s != was[i] {
			fmt.Fprintf(w, "%s: %s -> %s\n", s.name, plain(was[i].String()), plain(s.String()))
		}
	}
}

func (a *app) tenantListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the tenants for which something was set",
		Long:    "List shows the tenants for which something was set; the defaults hold for all others. It\nneeds the role admin of all tenants.",
		Args:    wantArgs(0, 0, "no argument", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.tenantList(cmd.Context())
		},
	}
}

func (a *app) tenantList(ctx context.Context) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	views := []tenantView{}
	rows := [][]string{{"TENANT", "ISOLATION", "CONCURRENCY", "CPU", "MEMORY", "LOG-RATE", "VALUES", "REVISION", "CHANGED", "AUTHOR"}}
	const listed = 6 // settings
	var left unread
	for t, err := range client.Tenants(ctx) {
		if err != nil {
			if _, err := left.take(err); err != nil {
				return err
			}
			continue
		}
		views = append(views, viewOfTenant(&t))
		row := []string{t.Name}
		for _, s := range settingsOf(t.Settings)[:listed] {
			row = append(row, plain(s.text))
		}
		rows = append(rows, append(row, strconv.FormatInt(int64(t.Revision), 10), clock(t.ChangedAt), orDash(t.Author)))
	}
	err = a.print(views, func(w io.Writer) {
		if len(views) == 0 {
			fmt.Fprintln(a.Err, "nothing is set for any tenant: the defaults hold")
			return
		}
		columns(w, rows)
	})
	return cmp.Or(err, left.err())
}
