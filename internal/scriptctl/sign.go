package scriptctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

const signLong = `Sign signs the scripts of manifests with a publisher's key. It writes each signature to its
manifest, as spec.signature. Whoever publishes the manifest later needs no key: the operator,
a GitOps tool, or "scriptctl publish".

A signature covers the tenant, name, source, entrypoint, config, limits, trigger, onError,
log and tests. It also covers the sources of the libraries that the script requires. After a change of one of these, sign again. Sign reads libraries from the
folder of the manifest. "scriptctl publish --sign" signs those of the registry.

Agents that have --tenant-keys run only versions that a key of the tenant has signed.

A key is Ed25519 or ECDSA P-256: a file of OpenSSH, of cosign, or PEM. Sign asks for the
password of an encrypted key, or reads it from --sign-password-file.

Manifests are named as for "scriptctl publish". With -, sign writes to standard output.`

// signFlags are what signing takes besides a key.
type signFlags struct{ passwordFile string }

func (f *signFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.passwordFile, "sign-password-file", "", "file of the password of the publisher's key")
	must(cmd.MarkFlagFilename("sign-password-file"))
}

// signedView is what became of one manifest.
type signedView struct {
	Script  string `json:"script"`
	KeyID   string `json:"keyId"`
	Changed bool   `json:"changed"` // the manifest had no such signature
	File    string `json:"file"`
}

func (a *app) signCommand() *cobra.Command {
	var files []string
	var with string
	var f signFlags
	cmd := &cobra.Command{
		Use:   "sign --with KEY FILE|DIR...",
		Short: "Sign the scripts of manifests",
		Long:  signLong,
		Example: `  scriptctl sign --with ~/.ssh/id_ed25519 route.yaml
  scriptctl sign --with cosign.key --sign-password-file password - <route.yaml | kubectl apply -f -`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if files = append(files, args...); len(files) == 0 {
				return usage(errors.New("sign wants a file or folder: sign --with KEY FILE|DIR"))
			}
			return a.sign(cmd.Context(), files, with, &f)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "a manifest, a folder of them, or - for standard input; may be repeated")
	cmd.Flags().StringVar(&with, "with", "", "file of the publisher's private key")
	f.add(cmd)
	must(cmd.MarkFlagRequired("with"))
	must(cmd.MarkFlagFilename("with"))
	must(cmd.MarkFlagFilename("file", manifestExtensions...))
	return cmd
}

// sign signs all manifests before it writes any.
func (a *app) sign(ctx context.Context, files []string, with string, f *signFlags) error {
	signer, id, err := a.signer(with, f)
	if err != nil {
		return err
	}
	if files, err = manifestFiles(files); err != nil {
		return usage(err)
	}
	views := []signedView{}
	texts := make(map[string][]byte, len(files))
	var faults []error
	for _, file := range files {
		text, signed, err := a.signFile(ctx, file, signer, id)
		faults = append(faults, err)
		texts[file], views = text, append(views, signed...)
	}
	if err := errors.Join(faults...); err != nil {
		return usage(err)
	}
	for _, file := range files {
		if text := texts[file]; file == "-" {
			_, err = a.Out.Write(text)
		} else if text != nil {
			err = rewrite(file, text)
		}
		if err != nil {
			return err
		}
	}
	if slices.Contains(files, "-") { // what is printed are manifests
		return nil
	}
	return a.print(views, func(w io.Writer) {
		for _, v := range views {
			outcome := "unchanged"
			if v.Changed {
				outcome = "signed"
			}
			fmt.Fprintf(w, "%s %s by %s (%s)\n", v.Script, outcome, v.KeyID, v.File)
		}
	})
}

// manifestFiles returns the files themselves, and those of folders.
func manifestFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if path == "-" || err == nil && !info.IsDir() {
			files = append(files, path)
			continue
		}
		if err != nil {
			return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
		}
		within, err := os.ReadDir(path)
		if err != nil {
			return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
		}
		for _, entry := range within {
			if !entry.IsDir() && manifest.IsManifestFile(entry.Name()) {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	return files, nil
}

// signFile returns the file with signatures; nil if it has them.
func (a *app) signFile(ctx context.Context, file string, signer *publisher.Signer, id string) ([]byte, []signedView, error) {
	name, dir := file, filepath.Dir(file)
	var data []byte
	var err error
	if file == "-" {
		name, dir = "stdin", "."
		data, err = io.ReadAll(io.LimitReader(a.In, manifest.MaxFileBytes+1))
	} else {
		data, err = os.ReadFile(file)
	}
	if err == nil && len(data) > manifest.MaxFileBytes {
		err = fmt.Errorf("is larger than %d bytes", manifest.MaxFileBytes)
	}
	if err != nil {
		return nil, nil, script.Errorf(script.Invalid, name, "cannot be read: %w", err)
	}
	var views []signedView
	text, err := manifest.Sign(name, data, dir, func(m *manifest.Manifest) (string, error) {
		with := *m // the libraries are no part of the manifest
		if err := new(offline.Libraries).Resolve(&with); err != nil {
			return "", err
		}
		signature, err := publisher.Sign(ctx, with.Statement(), signer)
		views = append(views, signedView{Script: m.Name.String(), KeyID: id, File: file, Changed: m.Signature != signature})
		return signature, err
	})
	if err != nil {
		return nil, nil, err
	}
	if bytes.Equal(text, data) && file != "-" {
		text = nil
	}
	return text, views, nil
}

// rewrite replaces the text of a file that is there.
func rewrite(file string, text []byte) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return writeFile(file, info.Mode().Perm(), true, text)
}

// signAll signs the manifests where they are read, and nowhere else.
func (a *app) signAll(ctx context.Context, manifests []manifest.Manifest, with string, f *signFlags) error {
	signer, _, err := a.signer(with, f)
	if err != nil {
		return err
	}
	if err := a.resolve(ctx, manifests, true); err != nil {
		return err
	}
	for i := range manifests {
		if manifests[i].Signature, err = publisher.Sign(ctx, manifests[i].Statement(), signer); err != nil {
			return err
		}
	}
	return nil
}

// signer reads the publisher's key.
func (a *app) signer(path string, f *signFlags) (*publisher.Signer, string, error) {
	signer, err := publisher.ReadSigner(path, func() ([]byte, error) { return a.password(path, f) })
	if err != nil {
		return nil, "", usage(err)
	}
	if err := tlsfiles.WarnOfOpen.Check(path, a.warnings()); err != nil {
		return nil, "", usage(err)
	}
	id, err := signer.KeyID()
	return signer, id, err
}

// password of an encrypted key: of the file, or of whoever sits at the terminal.
func (a *app) password(path string, f *signFlags) ([]byte, error) {
	if f.passwordFile != "" {
		text, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return nil, script.Errorf(script.Invalid, "--sign-password-file", "cannot be read: %w", err)
		}
		return []byte(strings.TrimRight(string(text), "\r\n")), nil
	}
	if in, ok := a.In.(*os.File); ok && a.InTerminal {
		fmt.Fprintf(a.Err, "Password of %s: ", path)
		text, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(a.Err)
		return text, err
	}
	return nil, script.Errorf(script.Invalid, "", "is encrypted: name the file of its password, --sign-password-file")
}
