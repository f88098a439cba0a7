package api

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// entryEncoder encodes the entries of a page. What an entry says of its message
// is encoded once a message: most have several entries on a page, and it is by
// far the larger part. Make one with newEntryEncoder.
type entryEncoder struct {
	form     entryForm
	shared   *sharedMessages               // with the encoders of other followers, nil for none
	messages map[*posthaste.Message][]byte // encoded, parts of encoded or shared
	encoded  []byte                        // the messages, or as many as were added since it last grew
	json     jsonBuffer
	line     bytes.Buffer

	message loggedMessage // what is being encoded, here so that it is not allocated
	own     logEntry
	short   []byte // own, encoded
}

// entryEncoders are encoders and their memory, which goes from one page to the next.
var entryEncoders = sync.Pool{New: func() any {
	return &entryEncoder{messages: make(map[*posthaste.Message][]byte)}
}}

// newEntryEncoder returns an encoder, which is given back with release.
func newEntryEncoder(form entryForm) *entryEncoder {
	e := entryEncoders.Get().(*entryEncoder)
	e.form = form
	return e
}

// release gives the encoder back. What it has returned is valid no more.
func (e *entryEncoder) release() {
	if cap(e.encoded)+e.line.Cap()+e.json.buffer.Cap() > mostKeptEncoded {
		return
	}
	clear(e.messages)
	e.encoded, e.message, e.own, e.shared = e.encoded[:0], loggedMessage{}, logEntry{}, nil
	entryEncoders.Put(e)
}

// mostKeptEncoded is the memory of an encoder that goes on to the next page: a page of
// usual messages takes less, and one of large bodies is rare.
const mostKeptEncoded = 4 << 20

// encode returns an entry in JSON, in one line with its end. The bytes are valid
// until the next call.
func (e *entryEncoder) encode(entry store.Entry) []byte {
	message, ok := e.messages[entry.Message]
	if !ok {
		message = e.encodeMessage(entry)
	}
	e.line.Reset()
	e.line.Write(bytes.TrimSuffix(e.encodeOwn(entry), []byte("}\n"))) // the two objects become one
	e.line.WriteByte(',')
	e.line.Write(bytes.TrimPrefix(message, []byte("{")))
	return e.line.Bytes()
}

// encodeOwn returns what is an entry's own. Most have a time and a state and nothing else,
// which need no encoder.
func (e *entryEncoder) encodeOwn(entry store.Entry) []byte {
	e.own = e.form.view(entry)
	if e.own != (logEntry{Time: e.own.Time, State: e.own.State}) {
		return e.json.encode(&e.own)
	}
	e.short = strconv.AppendInt(append(e.short[:0], `{"time":`...), e.own.Time, 10)
	e.short = append(append(e.short, `,"state":"`...), e.own.State...)
	return append(e.short, "\"}\n"...)
}

// encodeMessage returns the part of an entry that is its message's.
func (e *entryEncoder) encodeMessage(entry store.Entry) []byte {
	m := entry.Message
	text := e.shared.find(m, e.form)
	if text == nil {
		e.message = e.form.message(m)
		at := len(e.encoded)
		e.encoded = append(e.encoded, e.json.encode(&e.message)...)
		text = e.encoded[at:]
		e.shared.keep(m, e.form, text, entry.MessageSize)
	}
	e.messages[m] = text
	return text
}

// sharedMessages are messages as those who follow the log were shown them lately: most are
// of interest to several, who get them from the same memory. The zero value has none, and
// nil keeps none.
type sharedMessages struct {
	mu      sync.Mutex
	recent  map[sharedMessage][]byte // encoded
	earlier map[sharedMessage][]byte // which were recent before
	bytes   int                      // of recent, and of the messages it keeps alive
}

// sharedMessage is a message in a form.
type sharedMessage struct {
	message *posthaste.Message
	form    entryForm
}

// mostShared is how many bytes are recent, and as many may be earlier.
const mostShared = 2 << 20

// sharedAge is how old entries may be whose messages are shared: who reads earlier ones is
// catching up, and mostly the only one there.
const sharedAge = 10 * time.Second

// find returns an encoded message, nil if it is not there.
func (s *sharedMessages) find(m *posthaste.Message, form entryForm) []byte {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sharedMessage{m, form}
	if text, ok := s.recent[key]; ok {
		return text
	}
	return s.earlier[key]
}

// keep keeps a copy of an encoded message of a size, unless that is much together: the
// message stays in memory with it, however little of it is shown.
func (s *sharedMessages) keep(m *posthaste.Message, form entryForm, text []byte, size int) {
	size += len(text)
	if s == nil || size > mostShared/64 {
		return
	}
	kept := bytes.Clone(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes += size; s.bytes > mostShared || s.recent == nil {
		s.recent, s.earlier, s.bytes = map[sharedMessage][]byte{}, s.recent, size
	}
	s.recent[sharedMessage{m, form}] = kept
}
