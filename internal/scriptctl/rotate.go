package scriptctl

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// rotatedView is a key that is to follow others.
type rotatedView struct {
	generatedView
	Trusted string   `json:"trustedKeyFile"`
	Old     []string `json:"oldKeys"` // ids of those that the file trusts besides
}

func (a *app) keysRotateCommand() *cobra.Command {
	var out, trusted string
	cmd := &cobra.Command{
		Use:   "rotate --trusted FILE --out NEWKEY",
		Short: "Make a key that is to follow the one in use",
		Long: `Rotate makes a new key and adds its public half to the file of the keys that agents
trust. Then it prints the next steps:

  1  Agents must trust the new key before registries sign with it.
  2  Agents must trust the old key until none of its signatures is on their disks.`,
		Example: "  scriptctl keys rotate --trusted trusted.pem --out signing-2.key",
		Args:    wantArgs(0, 0, "no arguments", "--trusted FILE --out NEWKEY"),
		RunE: func(*cobra.Command, []string) error {
			return a.rotateKey(trusted, out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "where the private half of the new key goes")
	addTrusted(cmd, &trusted)
	must(cmd.MarkFlagRequired("out"))
	must(cmd.MarkFlagFilename("out"))
	return cmd
}

func addTrusted(cmd *cobra.Command, trusted *string) {
	cmd.Flags().StringVar(trusted, "trusted", "", "the file of the public keys that agents trust")
	must(cmd.MarkFlagRequired("trusted"))
	must(cmd.MarkFlagFilename("trusted"))
}

func (a *app) rotateKey(trusted, out string) error {
	old, err := seal.ReadPublicKeys(trusted)
	if err != nil {
		return usage(err)
	}
	key, err := newKey(out, false)
	if err != nil {
		return err
	}
	if err := writeTrusted(trusted, append(slices.Clone(old), publicHalf(key))); err != nil {
		return errors.Join(err, os.Remove(out)) // nobody trusts it
	}
	v := rotatedView{generatedView{ID: seal.KeyID(publicHalf(key)), Private: out}, trusted, ids(old)}
	return a.print(v, func(w io.Writer) { v.describe(w) })
}

func (v rotatedView) describe(w io.Writer) {
	retire := make([]string, len(v.Old))
	for i, id := range v.Old {
		retire[i] = "scriptctl keys retire " + id + " --trusted " + v.Trusted
	}
	fmt.Fprintf(w, `key %s is in %s, and %s trusts it.
Now, one after the other:
  1. Give %s to every agent; each reads it again by itself.
  2. Append the old private key to %s, and restart every registry with it:
     registryd --signing-key %s.
  3. Wait until scriptctl agents shows no agent that names %s.
  4. %s
`, v.ID, v.Private, v.Trusted, v.Trusted, v.Private, v.Private, strings.Join(v.Old, " or "), strings.Join(retire, "\n     "))
}

func writeTrusted(file string, keys []ed25519.PublicKey) error {
	data, err := seal.EncodePublicKeys(keys...)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return writeFile(file, info.Mode().Perm(), true, data)
}

func ids(keys []ed25519.PublicKey) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = seal.KeyID(key)
	}
	return all
}

// retiredView is a key that is trusted no more.
type retiredView struct {
	ID      string   `json:"id"`
	Trusted string   `json:"trustedKeyFile"`
	Left    []string `json:"trustedKeys"`
}

func (a *app) keysRetireCommand() *cobra.Command {
	var trusted string
	var force bool
	cmd := &cobra.Command{
		Use:   "retire ID --trusted FILE",
		Short: "Trust an old key no more",
		Long: `Retire removes a key from the file of the keys that agents trust. It asks the registry
first, and refuses while the key signs anything on the disk of an agent. The registry
forgets agents that have not reported for an hour. If such an agent comes back, it must
reach the registry before it serves.`,
		Example: "  scriptctl keys retire 0f8e7a3b5c2d1e90 --trusted trusted.pem",
		Args:    wantArgs(1, 1, "the id of a key", "ID --trusted FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.retireKey(cmd.Context(), args[0], trusted, force)
		},
	}
	addTrusted(cmd, &trusted)
	cmd.Flags().BoolVar(&force, "force", false, "do not ask the registry")
	return cmd
}

func (a *app) retireKey(ctx context.Context, id, trusted string, force bool) error {
	keys, err := seal.ReadPublicKeys(trusted)
	if err != nil {
		return usage(err)
	}
	left := slices.DeleteFunc(slices.Clone(keys), func(key ed25519.PublicKey) bool { return seal.KeyID(key) == id })
	switch {
	case len(left) == len(keys):
		return usage(script.Errorf(script.Invalid, "", "%s has no key %s: it has %s", trusted, plain(id), strings.Join(ids(keys), ", ")))
	case len(left) == 0:
		return usage(script.Errorf(script.Invalid, "", "%s is the only key in %s: without one, agents believe nothing; make another first with scriptctl keys rotate", id, trusted))
	}
	if !force {
		if err := a.wantUnused(ctx, id, ids(left)); err != nil {
			return err
		}
	}
	if err := writeTrusted(trusted, left); err != nil {
		return err
	}
	v := retiredView{ID: id, Trusted: trusted, Left: ids(left)}
	return a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "%s trusts %s no more; it trusts %s.\nGive it to every agent, and destroy the old private key.\n", trusted, id, strings.Join(v.Left, ", "))
	})
}

// wantUnused is an error unless the registry's agents say that what they have on disk
// is signed by the keys that are left.
func (a *app) wantUnused(ctx context.Context, id string, left []string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	evidence := 0
	var users []string
	for agent, err := range client.Agents(ctx, false) {
		if err != nil {
			return err
		}
		if agent.Unknown && len(agent.DiskKeys) == 0 {
			return script.Errorf(script.Denied, "", "%s is unheard of, and nobody knows what its disk is signed by: start it, wait until it is forgotten, or use --force", plain(agent.Name))
		}
		for _, key := range agent.DiskKeys {
			switch {
			case key == id:
				users = append(users, plain(agent.Name))
			case !slices.Contains(left, key):
				return script.Errorf(script.Denied, "", "%s has on disk what the key %s has signed, which the file does not trust: is it the file of this fleet?", plain(agent.Name), plain(key))
			default:
				evidence++
			}
		}
	}
	switch {
	case len(users) > 0:
		return script.Errorf(script.Denied, "", "%s is in use: what it has signed is on the disk of %s; wait until registries sign with another key and agents have all anew", id, some(users))
	case evidence == 0:
		return script.Errorf(script.Denied, "", "no agent says that it has anything on disk, so that nobody knows which key registries sign with: wait for agents, or use --force")
	}
	return nil
}

// some names the first few.
func some(names []string) string {
	const shown = 5
	text := strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		text += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return text
}
