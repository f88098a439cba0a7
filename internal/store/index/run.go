package index

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// Some records say where records of runs are: the latest run with an id, the waiters for a topic,
// the entries of the DLQ by the ids of their runs. They are found by their keys, so a transaction
// finds what it has just written.

var errKey = errors.New("index: the key of a record has the wrong length")

// hash stands for a text of any length in a key.
func hash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// LatestRun is the key of the latest run with an id.
func LatestRun(id string) store.RecordKey {
	return store.RecordKey{Kind: store.ItemLatestRun, Key: hash(id)}
}

// Topic begins the keys of the waiters for a topic, which end with their positions.
func Topic(topic posthaste.Topic) []byte { return hash(string(topic)) }

// maxKeyID is how much of a run's id is in a key.
const maxKeyID = 500

// FailedRunID begins the keys of entries of the DLQ of runs whose ids begin so. They end with the
// positions of the entries.
func FailedRunID(prefix string) []byte { return []byte(prefix[:min(len(prefix), maxKeyID)]) }

// IdempotencyRecord ends the key of a run's idempotency record.
func IdempotencyRecord(key string) []byte { return hash(key) }

// Event follows the run in the keys of its events with an id, which end with their positions.
func Event(id string) []byte { return hash(id) }

// Ref is a record that says where another one is.
type Ref struct {
	store.RecordKey
	Value []byte
}

// LatestRunRef is the record of the latest run with an id.
func LatestRunRef(run *posthaste.Run) Ref { return Ref{LatestRun(run.ID), key(run.Position)} }

// TopicRef is the record of a waiter under its topic.
func TopicRef(w *posthaste.Waiter) Ref {
	return Ref{store.RecordKey{Kind: store.ItemTopic, Key: append(Topic(w.Topic), key(w.Position)...)}, key(w.Run.Position)}
}

// FailedRunRef is the record of an entry of the DLQ under the id of its run.
func FailedRunRef(run *posthaste.Run, id posthaste.DeadLetterID) Ref {
	of := append(append(FailedRunID(run.ID), 0), key(posthaste.Position(id))...)
	return Ref{store.RecordKey{Kind: store.ItemFailedRunID, Key: of}, []byte{}}
}

func key(at posthaste.Position) []byte { return binary.BigEndian.AppendUint64(nil, uint64(at)) }

// Filed is how a record of a run is found, other than by its key.
type Filed struct {
	store.Found
	Ref *Ref               // nil: there is none
	At  posthaste.Position // of the record
	Run posthaste.Position // that it belongs to
}

// OfRun returns how a record that belongs to a run is found, or what is wrong with it. readRun
// returns another run of its user.
func OfRun(item *store.Item, readRun func(posthaste.Position) (*posthaste.Run, error)) (Filed, error) {
	if want := keyLengths[item.Kind]; want == 0 || len(item.Key) != want {
		return Filed{}, fmt.Errorf("%w: %d bytes, and %d are expected", errKey, len(item.Key), want)
	}
	first := posthaste.Position(binary.BigEndian.Uint64(item.Key))
	last := posthaste.Position(binary.BigEndian.Uint64(item.Key[len(item.Key)-8:]))
	f := Filed{Run: first, At: first}
	switch item.Kind {
	case store.ItemRun:
		run, err := record.DecodeRunItem(item.User, item.Value)
		if err != nil {
			return f, err
		}
		ref := LatestRunRef(run)
		f.Terms, f.Ref = Run(run), &ref
	case store.ItemRunEntry:
		_, err := record.DecodeRunEntry(int(binary.BigEndian.Uint32(item.Key[8:])), item.Value)
		return f, err
	case store.ItemIdempotencyRecord:
		if len(item.Value) != len(posthaste.MessageID{}) {
			return f, errKey
		}
	case store.ItemRunEvent:
		f.At = last
	case store.ItemWaiter:
		f.At = last
		w, err := record.DecodeWaiter(f.At, item.Value)
		if err != nil {
			return f, err
		}
		ref := TopicRef(w)
		f.DueAt, f.Ref = w.Deadline, &ref
	case store.ItemRunDeadLetter:
		err := f.failed(item, readRun)
		return f, err
	}
	return f, nil
}

var keyLengths = map[store.ItemKind]int{
	store.ItemRun: 8, store.ItemRunEntry: 8 + 4, store.ItemIdempotencyRecord: 8 + 16,
	store.ItemRunEvent: 8 + 16 + 8, store.ItemWaiter: 8 + 8, store.ItemRunDeadLetter: 8,
}

func (f *Filed) failed(item *store.Item, readRun func(posthaste.Position) (*posthaste.Run, error)) error {
	at, letter, err := record.FailedRun(item.Value)
	if err != nil {
		return err
	}
	id := posthaste.DeadLetterID(f.At)
	if _, err := record.DecodeDeadLetter(id, item.User, letter); err != nil {
		return err
	}
	run, err := readRun(at)
	if err != nil {
		return fmt.Errorf("its run: %w", err)
	}
	ref := FailedRunRef(run, id)
	f.Run, f.Terms, f.Ref = at, FailedRun(run), &ref
	return nil
}
