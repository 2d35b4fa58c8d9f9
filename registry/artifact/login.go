package artifact

import (
	"context"

	"oras.land/oras-go/v2/registry/remote/auth"
	store "oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/scriptorium-dev/scriptorium/script"
)

// dockerHub is under another name in docker's config.json than the host that clients connect to.
const (
	dockerHub       = "registry-1.docker.io"
	dockerHubConfig = "index.docker.io"
)

// credentials are those of docker's config.json that read returns. The file may name programs as well, of other stores
// (credsStore, credHelpers): nothing runs them. A host gets its own credentials and no others.
func credentials(read func() ([]byte, error)) (auth.CredentialFunc, error) {
	if read == nil {
		return nil, nil
	}
	config, err := read()
	if err == nil {
		err = CheckCredentials(config)
	}
	if err != nil { // which only operators are told
		return nil, &script.Error{Kind: script.Unavailable, Field: field, Message: "the file of --artifact-registry-credentials of registryd cannot be used: its operator has to correct it", Err: err}
	}
	known, err := store.NewMemoryStoreFromDockerConfig(config)
	if err != nil {
		return nil, script.Errorf(script.Internal, field, "%w", err)
	}
	return func(ctx context.Context, host string) (auth.Credential, error) {
		if host == dockerHub {
			host = dockerHubConfig
		}
		return known.Get(ctx, host)
	}, nil
}

// CheckCredentials returns an Invalid error unless the text is in the format of docker's config.json.
func CheckCredentials(config []byte) error {
	if _, err := store.NewMemoryStoreFromDockerConfig(config); err != nil {
		return script.Errorf(script.Invalid, "", `is not in the format of docker's config.json, such as {"auths": {"ghcr.io": {"auth": "…"}}}: auth is user:password in base64`)
	}
	return nil
}
