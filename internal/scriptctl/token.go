package scriptctl

import (
	"crypto/rand"
	"io"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/script"
)

// tokenView is a token that was made. The token is absent when it went to a file.
type tokenView struct {
	Token  string        `json:"token,omitempty"`
	File   string        `json:"tokenFile,omitempty"`
	Digest script.Digest `json:"digest"`
}

func (a *app) tokenCommand() *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a bearer token, and its digest for the access policy",
		Long: `Token makes a bearer token: a caller shows it to the registry (--token-file), and the
registry's access policy holds its digest alone. With --out it goes to a file that you
alone can read, and is not printed.`,
		Example: "  scriptctl token --out ci.token",
		Args:    wantArgs(0, 0, "no arguments", "[--out FILE]"),
		RunE: func(*cobra.Command, []string) error {
			token := rand.Text()
			v := tokenView{Token: token, Digest: script.DigestOf([]byte(token))}
			if out != "" {
				if err := writeFile(out, privateMode, force, []byte(token+"\n")); err != nil {
					return err
				}
				v.Token, v.File = "", out
			}
			return a.print(v, func(w io.Writer) {
				shown := []string{"token:", v.Token}
				if v.File != "" {
					shown = []string{"token:", "in " + v.File}
				}
				columns(w, [][]string{shown, {"digest:", v.Digest.String()}})
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "where the token goes, in place of the screen")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	must(cmd.MarkFlagFilename("out"))
	return cmd
}
