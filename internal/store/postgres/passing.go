package postgres

import (
	"slices"

	"posthaste"
)

// A search asks of the events that one field proposes whether they pass the others. A few
// values are looked up in the index, event by event. Of many values that would be millions of
// lookups, so the events and their messages are read to tell, unless they are large.

const (
	fewTerms    = 32  // that are looked up for each event
	askedAtOnce = 256 // events that are read to tell
)

// passing returns those of some positions whose events have any of the terms, and of those
// whose events it reads to tell only those that pass the whole filter.
func (r *logReader) passing(positions []posthaste.Position, terms []term) (told []posthaste.Position, err error) {
	if len(positions) == 0 {
		return nil, nil
	}
	found, err := r.postingsOfRange(positions, terms)
	if err != nil {
		return nil, err
	}
	if len(found) > len(positions) {
		if len(terms) > fewTerms {
			if told, positions, err = r.tell(positions); err != nil || len(positions) == 0 {
				return told, err
			}
		}
		if found, err = r.postingsOfEach(positions, terms); err != nil {
			return nil, err
		}
	}
	having, err := positionsOf(found)
	for _, at := range positions {
		if _, has := slices.BinarySearch(having, at); has {
			told = append(told, at)
		}
	}
	return told, err
}

// positionsOf returns the positions of postings, the lowest first.
func positionsOf(postings []storedPosting) (all []posthaste.Position, err error) {
	for _, p := range postings {
		if all, err = decodeGaps(all, posthaste.Position(p.first), p.gaps); err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	return all, nil
}

// postingsOfRange returns the postings of terms in the range of some positions, but no more
// than one more than the positions are.
func (r *logReader) postingsOfRange(positions []posthaste.Position, terms []term) ([]storedPosting, error) {
	return rows(r.ctx, r.q, scanPosting, `
		SELECT term, first, gaps FROM posthaste.postings
		WHERE user_id = $1 AND term = ANY($2) AND first BETWEEN $3 AND $4 LIMIT $5`,
		r.user, hashes(terms), int64(slices.Min(positions)-maxSpan), int64(slices.Max(positions)), len(positions)+1)
}

// postingsOfEach returns the postings of terms that may hold each of some positions.
func (r *logReader) postingsOfEach(positions []posthaste.Position, terms []term) ([]storedPosting, error) {
	return rows(r.ctx, r.q, scanPosting, `
		SELECT DISTINCT ON (found.term, found.first) found.term, found.first, found.gaps
		FROM unnest($2::bigint[]) AS t (term), unnest($3::bigint[]) AS c (at), LATERAL (
			SELECT p.term, p.first, p.gaps FROM posthaste.postings p
			WHERE p.user_id = $1 AND p.term = t.term AND p.first BETWEEN c.at - $4 AND c.at
			ORDER BY p.first DESC LIMIT 1) AS found`, r.user, hashes(terms), int64s(positions), int64(maxSpan))
}

// tell returns those of some positions whose events pass the whole filter, and the rest from
// the first on whose message is too large to be read with those before it.
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
