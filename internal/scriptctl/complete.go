package scriptctl

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/script"
)

// completionTimeout bounds how long a shell waits for the registry after Tab.
const completionTimeout = time.Second

type completion = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeNameThenVersions completes a script's name, and then as many of its
// versions.
func (a *app) completeNameThenVersions(versions int) completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		client, ctx, cancel := a.completionClient(cmd)
		defer cancel()
		switch {
		case client == nil || len(args) > versions:
			return nil, directive
		case len(args) > 0:
			return completeVersions(ctx, client, args[0]), directive
		}
		tenant, _, ok := strings.Cut(toComplete, "/")
		if !ok {
			tenant = ""
		}
		var names []cobra.Completion
		var left unread
		for r, err := range client.List(ctx, tenant) {
			if _, err := left.take(err); err != nil {
				break
			}
			if name := r.Name.String(); strings.HasPrefix(name, toComplete) {
				names = append(names, cobra.CompletionWithDesc(name, fmt.Sprintf("v%d, %s", r.Active.Number, state(&r))))
			}
		}
		return names, directive
	}
}

func completeVersions(ctx context.Context, client *registryclient.Client, arg string) []cobra.Completion {
	name, err := script.ParseName(arg)
	if err != nil {
		return nil
	}
	r, err := client.Get(ctx, name)
	if err != nil {
		return nil
	}
	var versions []cobra.Completion
	for _, v := range r.Retained {
		versions = append(versions, cobra.CompletionWithDesc(strconv.FormatUint(v.Number, 10), v.Digest.Short()))
	}
	return versions
}

func (a *app) completeTenants(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	client, ctx, cancel := a.completionClient(cmd)
	defer cancel()
	if client == nil || len(args) > 0 {
		return nil, directive
	}
	var tenants []cobra.Completion
	last := ""
	var left unread
	for r, err := range client.List(ctx, "") {
		if _, err := left.take(err); err != nil {
			break
		}
		if t := r.Name.Tenant; t != last && strings.HasPrefix(t, toComplete) {
			tenants = append(tenants, t)
		}
		last = r.Name.Tenant
	}
	return tenants, directive
}

// completeOfTenant completes TENANT/NAME: first the tenants, and then what names returns of one.
func (a *app) completeOfTenant(cmd *cobra.Command, toComplete string,
	names func(ctx context.Context, client *registryclient.Client, tenant, prefix string) []cobra.Completion,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	tenant, prefix, ok := strings.Cut(toComplete, "/")
	if !ok {
		tenants, _ := a.completeTenants(cmd, nil, toComplete)
		for i := range tenants {
			tenants[i] += "/"
		}
		return tenants, directive | cobra.ShellCompDirectiveNoSpace
	}
	client, ctx, cancel := a.completionClient(cmd)
	defer cancel()
	if client == nil {
		return nil, directive
	}
	return names(ctx, client, tenant, prefix), directive
}

// completionClient returns nil when the registry is not worth asking.
func (a *app) completionClient(cmd *cobra.Command) (*registryclient.Client, context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	client, err := a.connect()
	if err != nil {
		return nil, ctx, cancel
	}
	return client, ctx, cancel
}

type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisVersion() versionInfo {
	return versionInfo{Version: version.String(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

func (v versionInfo) String() string {
	return fmt.Sprintf("scriptctl %s (%s, %s)", v.Version, v.Go, v.Platform)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of scriptctl",
		Args:  wantArgs(0, 0, "no arguments", ""),
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			return a.print(v, func(w io.Writer) { fmt.Fprintln(w, v) })
		},
	}
}
