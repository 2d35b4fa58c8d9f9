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
const recordMagic = recordName + "\x02"

const (
	recordName = "scrptm\x00"
	// unsignedFormat is that of releases that are not in an envelope, which
	// software of the wire protocol 1 wrote.
	unsignedFormat = 1
	recordFormat   = 2
)

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

// decodeRecord returns the payload, which is part of data, and the number of its
// format.
func decodeRecord(data []byte) (payload []byte, format byte, err error) {
	if len(data) < recordHeader {
		return nil, 0, fmt.Errorf("torn: %d bytes are not even a header", len(data))
	}
	if !bytes.HasPrefix(data, []byte(recordName)) {
		return nil, 0, errors.New("not a record")
	}
	format = data[len(recordName)]
	if format != recordFormat && format != unsignedFormat {
		return nil, 0, fmt.Errorf("of format %d, which this software does not know", format)
	}
	length := binary.BigEndian.Uint32(data[len(recordMagic):])
	payload = data[recordHeader:]
	if uint64(length) != uint64(len(payload)) {
		return nil, 0, fmt.Errorf("torn: %d bytes where the header says %d", len(payload), length)
	}
	if sum := sha256.Sum256(payload); !bytes.Equal(sum[:], data[len(recordMagic)+4:recordHeader]) {
		return nil, 0, errors.New("the checksum does not match")
	}
	return payload, format, nil
}

func readRecord(path string) (payload []byte, format byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if info.Size() > maxRecord {
		return nil, 0, fmt.Errorf("%d bytes are too many for a record", info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	return decodeRecord(data)
}
