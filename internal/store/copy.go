package store

import (
	"context"
	"encoding/binary"
	"errors"
	"time"
)

// Copier is a backend whose content can be moved into another one. While that goes on
// nothing else uses either of them.
type Copier interface {
	// Empty reports whether nothing is kept but secrets.
	Empty(ctx context.Context) (bool, error)

	// Export yields everything that is kept, in the order of the kinds, and what is of
	// one kind and user in the order of its keys. Two backends that keep the same yield
	// the same items, though not users in the same order. What was claimed is as if it
	// had been released. Submissions and answers that are remembered no more at a time
	// are left out. The item is good until yield returns.
	Export(ctx context.Context, now time.Time, yield func(Item) error) error

	// Import adds items in the order in which they were exported, all of them in one
	// commit. The backend is of use after it was closed and opened again.
	Import(ctx context.Context, items []Item) error
}

// CopyMark is the secret under which a store says that a copy into it has begun, and whether
// it has ended. It is not copied itself.
const (
	CopyMark    = "copy"
	CopyRunning = "running"
	CopyDone    = "done"
)

// ErrHalfCopied is why a store is not served.
var ErrHalfCopied = errors.New("a copy into it was broken off: remove the directory, or drop the schema posthaste of the database, and copy again")

// CheckCopied returns ErrHalfCopied if a secret says that a copy has not ended.
func CheckCopied(key, value string) error {
	if key == CopyMark && value != CopyDone {
		return ErrHalfCopied
	}
	return nil
}

// Item is one thing that a backend keeps, in the form of package record.
type Item struct {
	Kind  ItemKind
	User  string // "" for a secret
	Key   []byte // by which it is found among those of its kind
	Value []byte
}

// ItemKind says what an item is. Numbers in keys and values are big-endian: a position
// has 8 bytes, the index of an entry 4, the hash of a text 16. Values of several parts
// are what record.AppendParts makes.
type ItemKind uint8

// The kinds of items.
const (
	ItemSecret        ItemKind = iota + 1 // key: value
	ItemQueue                             // name: record
	ItemURLGroup                          // name: record
	ItemFlowKey                           // key: record
	ItemSchedule                          // id: record
	ItemAction                            // id: record
	ItemRun                               // position: envelope and progress
	ItemRunEntry                          // position of the run, index: record
	ItemRunMemory                         // position of the run, hash: message id
	ItemRunEvent                          // position of the run, position: event id and body
	ItemWaiter                            // position of the run, position: record
	ItemMessage                           // id: message and where it stands, record.Place
	ItemEvent                             // position: message id, event, response if there is one
	ItemDeadLetter                        // position: record
	ItemRunDeadLetter                     // position: position of the run, record
	ItemSubmission                        // hash: when, in Unix milliseconds, and message ids
	ItemAnswer                            // hash: when, in Unix milliseconds, and the answer
)

// Forgotten reports whether an item is a submission or an answer that is remembered no
// more.
func (i *Item) Forgotten(now time.Time) bool {
	window := DedupWindow
	switch i.Kind {
	case ItemAnswer:
		window = AnswerWindow
	case ItemSubmission:
	default:
		return false
	}
	return len(i.Value) < 8 || now.Sub(time.UnixMilli(int64(binary.BigEndian.Uint64(i.Value)))) >= window
}

// itemKinds are the names of the kinds.
var itemKinds = [...]string{
	ItemSecret: "secrets", ItemQueue: "queues", ItemURLGroup: "URL groups", ItemFlowKey: "flow-control keys",
	ItemSchedule: "schedules", ItemAction: "bulk actions", ItemRun: "runs", ItemRunEntry: "entries of runs",
	ItemRunMemory: "memories of runs", ItemRunEvent: "events of runs", ItemWaiter: "waiters", ItemMessage: "messages",
	ItemEvent: "log entries", ItemDeadLetter: "dead letters", ItemRunDeadLetter: "failed runs",
	ItemSubmission: "deduplicated submissions", ItemAnswer: "kept answers",
}

// String returns what several items of the kind are called.
func (k ItemKind) String() string { return itemKinds[k] }
