package eventlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// How long a fanout lets entries gather after it has read to the end: restTime for each fanout that
// runs, because any commit may wake them all, and at least as long as it has read. The first entry
// after a silence does not wait.
const (
	restTime    = 10 * time.Millisecond
	longestRest = 250 * time.Millisecond
)

// queueBytes is how much may wait for one follower, with entryOverhead for each entry.
const (
	queueBytes    = 128 << 10
	entryOverhead = 256
)

// fanoutKey says what a fanout reads. Filters of its followers select from that.
type fanoutKey struct {
	user   string
	ofRuns bool // as in posthaste.Filter
	bare   bool // as in store.EventQuery
}

// fanout reads the new entries of a user's log once for all its followers. It finds those that an
// entry may concern by a term of their filters, and puts the entry into the queues of those that
// it matches. It waits for none of them: one whose queue is full reads from the store again.
//
// It runs while it has followers.
type fanout struct {
	log  *Log
	key  fanoutKey
	stop context.CancelFunc

	mu     sync.Mutex
	next   posthaste.Position // all entries before it were offered
	size   int                // followers
	queues map[store.Term]map[*queue]struct{}
}

// queue holds entries for one follower. Its fanout's lock guards what changes.
type queue struct {
	fanout *fanout
	terms  []store.Term // of which each matching entry has one
	query  store.EventQuery
	first  posthaste.Position // the queue gets what matches from there on
	ready  chan struct{}      // receives after entries were added, or it was closed

	entries []store.Entry
	bytes   int
	next    posthaste.Position // of a closed queue: it lacks entries from there on
	closed  bool
	err     error // why the fanout ended
}

// join adds a follower who has read all entries up to end and before its query's Low.
func (l *Log) join(user string, query *store.EventQuery, end posthaste.Position) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := fanoutKey{user, query.Filter.OfRuns, query.Bare}
	f := l.fanouts[key]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &fanout{log: l, key: key, stop: stop, next: end + 1, queues: map[store.Term]map[*queue]struct{}{}}
		l.fanouts[key] = f
		go f.run(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q := &queue{fanout: f, terms: []store.Term{index.Any}, query: *query, first: max(f.next, query.Low), ready: make(chan struct{}, 1)}
	if lists := index.Events(&query.Filter); len(lists) > 0 {
		q.terms = lists[0]
	}
	f.size++
	for _, term := range q.terms {
		if f.queues[term] == nil {
			f.queues[term] = map[*queue]struct{}{}
		}
		f.queues[term][q] = struct{}{}
	}
	return q
}

// leave removes a follower. The fanout ends with the last one.
func (l *Log) leave(q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := q.fanout
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, term := range q.terms {
		if delete(f.queues[term], q); len(f.queues[term]) == 0 {
			delete(f.queues, term)
		}
	}
	if f.size--; f.size == 0 {
		f.end()
	}
}

// end makes the next follower begin another fanout. The log's lock is held.
func (f *fanout) end() {
	f.stop()
	if f.log.fanouts[f.key] == f {
		delete(f.log.fanouts, f.key)
	}
}

// run reads until the last follower has left, or reading fails.
func (f *fanout) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		grown, err := f.readOnce(ctx)
		if err != nil {
			f.fail(fmt.Errorf("follow log: %w", err))
			return
		}
		if grown == nil {
			continue
		}
		ended := time.Now()
		select {
		case <-grown:
		case <-ctx.Done():
			return
		}
		rest := f.log.rest(ended.Sub(began)) - time.Since(ended)
		if rest <= 0 {
			continue
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return
		}
	}
}

// rest returns how long a fanout rests whose read took so long.
func (l *Log) rest(took time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(max(time.Duration(len(l.fanouts))*restTime, took), longestRest)
}

// readOnce offers the next page. grown is closed when there is more, nil if there is already.
func (f *fanout) readOnce(ctx context.Context) (grown <-chan struct{}, err error) {
	end, grown, err := f.log.store.Watch(ctx, f.key.user)
	if err != nil {
		return nil, err
	}
	query := store.EventQuery{
		Filter: posthaste.Filter{OfRuns: f.key.ofRuns}, Bare: f.key.bare,
		Low: f.next, High: end, OldestFirst: true, Limit: pageSize, Bytes: pieceBytes,
	}
	page, err := store.ReadEvents(ctx, f.log.store, f.key.user, query)
	if err != nil {
		return nil, err
	}
	if page.More {
		grown = nil
	} else {
		page.Next = max(f.next, end+1)
	}
	f.offer(page.Entries, page.Next)
	return grown, nil
}

// offer puts entries into the queues that they belong in.
func (f *fanout) offer(entries []store.Entry, next posthaste.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var terms index.EventTerms
	for i := range entries {
		entry := &entries[i]
		for q := range f.queues[index.Any] {
			q.offer(entry)
		}
		for _, term := range terms.Of(entry.Message, &entry.Event) {
			for q := range f.queues[term] {
				q.offer(entry)
			}
		}
	}
	f.next = next
}

// offer adds an entry if it matches and is not there yet: it may have several of the terms.
func (q *queue) offer(entry *store.Entry) {
	last := len(q.entries) - 1
	if q.closed || entry.Position < q.first || entry.Position > q.query.High ||
		last >= 0 && q.entries[last].Position == entry.Position || !q.query.Filter.MatchesEvent(&entry.Event, entry.Message) {
		return
	}
	size := entry.Size() + entryOverhead
	if q.bytes+size > queueBytes {
		q.closed, q.next = true, entry.Position
	} else {
		q.entries, q.bytes = append(q.entries, *entry), q.bytes+size
	}
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// fail ends the fanout with an error for all its followers.
func (f *fanout) fail(err error) {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
	for _, queues := range f.queues {
		for q := range queues {
			q.err = err
			q.signal()
		}
	}
}

// take removes and returns what waits, and the position before which nothing is missing from what
// was taken so far. A queue that is closed gets nothing more.
func (q *queue) take() (entries []store.Entry, next posthaste.Position, closed bool, err error) {
	q.fanout.mu.Lock()
	defer q.fanout.mu.Unlock()
	entries, q.entries, q.bytes = q.entries, nil, 0
	next = q.fanout.next
	if q.closed {
		next = q.next
	}
	return entries, next, q.closed, q.err
}

// offered returns the position before which everything was offered, 0 while something waits.
func (q *queue) offered() posthaste.Position {
	q.fanout.mu.Lock()
	defer q.fanout.mu.Unlock()
	if len(q.entries) > 0 || q.closed || q.err != nil {
		return 0
	}
	return q.fanout.next
}
