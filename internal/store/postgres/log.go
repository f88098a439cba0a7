package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Bounds of one page. A query that reaches one returns what it has, and where to continue.
const (
	maxScan      = 20_000 // events looked at
	maxPageBytes = store.PageBytes
)

// What one round trip reads: at first, and at most.
const (
	blocksAtLeast  = 4
	blocksFirst    = 32
	windowAtMost   = 4096
	postingsFirst  = 32
	postingsAtMost = 1024
)

func direction(oldestFirst bool) string {
	if oldestFirst {
		return "ASC"
	}
	return "DESC"
}

// beyond returns where a page continues that ended at a position.
func beyond(p posthaste.Position, oldestFirst bool) posthaste.Position {
	switch {
	case oldestFirst:
		return p + 1
	case p == 0:
		return 0
	default:
		return p - 1
	}
}

// afterBlock returns where a scan continues after a block.
func afterBlock(block []posthaste.Event, oldestFirst bool) posthaste.Position {
	end := block[0]
	if oldestFirst {
		end = block[len(block)-1]
	}
	return beyond(end.Position, oldestFirst)
}

// Events implements store.Log. Whatever can still be committed has higher positions than what
// is committed, so all of that may be shown.
func (s *Store) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	page, err := read(ctx, s, func(ctx context.Context, q querier) (store.EventPage, error) {
		query.Low = max(query.Low, posthaste.FirstPosition(query.Since()))
		r := &logReader{ctx: ctx, q: q, store: s, user: user, query: query, budget: store.NewPageBudget(query.Bytes)}
		err := r.run()
		s.setAside.add(r.unreadable, s.logger)
		return r.page, err
	})
	if err != nil {
		return 0, false, err
	}
	return page.Visit(visit) // the connection is free again
}

// logReader runs one query.
type logReader struct {
	ctx    context.Context
	q      querier
	store  *Store
	user   string
	query  store.EventQuery
	page   store.EventPage
	budget store.PageBudget

	scanned    int
	unreadable unreadableError // messages that were left out
}

func (r *logReader) run() error {
	if r.query.Low > r.query.High {
		return nil
	}
	q := index.Events(&r.query.Filter)
	if len(q) == 0 {
		return r.scan()
	}
	indexed, err := readIndexed(r.ctx, r.q, r.user)
	switch {
	case err != nil:
		return err
	case indexed.Left && int64(r.query.Low) > indexed.First:
		return r.scan() // as by those who follow the log
	case indexed.Left:
		if err := r.store.indexLogs(r.ctx, []string{r.user}); err != nil {
			return err
		}
	}
	// Postings are read by several statements: oldest first, one could show an event after one that an
	// earlier statement missed, so events committed from now on are left out.
	if r.query.OldestFirst {
		r.query.High = min(r.query.High, posthaste.Position(indexed.End))
	}
	return r.search(q)
}

// search reads the events that the postings propose.
func (r *logReader) search(q [][]store.Term) error {
	fields := make([]*fieldList, len(q))
	for i, terms := range q {
		fields[i] = r.newFieldList(terms)
	}
	if err := r.load(fields...); err != nil {
		return err
	}
	leads, begins := r.rarest(fields), r.begins(fields)
	s := &search{leads: fields[leads], window: r.query.Limit + 1}
	for i, f := range fields {
		if i != leads {
			s.others = append(s.others, condition{f.terms, f.frequency(begins)})
		}
	}
	slices.SortFunc(s.others, func(a, b condition) int { return cmp.Compare(len(a.terms), len(b.terms)) }) // the cheapest first
	for more := true; more && !r.page.More; {
		var passing []posthaste.Position
		var err error
		if passing, more, err = r.propose(s); err != nil {
			return err
		}
		if err := r.show(passing); err != nil {
			return err
		}
		if more && r.scanned >= maxScan && !r.page.More {
			r.stop(beyond(s.last, r.query.OldestFirst))
		}
	}
	return nil
}

// search is the state of a search.
type search struct {
	leads  *fieldList
	others []condition
	window int // how many positions are looked at together
	last   posthaste.Position
	likely int64 // the hour that was found by counts last
}

// condition is that an event has one of some terms.
type condition struct {
	terms     []store.Term
	frequency float64 // how many postings these have for each unit of positions, about
}

