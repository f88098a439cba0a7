package api

import (
	"bytes"
	"strconv"

	"posthaste"
	"posthaste/internal/store"
)

// entryEncoder encodes the entries of a page, for a single user. What an entry says of its
// message is encoded once a message: most have several entries on a page, and it is by far the
// larger part. Make one with newEntryEncoder.
type entryEncoder struct {
	pieces   // what was written
	form     entryForm
	messages map[posthaste.MessageID][]byte // in the pieces: what entries say of their messages
	json     jsonBuffer

	message loggedMessage // what is being encoded, here so that it is not allocated
	own     logEntry
	short   []byte // own, encoded
}

func newEntryEncoder(form entryForm) *entryEncoder {
	return &entryEncoder{form: form, messages: map[posthaste.MessageID][]byte{}}
}

// add appends an entry in JSON, in one line with its end.
func (e *entryEncoder) add(entry *store.Entry) {
	e.write(bytes.TrimSuffix(e.encodeOwn(entry), []byte("}\n"))) // the two objects become one
	id := entry.Message.ID
	if known, ok := e.messages[id]; ok {
		e.write(known)
		return
	}
	e.message = e.form.message(entry.Message)
	text := e.json.encode(&e.message)
	text[0] = ',' // in place of {
	e.messages[id] = e.write(text)
}

// encodeOwn returns what is an entry's own. Most have a time and a state and nothing else,
// which need no encoder.
func (e *entryEncoder) encodeOwn(entry *store.Entry) []byte {
	e.own = e.form.view(entry)
	if e.own != (logEntry{Time: e.own.Time, State: e.own.State}) {
		return e.json.encode(&e.own)
	}
	e.short = strconv.AppendInt(append(e.short[:0], `{"time":`...), e.own.Time, 10)
	e.short = append(append(e.short, `,"state":"`...), e.own.State...)
	return append(e.short, "\"}\n"...)
}
