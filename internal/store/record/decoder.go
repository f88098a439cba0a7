package record

import (
	"slices"
	"unsafe"

	"posthaste"
)

// Decoder decodes messages and responses into memory that it keeps, for those who read many
// of them and soon have done with all. The zero value is ready. It is for one goroutine.
type Decoder struct {
	messages  slots[posthaste.Message]
	responses slots[posthaste.Response]
}

// Message is DecodeMessage. What it returns is valid until Reset.
func (d *Decoder) Message(id posthaste.MessageID, user string, data []byte) (*posthaste.Message, error) {
	s := d.messages.next()
	s.value.ID, s.value.User = id, user
	return &s.value, decodeMessage(&s.value, &s.parts, data)
}

// Response is DecodeResponse. What it returns is valid until Reset.
func (d *Decoder) Response(data []byte) (*posthaste.Response, error) {
	s := d.responses.next()
	return &s.value, decodeResponse(&s.value, &s.parts, data)
}

// Reset ends the validity of all that was returned. Of the memory it keeps so many bytes at
// most for messages, and as many for responses.
func (d *Decoder) Reset(most int) {
	d.messages.reset(most)
	d.responses.reset(most)
}

// slots are values with their memory, some of them in use.
type slots[T any] struct {
	all  []*slot[T]
	used int
}

type slot[T any] struct {
	value T
	parts parts
}

func (s *slots[T]) next() *slot[T] {
	if s.used == len(s.all) {
		s.all = append(s.all, new(slot[T]))
	}
	s.used++
	return s.all[s.used-1]
}

// reset empties all slots, and keeps those that take so many bytes together.
func (s *slots[T]) reset(most int) {
	s.used = 0
	s.all = slices.DeleteFunc(s.all, func(s *slot[T]) bool {
		size := int(unsafe.Sizeof(*s)) + s.parts.size()
		if size > most {
			return true
		}
		most -= size
		s.value = *new(T)
		s.parts.forget()
		return false
	})
}

// size returns about how many bytes the memory takes.
func (p *parts) size() int {
	const perName = int(unsafe.Sizeof("") + unsafe.Sizeof([]string{})) // in a map, which may be half empty
	return cap(p.body) + cap(p.values)*(int(unsafe.Sizeof(""))+2*perName)
}

// forget leaves no text in the memory.
func (p *parts) forget() {
	clear(p.header)
	clear(p.values)
}
