package postgres

import (
	"slices"

	"posthaste"
)

// A search tests the events of one field against the others. A few values are looked up in the
// index, event by event. For many values that would be millions of lookups, so the events and
// their messages are read instead, unless they are large.

const (
	fewTerms    = 32  // that are looked up for each event
	askedAtOnce = 256 // events that are read to tell
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
			if told, positions, err = r.tell(positions); err != nil || len(positions) == 0 {
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
		if posted, err = decodeGaps(posted[:0], posthaste.Position(p.first), p.gaps); err != nil {
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
	if c.often*float64(to-from) > float64(atMost) {
		return nil, false, nil
	}
	found, err = rows(r.ctx, r.q, scanPosting, `
		SELECT term, first, gaps FROM posthaste.postings
		WHERE user_id = $1 AND term = ANY($2) AND first BETWEEN $3 AND $4 LIMIT $5`,
		r.user, int64s(c.terms), int64(from-maxSpan), int64(to), atMost+1)
	return found, len(found) <= atMost, err
}

// postingsOfEach looks up the postings that may hold each position.
func (r *logReader) postingsOfEach(positions []posthaste.Position, c condition) ([]storedPosting, error) {
	return rows(r.ctx, r.q, scanPosting, `
		SELECT DISTINCT ON (found.term, found.first) found.term, found.first, found.gaps
		FROM unnest($2::bigint[]) AS t (term), unnest($3::bigint[]) AS c (at), LATERAL (
			SELECT p.term, p.first, p.gaps FROM posthaste.postings p
			WHERE p.user_id = $1 AND p.term = t.term AND p.first BETWEEN c.at - $4 AND c.at AND p.first BETWEEN $5 AND $6
			ORDER BY p.first DESC LIMIT 1) AS found`, r.user, int64s(c.terms), int64s(positions), int64(maxSpan),
		int64(max(slices.Min(positions), maxSpan)-maxSpan), int64(slices.Max(positions)))
}

// tell returns positions whose events pass the whole filter, and the rest from the first one
// whose message is too large.
func (r *logReader) tell(positions []posthaste.Position) (passing, rest []posthaste.Position, err error) {
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
			if read && r.query.Filter.Matches(&e, m) {
				passing = append(passing, e.Position)
			}
		}
		rest = rest[n:]
	}
	return passing, nil, nil
}
