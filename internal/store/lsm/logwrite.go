package lsm

import (
	"cmp"
	"encoding/binary"
	"slices"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// The log is written in blocks: the events that one commit adds for one user lie
// together under the position of the first, and so do, for each term, the
// positions of its events. A busy store writes large commits, so its hot terms
// cost a byte or two an event; an idle one has blocks of one.

// Bounds of a log block, so that reading one event never means reading much.
const (
	maxBlockEvents = 64
	maxBlockBytes  = 16 << 10
)

// logWriter collects the events of a commit. The zero value is ready.
type logWriter struct {
	blocks   map[blockID]*logBlock
	postings map[postingID]*positions
	terms    index.EventTerms
}

type blockID struct {
	user string
	day  day
}

type postingID struct {
	blockID
	term store.Term
}

// logBlock is a growing log block, and those of the same commit that are full.
type logBlock struct {
	first, last posthaste.Position
	events      int // in data
	total       int // events, in full blocks too
	data        []byte
	full        []fullBlock
}

type fullBlock struct {
	first posthaste.Position
	data  []byte
}

// positions is a growing posting block.
type positions struct {
	first, last posthaste.Position
	data        []byte
}

// add appends an event, whose position is above all earlier ones.
func (w *logWriter) add(m *posthaste.Message, event posthaste.Event) {
	if w.blocks == nil {
		w.blocks = map[blockID]*logBlock{}
		w.postings = map[postingID]*positions{}
	}
	id := blockID{m.User, dayOf(event.Position.Time())}
	block := w.blocks[id]
	if block == nil {
		block = &logBlock{}
		w.blocks[id] = block
	}
	block.add(event)
	for _, t := range w.terms.Of(m, event.State) {
		list := w.postings[postingID{id, t}]
		if list == nil {
			list = &positions{}
			w.postings[postingID{id, t}] = list
		}
		list.add(event.Position)
	}
}

// empty drops everything that was collected.
func (w *logWriter) empty() {
	clear(w.blocks)
	clear(w.postings)
	w.terms.Forget()
}

// flush writes everything that was collected.
func (w *logWriter) flush(dayIndex *dayIndexWriter, set func(key, value []byte)) {
	var key []byte
	for id, block := range w.blocks {
		dayIndex.note(postingID{id, index.Any}, set)
		block.seal()
		for _, b := range block.full {
			key = appendPositionKey(key[:0], segmentLog, id.user, b.first)
			set(key, b.data)
		}
	}
	for id, list := range w.postings {
		dayIndex.note(id, set)
		key = appendPostingPrefix(key[:0], id.day, id.user, id.term)
		key = binary.BigEndian.AppendUint64(key, uint64(list.first))
		set(key, list.data)
	}
}

func (b *logBlock) add(event posthaste.Event) {
	if b.events == maxBlockEvents || len(b.data) >= maxBlockBytes {
		b.seal()
	}
	if b.events == 0 {
		b.first, b.last = event.Position, event.Position
	}
	b.data = binary.AppendUvarint(b.data, uint64(event.Position-b.last))
	b.data = append(b.data, event.MessageID[:]...)
	body := record.AppendEvent(nil, &event)
	b.data = binary.AppendUvarint(b.data, uint64(len(body)))
	b.data = append(b.data, body...)
	b.last = event.Position
	b.events++
	b.total++
}

func (b *logBlock) seal() {
	if b.events > 0 {
		b.full = append(b.full, fullBlock{b.first, b.data})
		b.data, b.events = nil, 0
	}
}

func (p *positions) add(position posthaste.Position) {
	switch {
	case p.first == 0:
		p.first, p.last = position, position
		return
	case p.last == position: // two terms with one hash
		return
	}
	p.data = binary.AppendUvarint(p.data, uint64(position-p.last))
	p.last = position
}

// each returns what of makes of each value.
func each[T, U any](values []T, of func(T) U) []U {
	all := make([]U, len(values))
	for i, value := range values {
		all[i] = of(value)
	}
	return all
}

// eventRecord is an event of a log block as it is stored.
type eventRecord struct {
	position posthaste.Position
	id       posthaste.MessageID
	data     []byte // of the block
}

func (r *eventRecord) decode() (posthaste.Event, error) {
	event, err := record.DecodeEvent(r.data)
	event.Position, event.MessageID = r.position, r.id
	return event, err
}

// splitBlock appends the events of a log block, which is never empty, without decoding
// them: most are passed over. They are good as long as the block is.
func splitBlock(events []eventRecord, first posthaste.Position, data []byte) ([]eventRecord, error) {
	position := first
	for len(data) > 0 {
		delta, n := binary.Uvarint(data)
		if n <= 0 || len(data) < n+len(posthaste.MessageID{}) {
			return nil, errCorrupt
		}
		position += posthaste.Position(delta)
		id := posthaste.MessageID(data[n:])
		data = data[n+len(id):]
		size, n := binary.Uvarint(data)
		if n <= 0 || uint64(len(data)-n) < size {
			return nil, errCorrupt
		}
		events = append(events, eventRecord{position, id, data[n : n+int(size)]})
		data = data[n+int(size):]
	}
	if len(events) == 0 {
		return nil, errCorrupt
	}
	return events, nil
}

// decodeBlock appends the events of a log block.
func decodeBlock(events []posthaste.Event, first posthaste.Position, data []byte) ([]posthaste.Event, error) {
	records, err := splitBlock(nil, first, data)
	for i := range records {
		event, wrong := records[i].decode()
		if wrong != nil {
			return nil, wrong
		}
		events = append(events, event)
	}
	return events, err
}

// searchRecords finds the index of the event at p, or of the first one behind it.
func searchRecords(events []eventRecord, p posthaste.Position) (at int, exact bool) {
	return slices.BinarySearchFunc(events, p, func(e eventRecord, p posthaste.Position) int {
		return cmp.Compare(e.position, p)
	})
}
