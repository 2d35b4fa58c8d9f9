//go:build !linux

package gateway

import "errors"

func peerOf(uintptr) (Peer, error) {
	return Peer{}, errors.ErrUnsupported
}
