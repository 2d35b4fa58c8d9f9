//go:build !linux

package unixpeer

import "errors"

func of(uintptr) (Peer, error) {
	return Peer{}, errors.ErrUnsupported
}
