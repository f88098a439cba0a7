package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
	"posthaste/internal/store/record"
)

// largeBody is the size from which a body is kept beside its envelope: 4 KiB.
const largeBody = 4 << 10

// An envelope begins with a byte that says where the body is.
const (
	bodyWithin byte = iota
	bodyBeside
	bodyInRun // it is an entry of the run's list
)

// appendEnvelope appends the envelope of a message.
func appendEnvelope(dst []byte, m *posthaste.Message) []byte {
	place := bodyWithin
	switch {
	case isEntry(m):
		place = bodyInRun
	case len(m.Body) >= largeBody:
		place = bodyBeside
	}
	if place != bodyWithin {
		bare := *m
		bare.Body = nil
		m = &bare
	}
	return record.AppendMessage(append(dst, place), m)
}

// isEntry reports whether a message is an entry of its run's list, which holds its body. One in another
// slot holds it itself: it may be in another partition.
func isEntry(m *posthaste.Message) bool {
	return m.Run != nil && m.Run.CallType != posthaste.CallFailure && m.ID.Slot() == m.Run.Position.Slot()
}

func newItem(m *posthaste.Message, st status) *lanes.Item {
	return &lanes.Item{Spot: lanes.Spot{Order: st.order, ID: m.ID}, Message: m, Waiting: st.Waiting}
}

func laneOf(m *posthaste.Message) lanes.ID { return lanes.ID{User: m.User, Lane: m.Lane()} }

// readMessage returns store.ErrNotFound for an unknown message.
func readMessage(r pebble.Reader, user string, id posthaste.MessageID) (*posthaste.Message, error) {
	m, place, err := readEnvelope(r, user, id)
	if err != nil {
		return nil, err
	}
	switch place {
	case bodyInRun:
		m.Body, err = readEntryBody(r, user, m.Run.Position, m.Run.Entry)
	case bodyBeside:
		err = get(r, appendMessageKey(nil, segmentBody, user, id), func(data []byte) error {
			m.Body = append([]byte(nil), data...)
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", id, err)
	}
	return m, nil
}

// readEnvelope returns a message as its envelope has it: with its body if that is within, and
// where the body is. It returns store.ErrNotFound for an unknown message.
func readEnvelope(r pebble.Reader, user string, id posthaste.MessageID) (m *posthaste.Message, place byte, err error) {
	err = get(r, appendMessageKey(nil, segmentEnvelope, user, id), func(data []byte) (err error) {
		if len(data) == 0 {
			return errCorrupt
		}
		place = data[0]
		if m, err = record.DecodeMessage(id, user, data[1:]); err != nil {
			return fmt.Errorf("%w: %w", errCorrupt, err)
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("message %s: %w", id, err)
	}
	return m, place, nil
}

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
