package postgres

import (
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// A search reads the postings of the field with the fewest events, and tests only those events
// against the other fields, many at once.

// termList reads the positions of a term on demand.
type termList struct {
	term    int64
	cursor  posthaste.Position   // where the postings begin that were not read
	unused  []posthaste.Position // positions that were read and not taken
	reached posthaste.Position   // all positions up to here were read
	read    int                  // postings
	end     bool                 // everything was read
}

// fieldList reads the positions that have any term of a field.
type fieldList struct {
	terms []store.Term
	lists []*termList
	ready []posthaste.Position // the next, nearest first
	count int                  // of postings to be read next
	found int                  // positions that were read
}

func (r *logReader) newFieldList(terms []store.Term) *fieldList {
	f := &fieldList{terms: terms, count: postingsFirst}
	for _, t := range terms {
		f.lists = append(f.lists, &termList{term: termColumn(t), cursor: r.first()})
	}
	return f
}

// first returns the lowest, or highest, position where postings are needed.
func (r *logReader) first() posthaste.Position {
	if r.query.OldestFirst {
		return max(r.query.Low, index.MaxSpan) - index.MaxSpan
	}
	return r.query.High
}

// last returns the other end.
func (r *logReader) last() posthaste.Position {
	if r.query.OldestFirst {
		return r.query.High
	}
	return max(r.query.Low, index.MaxSpan) - index.MaxSpan
}

// load reads more of the lists that are used up.
func (r *logReader) load(fields ...*fieldList) error {
	var terms, cursors, counts []int64
	var of []*termList
	for _, f := range fields {
		for _, l := range f.lists {
			if len(l.unused) == 0 && !l.end {
				of = append(of, l)
				terms, cursors, counts = append(terms, l.term), append(cursors, int64(l.cursor)), append(counts, int64(f.count))
			}
		}
		f.count = min(4*f.count, postingsAtMost)
	}
	if len(of) == 0 {
		return nil
	}
	found, err := rows(r.ctx, r.q, scanPosting, r.listQuery(), r.user, terms, cursors, counts, int64(r.last()), int64(r.first()))
	if err != nil {
		return err
	}
	before := make([]int, len(of))
	for i, l := range of {
		before[i] = l.read
	}
	for _, p := range found {
		if err := r.add(of[p.list-1], p); err != nil {
			return err
		}
	}
	for i, l := range of {
		if l.end = int64(l.read-before[i]) < counts[i]; l.end {
			l.reached = r.last()
		}
	}
	for _, f := range fields {
		r.merge(f)
	}
	return nil
}

// listQuery reads the next postings of lists. The bound on first lets PostgreSQL plan for
// fewer days.
func (r *logReader) listQuery() string {
	within := `p.first BETWEEN $5 AND l.cursor AND p.first <= $6`
	if r.query.OldestFirst {
		within = `p.first BETWEEN l.cursor AND $5 AND p.first >= $6`
	}
	return `
		SELECT l.n, found.first, found.gaps
		FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS l (term, cursor, count, n), LATERAL (
			SELECT p.first, p.gaps FROM posthaste.postings p
			WHERE p.user_id = $1 AND p.term = l.term AND ` + within + `
			ORDER BY p.first ` + direction(r.query.OldestFirst) + ` LIMIT l.count) AS found`
}

type storedPosting struct {
	list, first int64
	gaps        []byte
}

func scanPosting(r pgx.CollectableRow) (p storedPosting, err error) {
	err = r.Scan(&p.list, &p.first, &p.gaps)
	return p, err
}

// add adds a posting's positions to a list. Postings of a term do not overlap.
func (r *logReader) add(l *termList, p storedPosting) error {
	first := posthaste.Position(p.first)
	positions, err := index.DecodePosting(nil, first, p.gaps)
	if err != nil {
		return err
	}
	l.read++
	l.cursor, l.reached = beyond(first, r.query.OldestFirst), first
	if r.query.OldestFirst {
		l.reached = positions[len(positions)-1]
	}
	for _, at := range positions {
		if r.within(at) {
			l.unused = append(l.unused, at)
		}
	}
	return nil
}

// within reports whether a position is in the query's range.
func (r *logReader) within(at posthaste.Position) bool {
	return at >= r.query.Low && at <= r.query.High
}

// nearer is the query's order.
func (r *logReader) nearer(a, b posthaste.Position) bool {
	if r.query.OldestFirst {
		return a < b
	}
	return a > b
}

// merge makes those positions ready that no unread posting can precede.
func (r *logReader) merge(f *fieldList) {
	safe := r.last()
	for _, l := range f.lists {
		if r.nearer(l.reached, safe) {
			safe = l.reached
		}
	}
	for _, l := range f.lists {
		f.found += len(l.unused)
		later := l.unused[:0:0]
		for _, at := range l.unused {
			if r.nearer(safe, at) {
				later = append(later, at)
			} else {
				f.ready = append(f.ready, at)
			}
		}
		f.found -= len(later)
		l.unused = later
	}
	r.sort(f.ready)
	f.ready = slices.Compact(f.ready)
}

func (r *logReader) sort(positions []posthaste.Position) {
	slices.Sort(positions)
	if !r.query.OldestFirst {
		slices.Reverse(positions)
	}
}

// take returns the next n positions of a field, fewer at the end.
func (r *logReader) take(f *fieldList, n int) ([]posthaste.Position, error) {
	for len(f.ready) < n && !f.atEnd() {
		if err := r.load(f); err != nil {
			return nil, err
		}
	}
	n = min(n, len(f.ready))
	taken := f.ready[:n:n]
	f.ready = f.ready[n:]
	return taken, nil
}

func (f *fieldList) atEnd() bool {
	return !slices.ContainsFunc(f.lists, func(l *termList) bool { return !l.end || len(l.unused) > 0 })
}

// rarest returns the field with the lowest density of positions in what was read.
func (r *logReader) rarest(fields []*fieldList) (at int) {
	begins := r.begins(fields)
	fewest := 0.0
	for i, f := range fields {
		covered := math.MaxFloat64
		for _, l := range f.lists {
			covered = min(covered, l.covered(begins))
		}
		if density := float64(f.found) / covered; i == 0 || density < fewest {
			at, fewest = i, density
		}
	}
	return at
}

// begins returns the first position of all.
func (r *logReader) begins(fields []*fieldList) (begins posthaste.Position) {
	for _, f := range fields {
		if len(f.ready) > 0 && (begins == 0 || r.nearer(f.ready[0], begins)) {
			begins = f.ready[0]
		}
	}
	return begins
}

// covered returns how much of the range was read of a list.
func (l *termList) covered(begins posthaste.Position) float64 {
	if l.end {
		return math.MaxFloat64
	}
	return max(1, math.Abs(float64(l.reached)-float64(begins)))
}

// frequency returns a field's postings per position, as far as was read.
func (f *fieldList) frequency(begins posthaste.Position) (often float64) {
	for _, l := range f.lists {
		often += float64(l.read) / l.covered(begins)
	}
	return often
}

// int64s converts to column values, nil for none.
func int64s[T ~int64 | ~uint64](numbers []T) (all []int64) {
	for _, n := range numbers {
		all = append(all, int64(n))
	}
	return all
}

// A search tests the events of one field against the others. A few values are looked up in the
// index, event by event. For many values that would be millions of lookups, so the events and
// their messages are read instead, unless they are large.

const (
	fewTerms    = 32  // that are looked up for each event
	askedAtOnce = 256 // events that are read to see whether they pass
)

// passing returns positions whose events meet a condition; where it read the events, those
// that pass the whole filter.
func (r *logReader) passing(positions []posthaste.Position, c condition) (told []posthaste.Position, err error) {
	if len(positions) == 0 {
		return nil, nil
	}
	found, all, err := r.postingsOfRange(positions, c)
	if err != nil {
		return nil, err
	}
	if !all {
		if len(c.terms) > fewTerms {
			if told, positions, err = r.passingByReading(positions); err != nil || len(positions) == 0 {
				return told, err
			}
		}
		if found, err = r.postingsOfEach(positions, c); err != nil {
			return nil, err
		}
	}
	having, err := withPosting(positions, found)
	return append(told, having...), err
}

// withPosting returns the positions that are in postings.
func withPosting(positions []posthaste.Position, postings []storedPosting) (having []posthaste.Position, err error) {
	ascending := slices.Sorted(slices.Values(positions))
	has := make([]bool, len(ascending))
	var posted []posthaste.Position
	for _, p := range postings {
		if posted, err = index.DecodePosting(posted[:0], posthaste.Position(p.first), p.gaps); err != nil {
			return nil, err
		}
		i, _ := slices.BinarySearch(ascending, posted[0])
		for _, at := range posted {
			for i < len(ascending) && ascending[i] < at {
				i++
			}
			if i < len(ascending) && ascending[i] == at {
				has[i] = true
			}
		}
	}
	for _, at := range positions {
		if i, _ := slices.BinarySearch(ascending, at); has[i] {
			having = append(having, at)
		}
	}
	return having, nil
}

// postingsEach is how many postings per position are read as a range: it costs as much as one
// lookup.
const postingsEach = 3

// postingsOfRange returns a condition's postings in the range of some positions. all is false
// if there are too many.
func (r *logReader) postingsOfRange(positions []posthaste.Position, c condition) (found []storedPosting, all bool, err error) {
	from, to := slices.Min(positions), slices.Max(positions)
	atMost := postingsEach * len(positions)
	if c.frequency*float64(to-from) > float64(atMost) {
		return nil, false, nil
	}
	found, err = rows(r.ctx, r.q, scanPosting, `
		SELECT term, first, gaps FROM posthaste.postings
		WHERE user_id = $1 AND term = ANY($2) AND first BETWEEN $3 AND $4 LIMIT $5`,
		r.user, termColumns(c.terms), int64(from-index.MaxSpan), int64(to), atMost+1)
	return found, len(found) <= atMost, err
}

// postingsOfEach looks up the postings that may hold each position.
func (r *logReader) postingsOfEach(positions []posthaste.Position, c condition) ([]storedPosting, error) {
	return rows(r.ctx, r.q, scanPosting, `
		SELECT DISTINCT ON (found.term, found.first) found.term, found.first, found.gaps
		FROM unnest($2::bigint[]) AS t (term), unnest($3::bigint[]) AS c (at), LATERAL (
			SELECT p.term, p.first, p.gaps FROM posthaste.postings p
			WHERE p.user_id = $1 AND p.term = t.term AND p.first BETWEEN c.at - $4 AND c.at AND p.first BETWEEN $5 AND $6
			ORDER BY p.first DESC LIMIT 1) AS found`, r.user, termColumns(c.terms), int64s(positions), int64(index.MaxSpan),
		int64(max(slices.Min(positions), index.MaxSpan)-index.MaxSpan), int64(slices.Max(positions)))
}

// passingByReading returns positions whose events pass the whole filter, and the rest from the first one
// whose message is too large.
func (r *logReader) passingByReading(positions []posthaste.Position) (passing, rest []posthaste.Position, err error) {
	for rest = positions; len(rest) > 0; {
		n := min(len(rest), askedAtOnce)
		events, err := r.eventsAt(rest[:n])
		if err != nil {
			return nil, nil, err
		}
		messages, err := r.messagesOf(events)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range events {
			m, read := messages[e.MessageID]
			if read && m == nil {
				return passing, rest[slices.Index(rest, e.Position):], nil
			}
			if read && r.query.Filter.MatchesEvent(&e, m) {
				passing = append(passing, e.Position)
			}
		}
		rest = rest[n:]
	}
	return passing, nil, nil
}
