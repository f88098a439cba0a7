package lsm

import (
	"encoding/binary"
	"time"

	"posthaste/internal/store"
)

// table says under which prefixes the records of a kind are kept.
type table struct {
	record   string // prefix USER KEY: the record
	due      string // prefix due64 USER KEY: nothing, the record is due then
	postings string // prefix USER FIELD hash64 KEY: nothing, the record is found by that
	counted  byte   // part of the number of records; their keys are positions. 0: they are not counted
}

// tables are where the kinds are kept. Due keys and postings that have no place of their own are under
// their kind's number.
var tables = complete([kinds]table{
	store.ItemSecret:            {record: string(kindVault)},
	store.ItemQueue:             {record: string(kindQueue)},
	store.ItemURLGroup:          {record: string(kindGroup)},
	store.ItemFlowKey:           {record: string(kindFlowKey)},
	store.ItemSchedule:          {record: string(kindSchedule), due: string(kindTick)},
	store.ItemAction:            {record: string(kindAction)},
	store.ItemRun:               {record: runPart(runEnvelope), postings: runPart(runPosting), counted: countedRuns},
	store.ItemRunEntry:          {record: runPart(runEntry)},
	store.ItemIdempotencyRecord: {record: runPart(runMemory)},
	store.ItemRunEvent:          {record: runPart(runEvent)},
	store.ItemWaiter:            {record: runPart(runWaiter), due: runPart(runDeadline)},
	store.ItemDeadLetter: {
		record:   string([]byte{kindDeadLetter, deadLetterEntry}),
		postings: string([]byte{kindDeadLetter, deadLetterPosting}),
		counted:  countedDeadLetters,
	},
	store.ItemRunDeadLetter: {
		record: runPart(runDeadLetter), postings: runPart(runDeadLetterPosting), counted: countedFailedRuns,
	},
	store.ItemSubmission: {record: string(kindSubmission)},
	store.ItemResponse:   {record: string(kindResponse)},

	store.ItemLatestRun:   {record: runPart(runLatest)},
	store.ItemTopic:       {record: runPart(runTopic)},
	store.ItemFailedRunID: {record: runPart(runDeadLetterID)},
})

const kinds = store.ItemFailedRunID + 1

func runPart(part byte) string { return string([]byte{kindRun, part}) }

func complete(all [kinds]table) [kinds]table {
	for kind := range all {
		t := &all[kind]
		if t.due == "" {
			t.due = string([]byte{kindDue, byte(kind)})
		}
		if t.postings == "" {
			t.postings = string([]byte{kindFound, byte(kind)})
		}
	}
	return all
}

// tableOf returns where a kind is kept.
func tableOf(kind store.ItemKind) *table { return &tables[kind] }

// appendRecordPrefix makes the beginning of the keys of a user's records.
func (t *table) appendRecordPrefix(dst []byte, user string) []byte {
	return appendUser(append(dst, t.record...), user)
}

func (t *table) appendRecord(dst []byte, user string, key []byte) []byte {
	return append(t.appendRecordPrefix(dst, user), key...)
}

func (t *table) appendDue(dst []byte, at time.Time, user string, key []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, t.due...), uint64(at.UnixMilli()))
	return append(appendUser(dst, user), key...)
}

// parseDue splits a due key.
func (t *table) parseDue(key []byte) (at time.Time, user string, tail []byte, err error) {
	rest := key[len(t.due):]
	if len(rest) < 8 {
		return time.Time{}, "", nil, errCorrupt
	}
	user, tail, err = userKey(rest[8:])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(rest))), user, tail, err
}

// appendPostingPrefix makes the beginning of the keys of a user's records that have a term.
func (t *table) appendPostingPrefix(dst []byte, user string, term store.Term) []byte {
	dst = append(appendUser(append(dst, t.postings...), user), term.Field)
	return binary.BigEndian.AppendUint64(dst, term.Hash)
}

func (t *table) appendPosting(dst []byte, user string, term store.Term, key []byte) []byte {
	return append(t.appendPostingPrefix(dst, user, term), key...)
}