// propose returns the next positions that have a term of each field: enough for the page,
// unless there are no more or maxScan is reached.
func (r *logReader) propose(s *search) (passing []posthaste.Position, more bool, err error) {
	for len(passing) <= r.query.Limit-len(r.page.Entries) && r.scanned < maxScan {
		next, err := r.take(s.leads, s.window)
		if err != nil || len(next) == 0 {
			return passing, false, err
		}
		s.last = next[len(next)-1]
		r.scanned += len(next)
		for _, other := range s.others {
			if next, err = r.passing(next, other); err != nil {
				return nil, false, err
			}
		}
		passing = append(passing, next...)
		s.window = min(2*s.window, windowAtMost)
		if len(next) == 0 {
			if more, err := r.skipUnlikely(s); !more || err != nil {
				return passing, false, err
			}
		}
	}
	return passing, true, nil
}

// show adds the events at some positions to the page.
func (r *logReader) show(positions []posthaste.Position) error {
	for len(positions) > 0 && !r.page.More {
		n := min(len(positions), r.query.Limit-len(r.page.Entries)+1)
		events, err := r.eventsAt(positions[:n])
		if err != nil {
			return err
		}
		if err := r.consider(events); err != nil {
			return err
		}
		positions = positions[n:]
	}
	return nil
}

// scan reads all events of the range.
func (r *logReader) scan() error {
	cursor, question := r.query.High, scanBackward
	if r.query.OldestFirst {
		cursor, question = r.query.Low, scanFrom
	}
	count := min(blocksFirst, r.query.Limit/index.MaxBlockEvents+blocksAtLeast)
	for more := true; more && !r.page.More; {
		var events []posthaste.Event
		for room := r.query.Limit - len(r.page.Entries); more && len(events) <= room && r.scanned < maxScan; {
			blocks, err := rows(r.ctx, r.q, scanBlock, question, r.user, int64(cursor), int64(r.last()), count)
			if err != nil {
				return err
			}
			before := r.scanned
			for _, block := range blocks {
				r.scanned += len(block)
				cursor = afterBlock(block, r.query.OldestFirst)
				events = append(events, slices.DeleteFunc(block, func(e posthaste.Event) bool { return !r.within(e.Position) })...)
			}
			more = len(blocks) == count && r.within(cursor)
			count = blocksFor(room-len(events), r.scanned-before, len(blocks))
			if r.query.OldestFirst {
				question = scanForward
			}
		}
		if err := r.considerAll(r.ordered(events)); err != nil {
			return err
		}
		if more && r.scanned >= maxScan && !r.page.More {
			r.stop(cursor)
		}
	}
	return nil
}

// Queries for blocks. Forward, the first block is the one that holds the start, if any.
var (
	scanFrom = `
		SELECT first, block FROM posthaste.events
		WHERE user_id = $1 AND first BETWEEN ` + leastHolding2 + ` AND $3 AND first >= ` + blockHolding2 + `
		ORDER BY first LIMIT $4`
	scanForward = `
		SELECT first, block FROM posthaste.events WHERE user_id = $1 AND first BETWEEN $2 AND $3
		ORDER BY first LIMIT $4`
	scanBackward = `
		SELECT first, block FROM posthaste.events WHERE user_id = $1 AND first BETWEEN $3 AND $2
		ORDER BY first DESC LIMIT $4`
)

// blocksFor estimates how many blocks hold the missing events: an idle user's blocks have one
// each, a busy user's many.
func blocksFor(missing, events, blocks int) int {
	each := max(1, events/max(1, blocks))
	return min(blocksAtLeast+max(0, missing)/each, postingsAtMost)
}

