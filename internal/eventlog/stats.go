package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// StatsQuery selects what is counted, in buckets of equal length.
type StatsQuery struct {
	From, Until time.Time     // whole buckets in UTC; until is exclusive
	Bucket      time.Duration // whole hours
	Filter      posthaste.Filter
	Most        int // hosts, and paths, that are listed
}

// Buckets returns how many there are.
func (q *StatsQuery) Buckets() int { return int(q.Until.Sub(q.From) / q.Bucket) }

// Stats is how many events of the log there were. Of the fields of a filter only States, Hosts,
// Paths, Queues and Labels are looked at.
type Stats struct {
	Total   Summary
	Buckets []Summary // from the first on, also those without events
	Hosts   []Destination
	Paths   []Destination
}

// Destination is where events were about.
type Destination struct {
	Place
	Summary
}

// Place is a host or, with a path, a part of it.
type Place struct {
	Host, Path string
	Rest       bool // everything not listed by itself: other hosts or, with a host, its other paths
}

// Summary counts events.
type Summary struct {
	States   map[posthaste.State]int64
	Statuses [10]int64 // attempts, by the first digit of the status; 0: without response
	latency  []int64   // attempts, by store.Latency
}

func (s *Summary) add(c *store.Count) {
	if s.States == nil {
		s.States = map[posthaste.State]int64{}
	}
	s.States[c.State] += c.N
	if !c.State.OfAttempt() {
		return
	}
	if c.Class > 0 || c.State == posthaste.StateError {
		s.Statuses[c.Class] += c.N
	}
	if c.Latency > 0 {
		s.latency = append(s.latency, make([]int64, max(0, int(c.Latency)+1-len(s.latency)))...)
		s.latency[c.Latency] += c.N
	}
}

// Timed returns how many attempts are known how long they took.
func (s *Summary) Timed() (n int64) {
	for _, of := range s.latency {
		n += of
	}
	return n
}

// Latency returns a time that a share of the attempts did not exceed, with the error of
// store.Latency.
func (s *Summary) Latency(share float64) time.Duration {
	left := share * float64(s.Timed())
	for bucket, n := range s.latency {
		if left -= float64(n); left <= 0 && n > 0 {
			return store.Latency(bucket).Middle()
		}
	}
	return 0
}

// maxPlaces bounds the hosts, and the paths, that are listed by themselves over all hours.
const maxPlaces = 10_000

// places sums by place.
type places map[Place]*Summary

func (p places) add(at Place, c *store.Count) {
	if p[at] == nil && len(p) >= maxPlaces {
		at = Place{Rest: true}
	}
	if p[at] == nil {
		p[at] = &Summary{}
	}
	p[at].add(c)
}

// worst returns those that most attempts failed for, and then those with most events.
func (p places) worst(most int) []Destination {
	all := make([]Destination, 0, len(p))
	for at, s := range p {
		all = append(all, Destination{at, *s})
	}
	slices.SortFunc(all, func(a, b Destination) int {
		return cmp.Or(cmp.Compare(b.States[posthaste.StateError], a.States[posthaste.StateError]),
			cmp.Compare(b.events(), a.events()), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Path, b.Path))
	})
	return all[:min(most, len(all))]
}

func (s *Summary) events() (n int64) {
	for _, of := range s.States {
		n += of
	}
	return n
}

// Stats counts a user's log.
func (l *Log) Stats(ctx context.Context, user string, query *StatsQuery) (*Stats, error) {
	s := &Stats{Buckets: make([]Summary, query.Buckets())}
	hosts, paths := places{}, places{}
	err := l.store.Counts(ctx, user, query.From, query.Until, func(c *store.Count) {
		if !query.Filter.MatchesState(c.State) || !c.Matches(&query.Filter) {
			return
		}
		s.Total.add(c)
		s.Buckets[c.Hour.Sub(query.From)/query.Bucket].add(c)
		hosts.add(Place{c.Host, "", c.Rest}, c)
		paths.add(Place{c.Host, c.Path, c.Rest || c.NoPath}, c)
	})
	if err != nil {
		return nil, fmt.Errorf("count log: %w", err)
	}
	s.Hosts, s.Paths = hosts.worst(query.Most), paths.worst(query.Most)
	return s, nil
}
