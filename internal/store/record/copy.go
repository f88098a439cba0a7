package record

import (
	"encoding/binary"
	"errors"
	"time"

	"posthaste"
)

var (
	errParts = errors.New("record: parts are cut off")
	errID    = errors.New("record: a message id has another length")
)

// AppendParts encodes parts for Parts.
func AppendParts(dst []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		dst = append(binary.AppendUvarint(dst, uint64(len(part))), part...)
	}
	return dst
}

// Parts splits the result of AppendParts into exactly n parts, which share its memory.
func Parts(data []byte, n int) ([][]byte, error) {
	parts := make([][]byte, 0, n)
	for len(data) > 0 {
		size, width := binary.Uvarint(data)
		if width <= 0 || size > uint64(len(data)-width) {
			return nil, errParts
		}
		end := width + int(size)
		parts = append(parts, data[width:end:end])
		data = data[end:]
	}
	if len(parts) != n {
		return nil, errParts
	}
	return parts, nil
}

// DecodeMessageItem decodes an exported message into the message, its record and its place.
func DecodeMessageItem(user string, key, value []byte) (m *posthaste.Message, data []byte, place Place, err error) {
	parts, err := Parts(value, 2)
	if err != nil {
		return nil, nil, place, err
	}
	if len(key) != len(posthaste.MessageID{}) {
		return nil, nil, place, errID
	}
	if m, err = DecodeMessage(posthaste.MessageID(key), user, parts[0]); err != nil {
		return nil, nil, place, err
	}
	place, err = DecodePlace(parts[1])
	return m, parts[0], place, err
}

// AppendRunItem appends a run with its progress.
func AppendRunItem(dst []byte, r *posthaste.Run) []byte {
	return AppendParts(dst, AppendRun(nil, r), AppendRunProgress(nil, &r.RunProgress))
}

// DecodeRunItem decodes a result of AppendRunItem.
func DecodeRunItem(user string, value []byte) (*posthaste.Run, error) {
	parts, err := Parts(value, 2)
	if err != nil {
		return nil, err
	}
	r, err := DecodeRun(user, parts[0])
	if err != nil {
		return nil, err
	}
	r.RunProgress, err = DecodeRunProgress(parts[1])
	return r, err
}

// AppendFailedRun appends an entry of the DLQ of runs: the run's position and the dead letter.
func AppendFailedRun(dst []byte, run posthaste.Position, d *posthaste.DeadLetter) []byte {
	return AppendParts(dst, binary.BigEndian.AppendUint64(nil, uint64(run)), AppendDeadLetter(nil, d))
}

// FailedRun splits a result of AppendFailedRun.
func FailedRun(value []byte) (run posthaste.Position, letter []byte, err error) {
	parts, err := Parts(value, 2)
	if err != nil {
		return 0, nil, err
	}
	if len(parts[0]) != 8 {
		return 0, nil, errParts
	}
	return posthaste.Position(binary.BigEndian.Uint64(parts[0])), parts[1], nil
}

// EventItemMessage returns the message id of an exported event.
func EventItemMessage(value []byte) (posthaste.MessageID, error) {
	parts, err := eventParts(value)
	if err != nil {
		return posthaste.MessageID{}, err
	}
	return posthaste.MessageID(parts[0]), nil
}

// DecodeEventItem decodes an exported event: message id, record and optional response.
func DecodeEventItem(at posthaste.Position, value []byte) (event posthaste.Event, err error) {
	parts, err := eventParts(value)
	if err != nil {
		return event, err
	}
	if event, err = DecodeEvent(parts[1]); err != nil {
		return event, err
	}
	event.Position, event.MessageID = at, posthaste.MessageID(parts[0])
	if len(parts[2]) > 0 {
		event.Response, err = DecodeResponse(parts[2])
	}
	return event, err
}

func eventParts(value []byte) ([][]byte, error) {
	parts, err := Parts(value, 3)
	if err == nil && len(parts[0]) != len(posthaste.MessageID{}) {
		err = errID
	}
	return parts, err
}

// Place is the status of an unclaimed message.
type Place struct {
	State   posthaste.State // CREATED, RETRY or a final state
	Retried int

	// Only if it waits, or has ended before its callbacks in a queue; otherwise Order is zero.
	Order           posthaste.Position
	DueAt           time.Time
	Callbacks       int // not ended
	CancelRequested bool
}

// AppendPlace appends a place.
func AppendPlace(dst []byte, p *Place) []byte {
	dst = append(dst, version, StateCode(p.State))
	dst = binary.AppendUvarint(dst, uint64(p.Retried))
	dst = binary.AppendUvarint(dst, uint64(p.Order))
	if p.Order == 0 {
		return dst
	}
	dst = binary.AppendVarint(dst, p.DueAt.UnixMilli())
	dst = binary.AppendUvarint(dst, uint64(p.Callbacks))
	if p.CancelRequested {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// DecodePlace decodes a result of AppendPlace.
func DecodePlace(data []byte) (p Place, err error) {
	if len(data) < 2 || data[0] != version {
		return p, errEmpty
	}
	if p.State, err = StateOf(data[1]); err != nil {
		return p, err
	}
	r := numbers{rest: data[2:]}
	p.Retried = int(r.unsigned())
	if p.Order = posthaste.Position(r.unsigned()); p.Order != 0 {
		p.DueAt = time.UnixMilli(r.signed())
		p.Callbacks = int(r.unsigned())
		p.CancelRequested = r.unsigned() != 0
	}
	if r.failed || len(r.rest) > 0 {
		return p, errParts
	}
	return p, nil
}

// numbers reads consecutive varints.
type numbers struct {
	rest   []byte
	failed bool
}

func (r *numbers) unsigned() uint64 {
	n, width := binary.Uvarint(r.rest)
	r.skip(width)
	return n
}

func (r *numbers) signed() int64 {
	n, width := binary.Varint(r.rest)
	r.skip(width)
	return n
}

func (r *numbers) skip(width int) {
	if width <= 0 {
		r.failed, r.rest = true, nil
		return
	}
	r.rest = r.rest[width:]
}
