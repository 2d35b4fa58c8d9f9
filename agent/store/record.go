package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// A record is what a small file holds:
//
//	8 bytes   magic: "scrptm" and the number of the format
//	4 bytes   length of the payload, big endian
//	32 bytes  SHA-256 of the payload
//	payload
//
// The number goes up when an older file must not be believed any more, such as
// a cursor that passed objects of a kind that was unknown when it was written.
const recordMagic = "scrptm\x00\x01"

const (
	recordHeader = len(recordMagic) + 4 + sha256.Size
	maxRecord    = 16 << 20
)

func encodeRecord(payload []byte) []byte {
	sum := sha256.Sum256(payload)
	b := make([]byte, 0, recordHeader+len(payload))
	b = append(b, recordMagic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, sum[:]...)
	return append(b, payload...)
}

// decodeRecord returns the payload, which is part of data.
func decodeRecord(data []byte) ([]byte, error) {
	if len(data) < recordHeader {
		return nil, fmt.Errorf("torn: %d bytes are not even a header", len(data))
	}
	if !bytes.HasPrefix(data, []byte(recordMagic)) {
		return nil, errors.New("not a record of this format")
	}
	length := binary.BigEndian.Uint32(data[len(recordMagic):])
	payload := data[recordHeader:]
	if uint64(length) != uint64(len(payload)) {
		return nil, fmt.Errorf("torn: %d bytes where the header says %d", len(payload), length)
	}
	if sum := sha256.Sum256(payload); !bytes.Equal(sum[:], data[len(recordMagic)+4:recordHeader]) {
		return nil, errors.New("the checksum does not match")
	}
	return payload, nil
}

func readRecord(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxRecord {
		return nil, fmt.Errorf("%d bytes are too many for a record", info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeRecord(data)
}
