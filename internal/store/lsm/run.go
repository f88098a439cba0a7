package lsm

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// parsePosition reads a position that is all there is.
func parsePosition(data []byte) (posthaste.Position, error) {
	if len(data) != 8 {
		return 0, errCorrupt
	}
	return posthaste.Position(binary.BigEndian.Uint64(data)), nil
}

// errEnough ends a scan that has seen what it wanted.
var errEnough = errors.New("enough")

// readEntryBody returns the body of one entry, and nothing if the list was removed
// with its run.
func readEntryBody(r pebble.Reader, user string, at posthaste.Position, index int) ([]byte, error) {
	key := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(at)), uint32(index))
	data, err := getRecord(r, store.ItemRunEntry, user, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entry, err := record.DecodeRunEntry(index, data)
	return entry.Body, err
}
