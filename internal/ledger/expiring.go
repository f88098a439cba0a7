package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// expiring are records that are valid for a time after they were written. Their keys begin with the
// number of the window in which that was, so that retention deletes whole windows.
type expiring struct {
	kind   store.ItemKind
	window time.Duration
}

var (
	submissions = expiring{store.ItemSubmission, store.DedupWindow}
	responses   = expiring{store.ItemResponse, store.ResponseWindow}
)

// key returns the key of a record that is written at a time. Names are hashed: they may be of any
// length.
func (e expiring) key(name string, at time.Time) store.RecordKey {
	sum := sha256.Sum256([]byte(name))
	return store.RecordKey{Kind: e.kind, Key: append(e.windowKey(at), sum[:16]...)}
}

func (e expiring) windowKey(at time.Time) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(at.UnixMilli()/e.window.Milliseconds()))
}

// keys returns the keys under which a valid record may be, the latest first. The clock that wrote it
// may be ahead of this one, and so in the next window.
func (e expiring) keys(name string, now time.Time) []store.RecordKey {
	return []store.RecordKey{e.key(name, now.Add(e.window)), e.key(name, now), e.key(name, now.Add(-e.window))}
}

// get returns a valid record, nil if there is none.
func (e expiring) get(tx *tx, name string) ([]byte, error) {
	for _, key := range e.keys(name, tx.now) {
		data, err := tx.Get(key.Kind, key.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(data) < 8 {
			return nil, errDamaged
		}
		if written := time.UnixMilli(int64(binary.BigEndian.Uint64(data))); tx.now.Sub(written) < e.window {
			return data[8:], nil
		}
	}
	return nil, nil
}

// put writes a record in the place of any earlier one, also of one from a clock that is ahead.
func (e expiring) put(tx *tx, name string, value []byte) {
	ahead, key := e.key(name, tx.now.Add(e.window)), e.key(name, tx.now)
	if _, err := tx.Get(ahead.Kind, ahead.Key); err == nil {
		tx.Delete(ahead.Kind, ahead.Key, store.Found{})
	}
	data := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(value)), uint64(tx.now.UnixMilli()))
	tx.Put(key.Kind, key.Key, append(data, value...), store.Found{}, store.Found{})
}

// trim deletes the windows of which no record is valid any more.
func (e expiring) trim(tx *tx) { tx.DeleteBefore(e.kind, e.windowKey(tx.now.Add(-e.window))) }

var errDamaged = errors.New("ledger: a stored record is damaged")

// remember stores the ids of a submission under its deduplication key.
func (tx *tx) remember(key string, ids []posthaste.MessageID) {
	value := make([]byte, 0, len(ids)*len(posthaste.MessageID{}))
	for _, id := range ids {
		value = append(value, id[:]...)
	}
	submissions.put(tx, key, value)
}

// earlier returns the ids of the submission with a deduplication key, or nil if there is none or
// if all of its messages have ended without delivery.
func (tx *tx) earlier(key string) (ids []posthaste.MessageID, err error) {
	data, err := submissions.get(tx, key)
	if data == nil || err != nil {
		return nil, err
	}
	const size = len(posthaste.MessageID{})
	if len(data) == 0 || len(data)%size != 0 {
		return nil, errDamaged
	}
	for ; len(data) > 0; data = data[size:] {
		ids = append(ids, posthaste.MessageID(data[:size]))
	}
	undelivered, err := tx.undelivered(ids)
	if undelivered || err != nil {
		return nil, err
	}
	return ids, nil
}

// undelivered reports whether all of some messages have ended without delivery. One that is no
// longer stored may have been delivered.
func (tx *tx) undelivered(ids []posthaste.MessageID) (bool, error) {
	for _, id := range ids {
		place, err := tx.Place(id)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil || !store.Undelivered(place.State) {
			return false, err
		}
	}
	return true, nil
}
