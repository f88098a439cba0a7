package model

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Counts implements store.Log by looking at the whole log.
func (m *Model) Counts(_ context.Context, user string, from, until time.Time, visit func(*store.Count)) error {
	var entries []store.Entry
	err := m.do(func() error {
		for _, e := range m.log {
			if e.life.message.User == user {
				entries = append(entries, store.NewEntry(e.event, e.life.message))
			}
		}
		return nil
	})
	for _, c := range Count(entries, store.MaxSeries) {
		if !c.Hour.Before(from) && c.Hour.Before(until) {
			visit(&c)
		}
	}
	return err
}

// Count counts entries of a user's log, which are in order, of which an hour has at most so many series
// with a path. The counts are in the order of their first entries.
func Count(entries []store.Entry, most int) (counts []store.Count) {
	at := map[string]int{}            // in counts, by all but N
	known := map[time.Time][]string{} // series of an hour
	take := func(hour time.Time, s store.Series, limit int) bool {
		name := fmt.Sprintf("%#v", s)
		if slices.Contains(known[hour], name) {
			return true
		}
		if len(known[hour]) >= limit {
			return false
		}
		known[hour] = append(known[hour], name)
		return true
	}
	for _, e := range entries {
		if strings.HasPrefix(string(e.State), "RUN_") {
			continue
		}
		hour := e.Position.Time().UTC().Truncate(time.Hour)
		s := seriesOf(e.Message)
		if !take(hour, s, most) {
			s.NoPath, s.Path = true, ""
			if !take(hour, s, 2*most) {
				s = store.Series{Rest: true}
			}
		}
		c := store.Count{Hour: hour, Series: s, State: e.State, N: 1}
		if e.State == posthaste.StateError || e.State == posthaste.StateDelivered {
			c.Class, c.Latency = e.Attempt.Status/100, latencyOf(e.Attempt.Took)
		}
		name := fmt.Sprintf("%#v", []any{c.Hour, c.Series, c.State, c.Class, c.Latency})
		if i, found := at[name]; found {
			counts[i].N++
			continue
		}
		at[name] = len(counts)
		counts = append(counts, c)
	}
	return counts
}

func seriesOf(m *posthaste.Message) (s store.Series) {
	if u, err := url.Parse(m.URL); err == nil {
		s.Host, s.Path = strings.ToLower(u.Host), u.EscapedPath()
	}
	if len(s.Path) > 128 {
		s.Path = s.Path[:128]
	}
	s.Queue = m.Queue
	for _, label := range m.Labels {
		if len(strings.Join(s.Labels, ""))+len(label) > 512 {
			break
		}
		s.Labels = append(s.Labels, label)
	}
	return s
}

// latencyOf numbers the buckets by their lower bounds, which are in the ratio of 8 to 9, 9 to 10 and so
// on to 16.
func latencyOf(took time.Duration) store.Latency {
	ms := float64(took / time.Millisecond)
	if ms < 8 {
		return store.Latency(ms)
	}
	power := math.Floor(math.Log2(ms / 8))
	return store.Latency(8 + 8*power + math.Floor(ms/math.Pow(2, power)) - 8)
}