// considerAll considers events, as many at a time as the page may need.
func (r *logReader) considerAll(events []posthaste.Event) error {
	for len(events) > 0 && !r.page.More {
		n := min(len(events), r.query.Limit-len(r.page.Entries)+1)
		if err := r.consider(events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// ordered sorts events in the query's order.
func (r *logReader) ordered(events []posthaste.Event) []posthaste.Event {
	slices.SortFunc(events, func(a, b posthaste.Event) int {
		if r.nearer(a.Position, b.Position) {
			return -1
		}
		return 1
	})
	return events
}

// consider adds the events that match to the page, in order.
func (r *logReader) consider(events []posthaste.Event) error {
	messages, err := r.messagesOf(events)
	if err != nil {
		return err
	}
	var matching []store.Entry
	for _, e := range events {
		m, read := messages[e.MessageID]
		if !read || m != nil && !r.query.Filter.MatchesEvent(&e, m) {
			continue // of those that were not read, the message is damaged, or retention is removing it
		}
		if m == nil || len(r.page.Entries)+len(matching) == r.query.Limit {
			r.stop(e.Position)
			break
		}
		matching = append(matching, store.NewEntry(e, m))
	}
	return r.keep(matching)
}

// keep adds entries with their responses to the page, up to its byte limit.
func (r *logReader) keep(entries []store.Entry) error {
	responses, err := r.responses(entries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		response, answered := responses[e.Position]
		e.Response = response
		if answered && response == nil || !r.budget.Take(e.Size()) {
			r.stop(e.Position)
			return nil
		}
		r.page.Entries = append(r.page.Entries, e)
	}
	return nil
}

func (r *logReader) stop(at posthaste.Position) { r.page.More, r.page.Next = true, at }

func (r *logReader) messagesOf(events []posthaste.Event) (map[posthaste.MessageID]*posthaste.Message, error) {
	var about idSet
	for _, e := range events {
		about.add(e.MessageID)
	}
	return r.messages(about.ids)
}

// messages reads messages, nil beyond the page's byte limit. Those that had not ended when the user was divided
// are in another partition than their events of before.
func (r *logReader) messages(ids []posthaste.MessageID) (map[posthaste.MessageID]*posthaste.Message, error) {
	room := max(1, r.budget.Left())
	all, whole, err := r.messagesFound(len(ids), `
		SELECT user_id, id, CASE WHEN octet_length(record) <= $3 THEN record END FROM posthaste.messages
		WHERE user_id = $1 AND id = ANY($2)`, r.user, uuids(ids), room/max(1, len(ids)))
	if err != nil {
		return nil, err
	}
	d, moved := r.store.Division(), false
	var of []messageOf
	for _, id := range ids {
		if _, here := all[id]; here || len(d.Before) == 0 {
			of = append(of, messageOf{r.user, id})
			continue
		}
		moved = true
		for _, holder := range d.Holders(store.UserOf(r.user), id) {
			of = append(of, messageOf{holder, id})
		}
	}
	if whole && !moved {
		return all, nil
	}
	users, own := messageColumns(of)
	all, _, err = r.messagesFound(len(ids), `
		SELECT user_id, id, CASE WHEN total - size < $3 THEN record END FROM (
			SELECT m.user_id, m.id, m.record, octet_length(m.record) AS size, sum(octet_length(m.record)) OVER (ORDER BY w.n) AS total
			FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS w (user_id, id, n)
			JOIN posthaste.messages m ON m.user_id = w.user_id AND m.id = w.id) AS found`, users, own, room)
	return all, err
}

// messagesFound reads the messages of a query. whole is false if a record was NULL.
func (r *logReader) messagesFound(atMost int, query string, args ...any) (all map[posthaste.MessageID]*posthaste.Message, whole bool, err error) {
	all, whole = make(map[posthaste.MessageID]*posthaste.Message, atMost), true
	found, err := rows(r.ctx, r.q, scanMessage, query, args...)
	for _, m := range found {
		if m.damage == nil {
			all[m.id], whole = m.message, whole && m.message != nil
		}
	}
	if unreadable := unreadableOf(found); r.unreadable == nil {
		r.unreadable = unreadable
	} else {
		maps.Copy(r.unreadable, unreadable)
	}
	return all, whole, err
}

// responses reads the responses of ERROR events, nil beyond the page's byte limit.
func (r *logReader) responses(entries []store.Entry) (map[posthaste.Position]*posthaste.Response, error) {
	var at []posthaste.Position
	for _, e := range entries {
		if e.State == posthaste.StateError {
			at = append(at, e.Position)
		}
	}
	if len(at) == 0 {
		return nil, nil
	}
	responses := map[posthaste.Position]*posthaste.Response{}
	_, err := rows(r.ctx, r.q, func(row pgx.CollectableRow) (struct{}, error) {
		var first int64
		var data []byte
		if err := row.Scan(&first, &data); err != nil {
			return struct{}{}, err
		}
		if responses[posthaste.Position(first)] = nil; data == nil {
			return struct{}{}, nil
		}
		response, err := record.DecodeResponse(data)
		responses[posthaste.Position(first)] = response
		return struct{}{}, err
	}, `
		SELECT first, CASE WHEN total - size < $3 THEN record END FROM (
			SELECT first, r.record, octet_length(r.record) AS size, sum(octet_length(r.record)) OVER (ORDER BY w.n) AS total
			FROM unnest($2::bigint[]) WITH ORDINALITY AS w (first, n) JOIN posthaste.responses r USING (first)
			WHERE r.user_id = $1) AS found`, r.user, int64s(at), max(1, r.budget.Left()))
	return responses, err
}
