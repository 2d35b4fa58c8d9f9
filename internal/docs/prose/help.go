// Package prose turns the help of commands into pages, so that what checks the
// documentation's prose checks the help too.
package prose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help returns a Markdown page for each command of the tree, by the command's path,
// such as "scriptctl rollout status". The skipped commands have pages elsewhere.
func Help(top *cobra.Command, skipped ...string) map[string]string {
	pages := map[string]string{top.CommandPath(): helpPage(top)}
	for _, sub := range top.Commands() {
		if sub.Hidden || slices.Contains(skipped, sub.Name()) {
			continue
		}
		maps.Copy(pages, Help(sub))
	}
	return pages
}

// helpPage holds what a person reads of the command. Its examples are code.
func helpPage(cmd *cobra.Command) string {
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n\n%s.\n\n", cmd.CommandPath(), escape(cmd.Short))
	for line := range strings.Lines(cmd.Long) {
		page.WriteString(item(line))
	}
	page.WriteString("\n\n")
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			fmt.Fprintf(&page, "- `--%s`: %s\n", flag.Name, escape(flag.Usage))
		}
	})
	return page.String()
}

// item makes an indented line of a help text, such as "  0  done", an item of a list.
// A line that is indented as far as the text of the item before continues that item.
func item(line string) string {
	text := strings.TrimLeft(line, " ")
	switch indent := len(line) - len(text); {
	case indent == 0:
		return escape(line)
	case indent <= 4:
		return "- " + escape(text)
	default:
		return "  " + escape(text)
	}
}

var escape = strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`).Replace
