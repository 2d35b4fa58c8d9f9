package scriptctl

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

const formatCSV = "csv"

// The periods of --by. The empty one is the whole time.
const (
	byHour = "hour"
	byDay  = "day"
)

// usageOptions are the flags of usage.
type usageOptions struct {
	tenant, since, until, by string
}

// usageView is the usage of a tenant in a period, in -o json and -o yaml.
type usageView struct {
	Tenant           string    `json:"tenant"`
	From             time.Time `json:"from"`
	Until            time.Time `json:"until"`
	Calls            uint64    `json:"calls"`
	Errors           uint64    `json:"errors"`
	ProcessorSeconds float64   `json:"processorSeconds"`
	Instructions     uint64    `json:"instructions"`
	BytesIn          uint64    `json:"bytesIn"`
	BytesOut         uint64    `json:"bytesOut"`
}

func (a *app) usageCommand() *cobra.Command {
	var o usageOptions
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show what the calls of tenants used",
		Long: `usage shows how many calls each tenant had on the fleet, how many ended with an error,
and what they used: processor time, instructions, and bytes of arguments and results.
The registry keeps it for 31 days, by the hour. Periods are whole hours, or days, of UTC.

Agents report every minute, and the registry stores every half minute: what was used in
the last two minutes may be missing. To see one tenant, you need the role read on it. To see
all tenants, you need the role admin on "*".`,
		Example:     "  scriptctl usage --tenant acme --since 24h --by hour\n  scriptctl usage --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z --by day -o csv",
		Args:        wantArgs(0, 0, "no arguments", ""),
		Annotations: map[string]string{moreFormats: formatCSV},
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := o.filter(time.Now())
			if err != nil {
				return usage(err)
			}
			return a.usage(cmd.Context(), filter, o.by)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.tenant, "tenant", "", "only this tenant (default all)")
	flags.StringVar(&o.since, "since", "24h", "how long ago it begins, such as 24h, or a time, such as 2026-01-31T12:00:00Z")
	flags.StringVar(&o.until, "until", "", "how long ago it ends, or a time (default now)")
	flags.StringVar(&o.by, "by", "", "a line for each hour or day: hour or day (default one line for all of the time)")
	must(cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{byHour, byDay}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// filter returns the filter of the flags, extended to whole periods.
func (o *usageOptions) filter(now time.Time) (f registryclient.UsageFilter, err error) {
	if !slices.Contains([]string{"", byHour, byDay}, o.by) {
		return f, script.Errorf(script.Invalid, "--by", "%.80q is no period: want %s or %s", o.by, byHour, byDay)
	}
	if f.Tenant = o.tenant; f.Tenant != "" {
		if err := script.ValidateLabel("--tenant", f.Tenant); err != nil {
			return f, err
		}
	}
	if f.Since, err = parseMoment("--since", o.since, now); err != nil {
		return f, err
	}
	f.Until = now
	if o.until != "" {
		if f.Until, err = parseMoment("--until", o.until, now); err != nil {
			return f, err
		}
	}
	whole := o.period()
	f.Since, f.Until = f.Since.UTC().Truncate(whole), f.Until.UTC().Add(whole-1).Truncate(whole)
	if !f.Since.Before(f.Until) {
		return f, script.Errorf(script.Invalid, "--until", "%s is not after --since, %s", f.Until.Format(time.RFC3339), f.Since.Format(time.RFC3339))
	}
	return f, nil
}

func (o *usageOptions) period() time.Duration {
	if o.by == byDay {
		return 24 * time.Hour
	}
	return time.Hour
}

func (a *app) usage(ctx context.Context, f registryclient.UsageFilter, by string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	if now := time.Now(); now.Sub(f.Since) > script.UsageRetention+time.Hour {
		a.notice("usage is kept for %d days: what was before %s is missing", int(script.UsageRetention/(24*time.Hour)), now.Add(-script.UsageRetention).UTC().Truncate(time.Hour).Format(time.RFC3339))
	}
	lines := sumByPeriod(client.Usage(ctx, f), f, by)
	if a.output == formatCSV {
		return a.printCSV(lines)
	}
	views := []usageView{}
	for view, err := range lines {
		if err != nil {
			return err
		}
		views = append(views, view)
	}
	return a.print(views, func(w io.Writer) { a.usageTable(w, views, by) })
}

// sumByPeriod yields the usage by period and tenant, sorted. hours must be in order.
func sumByPeriod(hours iter.Seq2[script.HourUsage, error], f registryclient.UsageFilter, by string) iter.Seq2[usageView, error] {
	return func(yield func(usageView, error) bool) {
		sums := map[string]script.Usage{}
		from, until := f.Since, f.Until
		flush := func() bool {
			for _, tenant := range slices.Sorted(maps.Keys(sums)) {
				if !yield(viewOfUsage(tenant, from, until, sums[tenant]), nil) {
					return false
				}
			}
			clear(sums)
			return true
		}
		for u, err := range hours {
			if err != nil {
				yield(usageView{}, err)
				return
			}
			if by != "" {
				length := (&usageOptions{by: by}).period()
				if begins := u.Hour.Truncate(length); len(sums) == 0 || !begins.Equal(from) {
					if !flush() {
						return
					}
					from, until = begins, begins.Add(length)
				}
			}
			sums[u.Tenant] = sums[u.Tenant].Add(u.Usage)
		}
		flush()
	}
}

func viewOfUsage(tenant string, from, until time.Time, u script.Usage) usageView {
	return usageView{
		Tenant: tenant, From: from.UTC(), Until: until.UTC(), Calls: u.Calls, Errors: u.Errors, ProcessorSeconds: u.ProcessorTime.Seconds(),
		Instructions: u.Instructions, BytesIn: u.BytesIn, BytesOut: u.BytesOut,
	}
}

func (a *app) usageTable(w io.Writer, views []usageView, by string) {
	if len(views) == 0 {
		fmt.Fprintln(a.Err, "no usage on record")
		return
	}
	heading := []string{"TENANT", "CALLS", "ERRORS", "PROCESSOR", "INSTRUCTIONS", "IN", "OUT"}
	if by != "" {
		heading = append([]string{strings.ToUpper(by) + " (UTC)"}, heading...)
	}
	rows := [][]string{heading}
	for i := range views {
		v := &views[i]
		row := []string{
			v.Tenant, digits(v.Calls), digits(v.Errors), time.Duration(v.ProcessorSeconds * float64(time.Second)).Round(time.Millisecond).String(),
			digits(v.Instructions), digits(v.BytesIn), digits(v.BytesOut),
		}
		switch by {
		case byHour:
			row = append([]string{v.From.Format("2006-01-02 15:04")}, row...)
		case byDay:
			row = append([]string{v.From.Format(time.DateOnly)}, row...)
		}
		rows = append(rows, row)
	}
	columns(w, rows)
}

func digits(n uint64) string { return strconv.FormatUint(n, 10) }

// printCSV prints the lines as they arrive.
func (a *app) printCSV(lines iter.Seq2[usageView, error]) error {
	out := csv.NewWriter(a.Out)
	_ = out.Write([]string{"from", "until", "tenant", "calls", "errors", "processor_seconds", "instructions", "bytes_in", "bytes_out"}) // see out.Error below
	for v, err := range lines {
		if err != nil {
			out.Flush()
			return err
		}
		_ = out.Write([]string{ // likewise
			v.From.Format(time.RFC3339), v.Until.Format(time.RFC3339), v.Tenant, digits(v.Calls), digits(v.Errors),
			strconv.FormatFloat(v.ProcessorSeconds, 'f', 6, 64), digits(v.Instructions), digits(v.BytesIn), digits(v.BytesOut),
		})
	}
	out.Flush()
	return out.Error()
}
