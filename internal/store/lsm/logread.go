package lsm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/lsm/postings"
	"posthaste/internal/store/record"
)

// Events implements store.Log. The latest events are in memory while somebody follows the log.
func (s *Store) Events(_ context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	done, err := s.hold()
	if err != nil {
		return 0, false, err
	}
	defer done()
	query.High = min(query.High, s.visible()) // first: tail and snapshot have all up to there
	read := (*logReader).run
	if query.OldestFirst {
		if latest, ok := s.writer.tail.from(query.Low); ok {
			read = func(r *logReader) error { return r.readTail(latest) }
		}
	}
	snapshot := s.db.NewSnapshot()
	defer func() { _ = snapshot.Close() }()
	r := &logReader{
		reader:     snapshot,
		messages:   &envelopes{Reader: snapshot},
		user:       user,
		query:      query,
		visit:      visit,
		terms:      index.Events(&query.Filter),
		countsFrom: s.countsFrom,
		known:      map[posthaste.MessageID]store.Entry{},
		budget:     store.NewPageBudget(query.Bytes),
		passedOver: func(id posthaste.MessageID, err error) bool { return s.passedOver(user, id, err) },
	}
	err = errors.Join(read(r), r.messages.close())
	s.reads.add(r)
	if err != nil {
		return 0, false, fmt.Errorf("read log: %w", err)
	}
	return r.next, r.more, nil
}

// visible returns the position up to which all events are durable.
func (s *Store) visible() posthaste.Position { return posthaste.Position(s.writer.visible.Load()) }

// logReads adds up the work of queries.
type logReads struct{ indexBlocks, entries, returned atomic.Int64 }

func (l *logReads) add(r *logReader) {
	l.indexBlocks.Add(int64(r.seeks))
	l.entries.Add(int64(r.read))
	l.returned.Add(int64(r.visited))
}

func (l *logReads) sum() store.LogReads {
	return store.LogReads{IndexBlocks: l.indexBlocks.Load(), Entries: l.entries.Load(), Returned: l.returned.Load()}
}

// logReader answers one query, day by day.
type logReader struct {
	reader     pebble.Reader
	messages   *envelopes
	user       string
	query      store.EventQuery
	terms      [][]store.Term
	countsFrom int // see likelyHours
	visit      func(*store.Entry) error
	known      map[posthaste.MessageID]store.Entry // messages read so far: most have several events on a page
	block      []index.StoredEvent                 // scratch, for the log of one day after the other
	entry      store.Entry                         // that is visited
	visited    int
	more       bool // what the call returns
	next       posthaste.Position
	budget     store.PageBudget
	passedOver func(posthaste.MessageID, error) bool

	seeks, scanned int
	read           int // events that were decoded
}

func (r *logReader) direction() postings.Direction { return postings.Direction(r.query.OldestFirst) }

// run reads the days between Low and High, nearest first: the first of them, and those behind
// it that may have what matches.
func (r *logReader) run() (err error) {
	first, last, ok, err := r.days()
	if err != nil || !ok {
		return err
	}
	dayIndex := r.openDayIndex(first, last)
	defer func() { err = errors.Join(err, dayIndex.close()) }()
	d := last
	if r.direction() == postings.Ascending {
		d = first
	}
	for ok {
		if err := r.readDay(d); err != nil || r.more {
			return err
		}
		if d, ok, err = dayIndex.next(d); err != nil {
			return err
		}
	}
	return nil
}

func (r *logReader) openDayIndex(first, last day) *dayIndexReader {
	terms := slices.Clone(r.terms)
	if len(terms) == 0 {
		terms = [][]store.Term{{index.Any}}
	}
	return &dayIndexReader{
		reader: r.reader, user: r.user, terms: terms,
		first: first, last: last,
		direction: r.direction(), seeks: &r.seeks,
	}
}

// readTail reads events that are in memory.
func (r *logReader) readTail(latest []store.Entry) error {
	for i := range latest {
		r.read++
		entry := &latest[i]
		if entry.Position > r.query.High {
			return nil
		}
		if entry.Message.User != r.user || !r.query.Filter.MatchesEvent(&entry.Event, entry.Message) {
			continue
		}
		add := r.add
		if entry.Message.Run != nil { // its body is in the list of its run
			add = func(entry store.Entry) (bool, error) { return r.consider(entry.Event) }
		}
		if full, err := add(*entry); full || err != nil {
			return err
		}
	}
	return nil
}

