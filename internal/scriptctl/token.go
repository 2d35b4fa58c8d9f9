package scriptctl

import (
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/script"
)

// tokenView is a token that was made. The token is absent when it went to a file.
type tokenView struct {
	Token  string        `json:"token,omitempty"`
	File   string        `json:"tokenFile,omitempty"`
	Digest script.Digest `json:"digest"`
	// Expires is when the token ends, if the policy says so.
	Expires *time.Time `json:"expires,omitempty"`
}

// entry returns the token's entry in an access policy.
func (v tokenView) entry() string {
	if v.Expires == nil {
		return v.Digest.String()
	}
	return fmt.Sprintf("{digest: %q, expires: %s}", v.Digest, v.Expires.Format(time.RFC3339))
}

func (a *app) tokenCommand() *cobra.Command {
	var out string
	var force bool
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a bearer token, and its digest for the access policy",
		Long: `Token makes a bearer token: a caller shows it to the registry (--token-file), and the
registry's access policy holds its digest alone. With --out it goes to a file that you
alone can read, and is not printed. With --expires-in, the printed entry for the policy
says when the token expires.`,
		Example: "  scriptctl token --out ci.token --expires-in 2160h",
		Args:    wantArgs(0, 0, "no arguments", "[--out FILE]"),
		RunE: func(*cobra.Command, []string) error {
			if lifetime < 0 {
				return script.Errorf(script.Invalid, "--expires-in", "%v is in the past: want a duration such as 2160h", lifetime)
			}
			token := rand.Text()
			v := tokenView{Token: token, Digest: script.DigestOf([]byte(token))}
			if lifetime > 0 {
				at := time.Now().Add(lifetime).UTC().Truncate(time.Second)
				v.Expires = &at
			}
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
				rows := [][]string{shown, {"digest:", v.Digest.String()}}
				if v.Expires != nil {
					rows = append(rows, []string{"policy:", v.entry()})
				}
				columns(w, rows)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "where the token goes, in place of the screen")
	cmd.Flags().DurationVar(&lifetime, "expires-in", 0, "how long the token is valid, such as 2160h; 0: until the policy drops it")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	must(cmd.MarkFlagFilename("out"))
	return cmd
}
