package lsm

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
)

// maxLiveScan bounds how many waiting messages one call looks at.
const maxLiveScan = 20_000

// LiveMessages implements store.Backend. It walks through the lanes: what
// has not ended has its place there. The cursor is the key to continue at.
func (s *Store) LiveMessages(_ context.Context, user string, query store.LiveQuery) (ids []posthaste.MessageID, cursor string, err error) {
	done, err := s.reading()
	if err != nil {
		return nil, "", err
	}
	defer done(&err)
	prefix := appendUser([]byte{kindWaiting}, user)
	from, err := liveStart(prefix, query.Cursor)
	if err != nil {
		return nil, "", err
	}
	if queues := query.Filter.Queues; len(queues) == 1 {
		prefix = appendLane(nil, lanes.ID{User: user, Lane: posthaste.Lane{Kind: posthaste.LaneQueue, Name: queues[0]}})
	}
	if bytes.Compare(from, prefix) < 0 { // a cursor of older versions went through all lanes
		from = prefix
	}
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: store.PrefixEnd(prefix)})
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, iter.Error(), iter.Close()) }()
	for valid, scanned := iter.First(), 0; valid; valid, scanned = iter.Next(), scanned+1 {
		if scanned == maxLiveScan || len(ids) == query.Limit {
			return ids, base64.RawURLEncoding.EncodeToString(iter.Key()), nil
		}
		matches, err := s.liveMatch(user, iter.Key(), iter.Value(), &query)
		if err != nil {
			return nil, "", err
		}
		if matches {
			ids = append(ids, parseSpot(iter.Key()).ID)
		}
	}
	return ids, "", nil
}

// liveStart returns the key a cursor names; it must lie under the prefix.
func liveStart(prefix []byte, cursor string) ([]byte, error) {
	if cursor == "" {
		return prefix, nil
	}
	key, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || string(key[:min(len(key), len(prefix))]) != string(prefix) {
		return nil, posthaste.Invalidf("cursor %q is not one that this server made", cursor)
	}
	return key, nil
}

func (s *Store) liveMatch(user string, key, value []byte, query *store.LiveQuery) (bool, error) {
	_, place, ok := parseWaitingKey(key)
	w, err := parseWaiting(value)
	switch {
	case !ok || err != nil:
		s.unreadable.add(key, errCorrupt)
		return false, nil
	case w.Ended || w.CancelRequested:
		return false, nil
	}
	m, err := readMessage(s.db, user, place.ID)
	if s.passedOver(user, place.ID, err) || errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && query.Matches(m), err
}