// days returns the first and the last day within the query's range that are
// stored.
func (r *logReader) days() (first, last day, ok bool, err error) {
	since, until := r.query.Since(), r.query.High.Time()
	if r.query.Low > r.query.High || since.After(until) {
		return 0, 0, false, nil
	}
	iter, err := r.reader.NewIter(&pebble.IterOptions{
		LowerBound: binary.BigEndian.AppendUint16([]byte{kindSegment}, uint16(dayOf(since))),
		UpperBound: store.PrefixEnd(binary.BigEndian.AppendUint16([]byte{kindSegment}, uint16(dayOf(until)))),
	})
	if err != nil {
		return 0, 0, false, err
	}
	if ok = iter.First(); ok {
		first = day(binary.BigEndian.Uint16(iter.Key()[1:]))
		ok = iter.Last()
	}
	if ok {
		last = day(binary.BigEndian.Uint16(iter.Key()[1:]))
	}
	return first, last, ok, errors.Join(iter.Error(), iter.Close())
}

// readDay visits a day's matching events.
func (r *logReader) readDay(d day) error {
	blocks, err := postings.NewBlocks(r.reader, appendSegment(nil, d, segmentLog, r.user))
	if err != nil {
		return err
	}
	log := &dayLog{Blocks: blocks, direction: r.direction(), events: r.block[:0], read: &r.read}
	if len(r.terms) == 0 {
		err = r.scan(log, d)
	} else {
		err = r.search(log, d)
	}
	r.block = log.events
	return errors.Join(err, blocks.Close())
}

// within returns the part of the query's range that lies in a day.
func (r *logReader) within(d day) (low, high posthaste.Position) {
	start := func(d int64) posthaste.Position { return posthaste.FirstPosition(time.UnixMilli(d * dayMS)) }
	return max(r.query.Low, start(int64(d))), min(r.query.High, start(int64(d)+1)-1)
}

// scan walks through all events of a day.
func (r *logReader) scan(log *dayLog, d day) error {
	low, high := r.within(d)
	p, ok := high, true
	if r.direction() == postings.Ascending {
		p = low
	}
	for ok {
		event, found, err := log.nearest(p)
		if err != nil || !found || event.Position < low || event.Position > high {
			return err
		}
		if full, err := r.consider(event); full || err != nil {
			return err
		}
		p, ok = r.direction().After(event.Position)
	}
	return nil
}

// search walks through the events of a day that the index proposes.
func (r *logReader) search(log *dayLog, d day) error {
	prefixes := make([][][]byte, len(r.terms))
	for i, terms := range r.terms {
		prefixes[i] = each(terms, func(t store.Term) []byte { return appendPostingPrefix(nil, d, r.user, t) })
	}
	in, err := postings.Intersect(r.reader, prefixes, r.direction(), false, &r.seeks)
	if err != nil {
		return err
	}
	if store.CountsTell(&r.query.Filter) {
		in.Add(&likelyHours{day: d, user: r.user, filter: &r.query.Filter, direction: r.direction(), seeks: &r.seeks, from: r.countsFrom, reader: r.reader})
	}
	low, high := r.within(d)
	next, more, err := in.Walk(low, high, func(at posthaste.Position) (full bool, err error) {
		event, found, err := log.nearest(at)
		if err != nil || !found || event.Position != at {
			return false, err
		}
		return r.consider(event)
	})
	if more {
		r.stop(next)
	}
	return errors.Join(err, in.Close())
}

// consider visits an event if it matches. It reports whether the page
// has come to its end before that event.
func (r *logReader) consider(event posthaste.Event) (full bool, err error) {
	if r.scanned++; r.scanned > postings.MaxScan {
		r.stop(event.Position)
		return true, nil
	}
	if !r.query.Filter.MatchesState(event.State) {
		return false, nil // and its message need not be read
	}
	entry, err := r.withMessage(event)
	if r.passedOver(event.MessageID, err) || errors.Is(err, store.ErrNotFound) {
		return false, nil // it is damaged, or retention is removing the message
	}
	if err != nil || !r.query.Filter.MatchesEvent(&entry.Event, entry.Message) {
		return false, err
	}
	return r.add(entry)
}

