package lsm

import (
	"sync"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// pageMemory is what a page of the log is made of: its entries, and the messages and responses
// that were read for it. As garbage it would be collected by threads for which deliveries wait,
// so a page that is given back leaves its memory to the next.
type pageMemory struct {
	entries  []store.Entry
	messages map[posthaste.MessageID]sizedMessage
	decoder  record.Decoder
	block    []eventRecord // scratch, for the log of one day after the other
}

// sizedMessage is a message with its store.MessageSize.
type sizedMessage struct {
	*posthaste.Message
	size int
}

var pageMemories = sync.Pool{New: func() any {
	return &pageMemory{messages: map[posthaste.MessageID]sizedMessage{}}
}}

// entryLists are lists in which the entries of pages are gathered that are not lent.
var entryLists = sync.Pool{New: func() any { return new([]store.Entry) }}

// newPageMemory returns memory for a page. If that is lent, it may be that of one before.
func newPageMemory(lent bool) *pageMemory {
	if lent {
		return pageMemories.Get().(*pageMemory)
	}
	memory := pageMemories.New().(*pageMemory)
	memory.entries = *entryLists.Get().(*[]store.Entry)
	return memory
}

// leave makes a list of entries that are in the memory, or in more of it, for somebody who
// will not give it back. It is as long as it has to be: to grow leaves more behind than that.
func (m *pageMemory) leave(entries []store.Entry) (own []store.Entry) {
	list := m.entries
	if cap(entries) > 0 {
		own = append(make([]store.Entry, 0, len(entries)), entries...)
		clear(entries)
		list = entries[:0]
	}
	m.entries = nil
	entryLists.Put(&list)
	return own
}

// release leaves the memory to a page to come. The entries are in it, or in more of it.
func (m *pageMemory) release(entries []store.Entry) {
	m.empty(entries)
	pageMemories.Put(m)
}

func (m *pageMemory) empty(entries []store.Entry) {
	clear(entries) // of messages that are in memory elsewhere, too
	if len(entries) > 0 {
		m.entries = entries[:0]
	}
	clear(m.messages)
	clear(m.block[:cap(m.block)])
	m.decoder.Release()
}
