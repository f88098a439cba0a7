package store

import (
	"encoding/binary"
	"errors"
	"time"
)

// CopyMark is the secret that records a copy into this store and whether it has completed. It is
// not copied itself.
const (
	CopyMark    = "copy"
	CopyRunning = "running"
	CopyDone    = "done"
)

// ErrHalfCopied means that the store is an incomplete copy.
var ErrHalfCopied = errors.New("a copy into it was broken off: remove the directory, or drop the schema posthaste of the database, and copy again")

// CheckCopied returns ErrHalfCopied if the secret says that a copy has not completed.
func CheckCopied(key, value string) error {
	if key == CopyMark && value != CopyDone {
		return ErrHalfCopied
	}
	return nil
}

// Item is one stored record, in the encoding of package record.
type Item struct {
	Kind  ItemKind
	User  string // "" for a secret
	Key   []byte // unique within its kind and user
	Value []byte
}

// ItemKind is the type of an item. Numbers in keys and values are big-endian: 8 bytes for a
// position, 4 for the index of an entry, 16 for the hash of a text. record.AppendParts encodes
// values of several parts.
type ItemKind uint8

// The kinds of items.
const (
	ItemSecret            ItemKind = iota + 1 // key: value
	ItemQueue                                 // name: record
	ItemURLGroup                              // name: record
	ItemFlowKey                               // key: record
	ItemSchedule                              // id: record
	ItemAction                                // id: record
	ItemRun                                   // position: envelope and progress
	ItemRunEntry                              // position of the run, index: record
	ItemIdempotencyRecord                     // position of the run, hash: message id
	ItemRunEvent                              // position of the run, hash of the event id, position: body
	ItemWaiter                                // position of the run, position: record
	ItemMessage                               // id: message and its record.Place
	ItemEvent                                 // position: message id, event, optional response
	ItemDeadLetter                            // position: record
	ItemRunDeadLetter                         // position: position of the run, record
	ItemSubmission                            // window, hash: Unix milliseconds, message ids
	ItemResponse                              // window, hash: Unix milliseconds, response

	// These say only where others are, and are not exported.
	ItemLatestRun   // hash of an id: position of the latest run with it
	ItemTopic       // hash of a topic, position of a waiter: position of its run
	ItemFailedRunID // id of a run, 0, position of its entry in the DLQ: nothing
)

// Expired reports whether an item is a submission or a response past its window.
func (i *Item) Expired(now time.Time) bool {
	window := DedupWindow
	switch i.Kind {
	case ItemResponse:
		window = ResponseWindow
	case ItemSubmission:
	default:
		return false
	}
	return len(i.Value) < 8 || now.Sub(time.UnixMilli(int64(binary.BigEndian.Uint64(i.Value)))) >= window
}

var itemKinds = [...]string{
	ItemSecret: "secrets", ItemQueue: "queues", ItemURLGroup: "URL groups", ItemFlowKey: "flow-control keys",
	ItemSchedule: "schedules", ItemAction: "bulk actions", ItemRun: "runs", ItemRunEntry: "entries of runs",
	ItemIdempotencyRecord: "idempotency records of runs", ItemRunEvent: "events of runs", ItemWaiter: "waiters", ItemMessage: "messages",
	ItemEvent: "log entries", ItemDeadLetter: "dead letters", ItemRunDeadLetter: "failed runs",
	ItemSubmission: "deduplicated submissions", ItemResponse: "cached responses",
	ItemLatestRun: "latest runs", ItemTopic: "topics of waiters", ItemFailedRunID: "ids of failed runs",
}

// String returns the plural name of the kind.
func (k ItemKind) String() string { return itemKinds[k] }
