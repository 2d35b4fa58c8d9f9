package prose_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/docs/prose"
)

func TestHelp(t *testing.T) {
	top := &cobra.Command{
		Use:   "top",
		Short: "Do *it*",
		Long: `Top does it.
It does it well.

Exit codes:
  0  done
  1  anything else, such as
     a broken wire`,
		Example: "  top --fast",
	}
	top.Flags().Bool("fast", false, "do it fast")
	top.Flags().Bool("secret", false, "do it in secret")
	if err := top.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	top.AddCommand(&cobra.Command{Use: "sub", Short: "Do a part"}, &cobra.Command{Use: "hidden", Hidden: true}, &cobra.Command{Use: "elsewhere"})

	pages := prose.Help(top, "elsewhere")
	if got, want := slices.Sorted(maps.Keys(pages)), []string{"top", "top sub"}; !slices.Equal(got, want) {
		t.Errorf("pages are %q, want %q", got, want)
	}
	const want = "# top\n\nDo \\*it\\*.\n\nTop does it.\nIt does it well.\n\nExit codes:\n- 0  done\n- 1  anything else, such as\n  a broken wire\n\n- `--fast`: do it fast\n"
	if got := pages["top"]; got != want {
		t.Errorf("the page is\n%q, want\n%q", got, want)
	}
	if got, want := pages["top sub"], "# top sub\n\nDo a part.\n\n\n\n"; got != want {
		t.Errorf("the page is\n%q, want\n%q", got, want)
	}
}
