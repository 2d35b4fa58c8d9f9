package artifact

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/scriptorium-dev/scriptorium/script"
)

// explain says what an error of a fetch is to who publishes. It keeps URLs and words of other systems to itself: those
// may have keys of the store of blobs in them.
func explain(name registry.Reference, err error) error {
	if own, ok := errors.AsType[*script.Error](err); ok {
		return own
	}
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return explainStatus(name, answer)
	}
	switch {
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return denied(name, http.StatusUnauthorized, err)
	case errors.Is(err, errdef.ErrNotFound):
		return failure(script.Invalid, err, "%s has no such artifact: check the repository %s and the digest %s", name.Registry, name.Repository, name.Reference)
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData):
		return failure(script.Invalid, err, "%s sent other bytes than the digest names", name.Registry)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unreachable(name.Registry, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failure(script.Unavailable, err, "%s sent less than it said: try again", name.Registry)
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return unreachable(name.Registry, err)
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return unreachable(name.Registry, err)
	}
	return failure(script.Invalid, err, "%s did not answer with what the reference names: its size, digest or type is another", name.Registry)
}

func explainStatus(name registry.Reference, answer *errcode.ErrorResponse) error {
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return denied(name, status, answer)
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500:
		return failure(script.Unavailable, answer, "%s answers %d %s: try again", name.Registry, status, http.StatusText(status))
	default:
		return failure(script.Invalid, answer, "%s answers %d %s", name.Registry, status, http.StatusText(status))
	}
}

func denied(name registry.Reference, status int, err error) error {
	return failure(script.Invalid, err, "%s answers %d %s for %s: registryd needs credentials that may pull it, in the file of --artifact-registry-credentials",
		name.Registry, status, http.StatusText(status), name.Repository)
}

func unreachable(host string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return failure(script.Unavailable, err, "%s did not send the artifact in time: try again", host)
	}
	cause := err
	if e, ok := errors.AsType[*url.Error](err); ok {
		cause = e.Err // without the URL
	}
	return failure(script.Unavailable, err, "%s cannot be reached: %.200s: try again", host, cause)
}

// failure is script.Errorf with a cause that the message leaves out.
func failure(kind script.Kind, cause error, format string, args ...any) error {
	e := script.Errorf(kind, field, format, args...)
	e.Err = cause
	return e
}
