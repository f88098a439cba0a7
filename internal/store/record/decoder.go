package record

import (
	"sync"

	"posthaste"
)

// Decoder decodes messages and responses into memory that was used before, for those who
// read many and soon have done with all of them. The zero value is ready. It is for one
// goroutine.
type Decoder struct {
	messages  []*slot[posthaste.Message]
	responses []*slot[posthaste.Response]
}

// slot is a value with the memory of its parts.
type slot[T any] struct {
	value T
	parts parts
}

var (
	messageSlots  = sync.Pool{New: func() any { return new(slot[posthaste.Message]) }}
	responseSlots = sync.Pool{New: func() any { return new(slot[posthaste.Response]) }}
)

// Message is DecodeMessage. What it returns is valid until Release.
func (d *Decoder) Message(id posthaste.MessageID, user string, data []byte) (*posthaste.Message, error) {
	s := messageSlots.Get().(*slot[posthaste.Message])
	d.messages = append(d.messages, s)
	s.value.ID, s.value.User = id, user
	if err := decodeMessage(&s.value, &s.parts, data); err != nil {
		return nil, err
	}
	return &s.value, nil
}

// Response is DecodeResponse. What it returns is valid until Release.
func (d *Decoder) Response(data []byte) (*posthaste.Response, error) {
	s := responseSlots.Get().(*slot[posthaste.Response])
	d.responses = append(d.responses, s)
	if err := decodeResponse(&s.value, &s.parts, data); err != nil {
		return nil, err
	}
	return &s.value, nil
}

// Release ends the validity of all that was returned, and lets every Decoder use its memory.
func (d *Decoder) Release() {
	d.messages = release(d.messages, &messageSlots)
	d.responses = release(d.responses, &responseSlots)
}

// release empties slots and gives them to a pool. It returns the list without any.
func release[T any](slots []*slot[T], pool *sync.Pool) []*slot[T] {
	for _, s := range slots {
		if !s.parts.usual() {
			continue
		}
		s.value = *new(T)
		s.parts.forget()
		pool.Put(s)
	}
	clear(slots)
	return slots[:0]
}

// What is kept of the memory of one message or response: most have less.
const (
	mostKeptBody   = 8 << 10 // bytes
	mostKeptValues = 64      // of a header
)

// usual reports whether the memory is worth keeping: a few messages have much more than most.
func (p *parts) usual() bool {
	return cap(p.body) <= mostKeptBody && cap(p.values) <= mostKeptValues
}

// forget leaves nothing of the header in the memory, and no length to the body.
func (p *parts) forget() {
	p.body = p.body[:0]
	clear(p.header)
	clear(p.values)
}
