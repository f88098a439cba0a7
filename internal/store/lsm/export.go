package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Export implements store.Backend.
func (s *Store) Export(ctx context.Context, now time.Time, yield func(store.Item) error) error {
	if err := s.writer.do(ctx, func(*commit) error { return nil }); err != nil { // behind all that nobody waits for
		return err
	}
	release, err := s.hold()
	if err != nil {
		return err
	}
	defer release()
	snapshot := s.db.NewSnapshot()
	e := &exporter{reader: snapshot, yield: func(item store.Item) error {
		if err := ctx.Err(); err != nil || item.Expired(now) {
			return err
		}
		return yield(item)
	}}
	return errors.Join(e.all(), snapshot.Close())
}

// exporter yields what a store keeps.
type exporter struct {
	reader pebble.Reader
	yield  func(store.Item) error
}

// all yields everything in the order of the kinds.
func (e *exporter) all() (err error) {
	for kind := store.ItemSecret; kind <= store.ItemResponse && err == nil; kind++ {
		switch kind {
		case store.ItemMessage:
			err = e.daily(segmentEnvelope, e.message)
		case store.ItemEvent:
			err = e.daily(segmentLog, e.block)
		default:
			err = e.each([]byte(tables[kind].record), func(user string, key, value []byte) error {
				return e.yield(store.Item{Kind: kind, User: user, Key: key, Value: value})
			})
		}
	}
	return err
}

// each visits what has a prefix, by its user and the rest of its key.
func (e *exporter) each(prefix []byte, visit func(user string, key, value []byte) error) error {
	return scan(e.reader, prefix, func(key, value []byte) error {
		user, rest, err := userKey(key[len(prefix):])
		if err != nil {
			return err
		}
		return visit(user, rest, value)
	})
}

// daily visits a part of all days.
func (e *exporter) daily(part byte, visit func(user string, key, value []byte) error) error {
	days, err := numbersBefore(e.reader, kindSegment, maxDay)
	for i := 0; i < len(days) && err == nil; i++ {
		prefix := binary.BigEndian.AppendUint16([]byte{kindSegment}, uint16(days[i]))
		err = e.each(append(prefix, part), visit)
	}
	return err
}

// message yields a message with its body, wherever that is, and where it stands.
func (e *exporter) message(user string, key, _ []byte) error {
	id := posthaste.MessageID(key)
	m, err := readMessage(e.reader, user, id)
	if err != nil {
		return err
	}
	st, err := readStatus(e.reader, user, id)
	if err != nil {
		return err
	}
	return e.yield(store.Item{
		Kind: store.ItemMessage, User: user, Key: key,
		Value: record.AppendParts(nil, record.AppendMessage(nil, m), record.AppendPlace(nil, placeOf(st))),
	})
}

func placeOf(st status) *record.Place {
	p := &record.Place{State: st.state, Retried: st.Retried}
	if !st.state.Terminal() || st.Ended {
		p.Order, p.DueAt, p.Callbacks, p.CancelRequested = st.order, time.UnixMilli(st.ReadyMS), st.Callbacks, st.CancelRequested
	}
	return p
}

// block yields the events of a block.
func (e *exporter) block(user string, key, value []byte) error {
	first, err := parsePosition(key)
	if err != nil {
		return err
	}
	events, err := index.DecodeBlock(first, value, nil)
	for i := 0; i < len(events) && err == nil; i++ {
		err = e.event(user, &events[i])
	}
	return err
}

func (e *exporter) event(user string, event *posthaste.Event) error {
	var response []byte
	err := get(e.reader, appendPositionKey(nil, segmentResponse, user, event.Position), func(data []byte) error {
		response = append(response, data...)
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return e.yield(store.Item{
		Kind:  store.ItemEvent,
		User:  user,
		Key:   binary.BigEndian.AppendUint64(nil, uint64(event.Position)),
		Value: record.AppendParts(nil, event.MessageID[:], record.AppendEvent(nil, event), response),
	})
}
