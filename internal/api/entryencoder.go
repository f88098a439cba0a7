package api

import (
	"encoding/json"
	"strconv"

	"posthaste"
	"posthaste/internal/store"
)

// entryEncoder encodes the entries of a page, for a single user. What an entry says of its
// message is encoded once a message: most have several entries on a page, and it is by far the
// larger part. Make one with newEntryEncoder.
type entryEncoder struct {
	form     entryForm
	text     []byte // the entries so far, and what was written between them
	json     *json.Encoder
	messages map[posthaste.MessageID]span // in the text: what entries say of their messages

	message loggedMessage // what is being encoded, here so that it is not allocated
	own     logEntry
}

// span is a part of a text.
type span struct{ begin, end int }

func newEntryEncoder(form entryForm) *entryEncoder {
	e := &entryEncoder{form: form, messages: map[posthaste.MessageID]span{}}
	e.json = json.NewEncoder(e)
	e.json.SetEscapeHTML(false)
	return e
}

// Write appends to the text.
func (e *entryEncoder) Write(p []byte) (int, error) {
	e.text = append(e.text, p...)
	return len(p), nil
}

// add appends an entry in JSON, in one line with its end.
func (e *entryEncoder) add(entry *store.Entry) {
	e.addOwn(entry)
	begin := len(e.text)
	if known, ok := e.messages[entry.Message.ID]; ok {
		e.text = append(e.text, e.text[known.begin:known.end]...)
		return
	}
	e.message = e.form.message(entry.Message)
	e.encode(&e.message)
	e.text[begin] = ',' // in place of {: the two objects become one
	e.messages[entry.Message.ID] = span{begin, len(e.text)}
}

// addOwn appends what is an entry's own, without its closing brace. Most have a time and a state
// and nothing else, which need no encoder.
func (e *entryEncoder) addOwn(entry *store.Entry) {
	e.own = e.form.view(entry)
	if e.own == (logEntry{Time: e.own.Time, State: e.own.State}) {
		e.text = strconv.AppendInt(append(e.text, `{"time":`...), e.own.Time, 10)
		e.text = append(append(append(e.text, `,"state":"`...), e.own.State...), '"')
		return
	}
	e.encode(&e.own)
	e.text = e.text[:len(e.text)-len("}\n")]
}

// encode appends a value in JSON. See encodeJSON.
func (e *entryEncoder) encode(value any) {
	if err := e.json.Encode(value); err != nil {
		panic(err)
	}
}
