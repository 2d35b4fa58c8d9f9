package wire

import (
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromLibraries returns the messages for the libraries.
func FromLibraries(libraries []script.Library) []*scriptv1.Library {
	var messages []*scriptv1.Library
	for _, l := range libraries {
		messages = append(messages, &scriptv1.Library{
			Tenant: l.Name.Tenant, Name: l.Name.Script, Version: l.Version, Digest: FromDigest(l.Digest), Source: l.Source,
		})
	}
	return messages
}

// ToLibraries reads the messages. It checks the form alone.
func ToLibraries(messages []*scriptv1.Library) ([]script.Library, error) {
	var libraries []script.Library
	for _, m := range messages {
		digest, err := ToDigest(m.GetDigest())
		if err != nil {
			return nil, err
		}
		libraries = append(libraries, script.Library{
			Name: script.Name{Tenant: m.GetTenant(), Script: m.GetName()}, Version: m.GetVersion(), Digest: digest, Source: script.InternSource(m.GetSource()),
		})
	}
	return libraries, nil
}

// WithoutSources drops the sources of libraries from an answer to a client, who did not ask for them: a page has
// many releases.
func WithoutSources(m *scriptv1.Release) *scriptv1.Release {
	for _, settings := range []*scriptv1.Settings{m.GetSettings(), m.GetCandidate().GetSettings()} {
		for _, l := range settings.GetLibraries() {
			l.Source = ""
		}
	}
	return m
}