// add visits an entry that matches. It reports whether the page has come to its end before
// that entry.
func (r *logReader) add(entry store.Entry) (full bool, err error) {
	if r.visited == r.query.Limit {
		r.stop(entry.Position)
		return true, nil
	}
	if err := r.attachResponse(&entry.Event); err != nil {
		return false, err
	}
	if !r.budget.Take(entry.Size()) {
		r.stop(entry.Position)
		return true, nil
	}
	r.visited++
	r.entry = entry
	return false, r.visit(&r.entry)
}

func (r *logReader) stop(at posthaste.Position) {
	r.more, r.next = true, at
}

// withMessage returns an event with its message.
func (r *logReader) withMessage(event posthaste.Event) (store.Entry, error) {
	entry, known := r.known[event.MessageID]
	if !known {
		m, err := r.readMessage(event.MessageID)
		if err != nil {
			return store.Entry{}, err
		}
		entry = store.NewEntry(posthaste.Event{}, m)
		r.known[event.MessageID] = entry
	}
	entry.Event = event
	return entry, nil
}

func (r *logReader) readMessage(id posthaste.MessageID) (*posthaste.Message, error) {
	if !r.query.Bare {
		return readMessage(r.messages, r.user, id)
	}
	m, _, err := readEnvelope(r.messages, r.user, id)
	return m, err
}

// envelopes reads the envelopes of many messages. One iterator for those of a day costs less than
// to look for each in all files.
type envelopes struct {
	pebble.Reader
	iter   *pebble.Iterator // nil until the first one is read
	prefix []byte           // of the day's envelopes
}

// Get implements pebble.Reader.
func (e *envelopes) Get(key []byte) (value []byte, closer io.Closer, err error) {
	if key[0] != kindSegment || key[3] != segmentEnvelope {
		return e.Reader.Get(key)
	}
	prefix := key[:len(key)-len(posthaste.MessageID{})]
	if !bytes.Equal(prefix, e.prefix) {
		if err := e.close(); err != nil {
			return nil, nil, err
		}
		if e.iter, err = e.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: store.PrefixEnd(prefix)}); err != nil {
			return nil, nil, err
		}
		e.prefix = append(e.prefix[:0], prefix...)
	}
	if e.iter.SeekGE(key) && bytes.Equal(e.iter.Key(), key) {
		return e.iter.Value(), kept{}, nil
	}
	return nil, nil, cmp.Or(e.iter.Error(), pebble.ErrNotFound)
}

// kept closes nothing.
type kept struct{}

func (kept) Close() error { return nil }

func (e *envelopes) close() error {
	if e.iter == nil {
		return nil
	}
	err := e.iter.Close()
	e.iter, e.prefix = nil, nil
	return err
}

// attachResponse reads the response that belongs to an ERROR event, if any, unless it
// is there already.
func (r *logReader) attachResponse(event *posthaste.Event) error {
	if event.State != posthaste.StateError || event.Response != nil {
		return nil
	}
	key := appendPositionKey(nil, segmentResponse, r.user, event.Position)
	err := get(r.reader, key, func(data []byte) (err error) {
		event.Response, err = record.DecodeResponse(data)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// dayLog reads the log blocks of one day.
type dayLog struct {
	*postings.Blocks
	direction postings.Direction
	events    []index.StoredEvent // of the present block, ascending
	read      *int                // counts work: events that were decoded
}

// nearest returns the nearest event at or beyond p, which moves in the direction.
func (l *dayLog) nearest(p posthaste.Position) (event posthaste.Event, found bool, err error) {
	at, found := l.inBlock(p)
	if !found {
		l.Find(p, l.direction, l.adjoins(p), func() bool {
			if l.events, err = index.SplitBlock(l.events[:0], l.First(), l.Value()); err == nil {
				at, found = l.inBlock(p)
			}
			return found || err != nil
		})
	}
	if err = errors.Join(err, l.Err()); err != nil || !found {
		return posthaste.Event{}, false, err
	}
	*l.read++
	event, err = l.events[at].Decode()
	return event, true, err
}

func (l *dayLog) inBlock(p posthaste.Position) (at int, found bool) {
	return postings.Nearest(l.direction, l.events, p, func(e index.StoredEvent, p posthaste.Position) int { return cmp.Compare(e.Position, p) })
}

// adjoins reports whether p lies next to the present block.
func (l *dayLog) adjoins(p posthaste.Position) bool {
	if len(l.events) == 0 {
		return false
	}
	edge := l.events[0].Position
	if l.direction == postings.Ascending {
		edge = l.events[len(l.events)-1].Position
	}
	next, ok := l.direction.After(edge)
	return ok && p == next
}
