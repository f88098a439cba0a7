package index

import (
	"encoding/binary"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// The log is written in blocks: the events that one commit adds for one user lie together, and so
// do the positions of those with one term. A busy user's commits are large, so its frequent terms
// cost a byte or two an event; an idle user has blocks of one.

// Bounds of a block, so that reading one event stays cheap, and of a posting, so that it fits an
// index page.
const (
	MaxBlockEvents  = 64
	maxBlockBytes   = 16 << 10
	maxPostingBytes = 1500
)

// MaxSpan bounds where to search for what holds a position: blocks and postings end less than this
// after they begin, and on the same day.
const MaxSpan = 1 << 32

// ErrDamaged is what damaged blocks and postings are refused with.
var ErrDamaged = errors.New("index: a block of the log is damaged")

// Block is consecutive events of a user on one day.
type Block struct {
	User   string
	First  posthaste.Position
	Events int
	Data   []byte
	last   posthaste.Position
}

// Posting is the positions of a user's events with a term on one day.
type Posting struct {
	User  string
	Term  store.Term
	First posthaste.Position
	Gaps  []byte // not nil
	last  posthaste.Position
}

// LogWriter collects the events of a commit. The zero value is ready.
type LogWriter struct {
	Blocks   []Block
	Postings []Posting
	Counts   []Counts // in the order of their first events

	open    map[string]int    // the block that may grow, by user
	growing map[postingOf]int // the posting that may grow
	counted map[countOf]int   // the counts that may grow
	terms   EventTerms
	stored  []byte // scratch
	series  []byte // scratch
}

type postingOf struct {
	user string
	term store.Term
}

// Add adds an event at its position, which is above all of its user's, and returns how many bytes
// it takes in its block.
func (w *LogWriter) Add(m *posthaste.Message, e *posthaste.Event) (size int) {
	w.begin()
	today := dayOf(e.Position)
	w.stored = record.AppendEvent(w.stored[:0], e)
	size = w.block(m.User, e.Position, today).add(e, w.stored)
	for _, t := range w.terms.Of(m, e) {
		w.post(postingOf{m.User, t}, e.Position, today)
	}
	w.count(m, e)
	return size
}

// begin makes the zero value ready.
func (w *LogWriter) begin() {
	if w.open == nil {
		w.open, w.growing, w.counted = map[string]int{}, map[postingOf]int{}, map[countOf]int{}
	}
}

// dayOf returns the first position of a position's day.
func dayOf(at posthaste.Position) posthaste.Position {
	return posthaste.FirstPosition(at.Time().UTC().Truncate(24 * time.Hour))
}

// Reset drops what was collected. It keeps the memory, except that of blocks and postings.
func (w *LogWriter) Reset() {
	clear(w.Blocks)
	clear(w.Postings)
	clear(w.Counts)
	w.Blocks, w.Postings, w.Counts = w.Blocks[:0], w.Postings[:0], w.Counts[:0]
	clear(w.open)
	clear(w.growing)
	clear(w.counted)
	w.terms.Forget()
}

// block returns the block for an event.
func (w *LogWriter) block(user string, at, today posthaste.Position) *Block {
	if i, open := w.open[user]; open {
		if b := &w.Blocks[i]; b.Events < MaxBlockEvents && len(b.Data) < maxBlockBytes && b.First >= today && at-b.First < MaxSpan {
			return b
		}
	}
	w.open[user] = len(w.Blocks)
	w.Blocks = append(w.Blocks, Block{User: user, First: at, last: at})
	return &w.Blocks[len(w.Blocks)-1]
}

// add appends an event: how far it is from the one before, the id of its message, and its record
// after the length of that.
func (b *Block) add(e *posthaste.Event, stored []byte) (size int) {
	before := len(b.Data)
	b.Data = binary.AppendUvarint(b.Data, uint64(e.Position-b.last))
	b.Data = append(b.Data, e.MessageID[:]...)
	b.Data = binary.AppendUvarint(b.Data, uint64(len(stored)))
	b.Data = append(b.Data, stored...)
	b.last = e.Position
	b.Events++
	return len(b.Data) - before
}

// post adds a position to those of a term.
func (w *LogWriter) post(of postingOf, at, today posthaste.Position) {
	if i, growing := w.growing[of]; growing {
		if p := &w.Postings[i]; len(p.Gaps) < maxPostingBytes && p.First >= today && at-p.First < MaxSpan {
			if at > p.last { // else two terms of an event have one hash
				p.Gaps = binary.AppendUvarint(p.Gaps, uint64(at-p.last))
				p.last = at
			}
			return
		}
	}
	w.growing[of] = len(w.Postings)
	w.Postings = append(w.Postings, Posting{User: of.user, Term: of.term, First: at, Gaps: []byte{}, last: at})
}

// StoredEvent is an event of a block, which it shares its memory with.
type StoredEvent struct {
	Position  posthaste.Position
	MessageID posthaste.MessageID
	stored    []byte
}

// Decode returns the event, without its response.
func (e *StoredEvent) Decode() (posthaste.Event, error) {
	event, err := record.DecodeEvent(e.stored)
	event.Position, event.MessageID = e.Position, e.MessageID
	return event, err
}

// SplitBlock appends the events of a block, in ascending order, without decoding them: most are
// passed over. There is at least one.
func SplitBlock(events []StoredEvent, first posthaste.Position, block []byte) ([]StoredEvent, error) {
	if len(block) == 0 {
		return nil, ErrDamaged
	}
	at := first
	for begun := false; len(block) > 0; begun = true {
		gap, n := binary.Uvarint(block)
		next := at + posthaste.Position(gap)
		if n <= 0 || begun != (gap > 0) || next < at || len(block) < n+len(posthaste.MessageID{}) {
			return nil, ErrDamaged
		}
		at = next
		id := posthaste.MessageID(block[n:])
		block = block[n+len(id):]
		size, n := binary.Uvarint(block)
		if n <= 0 || uint64(len(block)-n) < size {
			return nil, ErrDamaged
		}
		events = append(events, StoredEvent{at, id, block[n : n+int(size)]})
		block = block[n+int(size):]
	}
	return events, nil
}

// DecodeBlock returns those events of a block that are wanted, in ascending order and without
// responses. A nil wanted wants all.
func DecodeBlock(first posthaste.Position, block []byte, wanted func(posthaste.Position) bool) (events []posthaste.Event, err error) {
	var buffer [MaxBlockEvents]StoredEvent
	stored, err := SplitBlock(buffer[:0], first, block)
	for i := range stored {
		if wanted != nil && !wanted(stored[i].Position) {
			continue
		}
		event, err := stored[i].Decode()
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, err
}

// DecodePosting appends all positions of a posting, in ascending order.
func DecodePosting(positions []posthaste.Position, first posthaste.Position, gaps []byte) ([]posthaste.Position, error) {
	positions = append(positions, first)
	for at := first; len(gaps) > 0; {
		gap, n := uint64(gaps[0]), 1
		if gap >= 0x80 { // most are smaller
			gap, n = binary.Uvarint(gaps)
		}
		next := at + posthaste.Position(gap)
		if n <= 0 || next <= at {
			return positions, ErrDamaged
		}
		positions, gaps, at = append(positions, next), gaps[n:], next
	}
	return positions, nil
}
