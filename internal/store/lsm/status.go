package lsm

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
	"posthaste/internal/store/record"
)

// status is a message's place and state. While it is live, order and its id are its
// place in its lane.
type status struct {
	state posthaste.State // CREATED or RETRY while it waits or is claimed
	order posthaste.Position
	lanes.Waiting
}

// newWaiting returns what the first attempt of a message has to know.
func newWaiting(m *posthaste.Message) lanes.Waiting {
	w := lanes.Waiting{ReadyMS: m.NotBefore.UnixMilli(), FlowKey: m.FlowControl.Key}
	if size := store.DeliverySize(m); size > flow.SmallMessage {
		w.Size = size
	}
	return w
}

// placeOf returns where a message stands as the seam has it.
func (s status) placeOf(lease uint64) *store.Place {
	return &store.Place{
		State:           s.state,
		Order:           s.order,
		DueAt:           time.UnixMilli(s.ReadyMS),
		Retried:         s.Retried,
		CancelRequested: s.CancelRequested,
		Callbacks:       s.Callbacks,
		Lingers:         s.Ended,
		Lease:           lease,
	}
}

// at returns the status of a message whose place has changed.
func (s status) at(p *store.Place) status {
	s.state, s.order = p.State, p.Order
	s.ReadyMS, s.Retried, s.CancelRequested = p.DueAt.UnixMilli(), p.Retried, p.CancelRequested
	s.Callbacks, s.Ended = p.Callbacks, p.Lingers
	return s
}

// class returns how a message counts in its lane, claimed or not.
func (s *status) class() lanes.Class {
	if s.state.Terminal() {
		return lanes.Uncounted
	}
	return s.Waiting.Class()
}

// inLane reports whether the message has a place in its lane.
func (s status) inLane() bool { return !s.state.Terminal() || s.Ended }

// newStatus returns the status of a new message.
func newStatus(m *posthaste.Message, p *store.Place) status {
	return status{Waiting: newWaiting(m)}.at(p)
}

var errCorrupt = errors.New("stored record is damaged")

const (
	flagCancelRequested = 1 << iota
	flagEnded
	flagSized
)

func appendWaiting(dst []byte, w *lanes.Waiting) []byte {
	var flags byte
	if w.CancelRequested {
		flags |= flagCancelRequested
	}
	if w.Ended {
		flags |= flagEnded
	}
	if w.Size > 0 {
		flags |= flagSized
	}
	dst = binary.AppendUvarint(append(dst, flags), uint64(w.Retried))
	dst = binary.AppendUvarint(dst, uint64(w.Callbacks))
	dst = binary.AppendVarint(dst, w.ReadyMS)
	if w.Size > 0 {
		dst = binary.AppendUvarint(dst, uint64(w.Size))
	}
	return append(dst, w.FlowKey...)
}

func parseWaiting(data []byte) (lanes.Waiting, error) {
	if len(data) == 0 {
		return lanes.Waiting{}, errCorrupt
	}
	retried, n := binary.Uvarint(data[1:])
	callbacks, m := binary.Uvarint(data[1+max(n, 0):])
	readyMS, k := binary.Varint(data[1+max(n, 0)+max(m, 0):])
	if n <= 0 || m <= 0 || k <= 0 {
		return lanes.Waiting{}, errCorrupt
	}
	w := lanes.Waiting{
		Retried:         int(retried),
		CancelRequested: data[0]&flagCancelRequested != 0,
		ReadyMS:         readyMS,
		Callbacks:       int(callbacks),
		Ended:           data[0]&flagEnded != 0,
	}
	rest := data[1+n+m+k:]
	if data[0]&flagSized != 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size == 0 || size > math.MaxInt {
			return lanes.Waiting{}, errCorrupt
		}
		w.Size, rest = int(size), rest[n:]
	}
	w.FlowKey = string(rest)
	return w, nil
}

func (s status) append(dst []byte) []byte {
	dst = append(dst, record.StateCode(s.state))
	dst = binary.AppendUvarint(dst, uint64(s.order))
	return appendWaiting(dst, &s.Waiting)
}

func parseStatus(data []byte) (status, error) {
	if len(data) == 0 {
		return status{}, errCorrupt
	}
	state, err := record.StateOf(data[0])
	if err != nil {
		return status{}, err
	}
	s := status{state: state}
	order, n := binary.Uvarint(data[1:])
	if n <= 0 {
		return status{}, errCorrupt
	}
	s.order = posthaste.Position(order)
	s.Waiting, err = parseWaiting(data[1+n:])
	return s, err
}

// readStatus returns store.ErrNotFound for an unknown message.
func readStatus(r pebble.Reader, user string, id posthaste.MessageID) (status, error) {
	var s status
	err := get(r, appendMessageKey(nil, segmentStatus, user, id), func(data []byte) (err error) {
		s, err = parseStatus(data)
		return err
	})
	return s, err
}

// get reads one key and lends its value to use.
func get(r pebble.Reader, key []byte, use func(value []byte) error) error {
	value, closer, err := r.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return store.ErrNotFound
	case err != nil:
		return err
	}
	defer func() { _ = closer.Close() }()
	return use(value)
}

// scan visits all keys with a prefix, in order, until visit returns an error, which may be errEnough.
func scan(r pebble.Reader, prefix []byte, visit func(key, value []byte) error) error {
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: store.PrefixEnd(prefix)})
	if err != nil {
		return err
	}
	for valid := iter.First(); valid && err == nil; valid = iter.Next() {
		err = visit(iter.Key(), iter.Value())
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return errors.Join(err, iter.Error(), iter.Close())
}

// errEnough ends a scan that has seen what it wanted.
var errEnough = errors.New("enough")

// parsePosition reads a position that is all there is.
func parsePosition(data []byte) (posthaste.Position, error) {
	if len(data) != 8 {
		return 0, errCorrupt
	}
	return posthaste.Position(binary.BigEndian.Uint64(data)), nil
}
