package scriptctl

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

const keysLong = `Keys makes and rotates the key with which registries sign what agents believe.

The private half is for registries alone (registryd --signing-key), the public one
for agents (agentd --trusted-key). A key's id is made of its public half.

To rotate: "keys rotate" makes a new key and adds it to the keys that agents trust;
"keys retire" takes an old one away, once no agent needs it.`

// Modes of key files.
const (
	privateMode = 0o600
	publicMode  = 0o644
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make and rotate the keys that registries sign with",
		Long:  keysLong,
		Args:  wantArgs(0, 0, "one of generate, public, id, rotate and retire", "COMMAND"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.keysGenerateCommand(), a.keysPublicCommand(), a.keysIDCommand(), a.keysRotateCommand(), a.keysRetireCommand())
	return cmd
}

// generatedView is a key that was made.
type generatedView struct {
	ID      string `json:"id"`
	Private string `json:"privateKeyFile"`
	Public  string `json:"publicKeyFile,omitempty"`
}

func (a *app) keysGenerateCommand() *cobra.Command {
	var out, public string
	var force bool
	cmd := &cobra.Command{
		Use:   "generate --out FILE",
		Short: "Make a key",
		Long: `Generate makes a key (Ed25519) and writes its private half to a file that you alone
can read, as PEM. With --public it writes the public half as well.`,
		Example: "  scriptctl keys generate --out signing.key --public trusted.pem",
		Args:    wantArgs(0, 0, "no arguments", "--out FILE"),
		RunE: func(*cobra.Command, []string) error {
			return a.generateKey(out, public, force)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "where the private half goes")
	cmd.Flags().StringVar(&public, "public", "", "where the public half goes")
	cmd.Flags().BoolVar(&force, "force", false, "replace files that are there")
	must(cmd.MarkFlagRequired("out"))
	must(cmd.MarkFlagFilename("out"))
	must(cmd.MarkFlagFilename("public"))
	return cmd
}

func (a *app) generateKey(out, public string, force bool) error {
	if public != "" && !force {
		if err := wantNoFile(public); err != nil {
			return err
		}
	}
	key, err := newKey(out, force)
	if err != nil {
		return err
	}
	if public != "" {
		data, err := seal.EncodePublicKeys(publicHalf(key))
		if err == nil {
			err = writeFile(public, publicMode, force, data)
		}
		if err != nil {
			return errors.Join(err, fmt.Errorf("the private half is in %s: make the public one with scriptctl keys public", out))
		}
	}
	v := generatedView{ID: seal.KeyID(publicHalf(key)), Private: out, Public: public}
	return a.print(v, func(w io.Writer) {
		rows := [][]string{{"key:", v.ID}, {"private half:", v.Private, "for registryd --signing-key"}}
		if v.Public != "" {
			rows = append(rows, []string{"public half:", v.Public, "for agentd --trusted-key"})
		}
		columns(w, rows)
	})
}

// newKey makes a key and writes its private half.
func newKey(out string, force bool) (ed25519.PrivateKey, error) {
	key, err := seal.GenerateKey()
	if err != nil {
		return nil, err
	}
	data, err := seal.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(out, privateMode, force, data)
}

func publicHalf(key ed25519.PrivateKey) ed25519.PublicKey {
	return key.Public().(ed25519.PublicKey)
}

func (a *app) keysPublicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "public FILE",
		Short:   "Print the public half of a private key",
		Example: "  scriptctl keys public signing.key > trusted.pem",
		Args:    wantArgs(1, 1, "the file of a private key", "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := a.privateKey(args[0])
			if err != nil {
				return usage(err)
			}
			data, err := seal.EncodePublicKeys(publicHalf(key))
			if err != nil {
				return err
			}
			v := struct {
				ID  string `json:"id"`
				PEM string `json:"pem"`
			}{seal.KeyID(publicHalf(key)), string(data)}
			return a.print(v, func(w io.Writer) { fmt.Fprint(w, v.PEM) })
		},
	}
	return cmd
}

// keyView is a key in a file.
type keyView struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // private or public
	File string `json:"file"`
}

func (a *app) keysIDCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "id FILE...",
		Short:   "Print the ids of the keys in files",
		Long:    "Id prints the ids of the keys in files, private or public, a line for each.",
		Example: "  scriptctl keys id signing.key trusted.pem",
		Args:    wantArgs(1, anyNumber, "the file of a key", "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			views := []keyView{}
			for _, file := range args {
				found, err := a.keysIn(file)
				if err != nil {
					return usage(err)
				}
				views = append(views, found...)
			}
			return a.print(views, func(w io.Writer) {
				var rows [][]string
				for _, v := range views {
					rows = append(rows, []string{v.ID, v.Kind, v.File})
				}
				columns(w, rows)
			})
		},
	}
}

// privateKey reads the file of a private key, and warns if other users can read it.
func (a *app) privateKey(file string) (ed25519.PrivateKey, error) {
	key, err := seal.ReadPrivateKey(file)
	if err != nil {
		return nil, err
	}
	return key, tlsfiles.WarnOfOpen.Check(file, a.warnings())
}

func (a *app) keysIn(file string) ([]keyView, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, script.Errorf(script.Invalid, file, "cannot be read: %w", err)
	}
	if bytes.Contains(data, []byte("PRIVATE KEY-----")) {
		key, err := a.privateKey(file)
		if err != nil {
			return nil, err
		}
		return []keyView{{ID: seal.KeyID(publicHalf(key)), Kind: "private", File: file}}, nil
	}
	keys, err := seal.ReadPublicKeys(file)
	if err != nil {
		return nil, err
	}
	var views []keyView
	for _, key := range keys {
		views = append(views, keyView{ID: seal.KeyID(key), Kind: "public", File: file})
	}
	return views, nil
}
