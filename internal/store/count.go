package store

import (
	"math/bits"
	"slices"
	"time"

	"posthaste"
)

// Count is how many events of the log one hour has that have a series, a state, and for attempts a
// class and a latency in common. Events of runs are not counted.
type Count struct {
	Hour time.Time // when it begins, in UTC
	Series
	State   posthaste.State
	Class   int     // of an attempt: the first digit of its status; 0: no response
	Latency Latency // of an attempt: how long it took
	N       int64
}

// Series is what events are counted by beside their state: values of their message.
//
// The number of series of a user in an hour is limited, see MaxSeries. Others are counted without
// the path or, if those are too many, without any value.
type Series struct {
	Rest   bool // without any value
	NoPath bool // without a path
	Host   string
	Path   string // up to MaxSeriesPath
	Queue  string
	Labels []string // those that fit MaxSeriesLabels together
}

// Bounds of what events are counted by.
const (
	MaxSeries       = 1000 // of a user in an hour with a path; as many more may be without
	MaxSeriesPath   = 128  // bytes
	MaxSeriesLabels = 512  // bytes
)

// SeriesOf returns the series of a message.
func SeriesOf(m *posthaste.Message) (s Series) {
	s.Host, s.Path = posthaste.HostAndPath(m.URL)
	s.Path = s.Path[:min(len(s.Path), MaxSeriesPath)]
	s.Queue = m.Queue
	s.Labels = m.Labels
	bytes := 0
	for i, label := range m.Labels {
		if bytes += len(label); bytes > MaxSeriesLabels {
			s.Labels = m.Labels[:i]
			break
		}
	}
	return s
}

// Matches reports whether a filter may select events of the series. Of its fields only Hosts, Paths,
// URLs, Queues and Labels are looked at. What was counted without a value matches no filter of it.
func (s *Series) Matches(f *posthaste.Filter) bool { return s.matches(f, false) }

// MayHave reports whether a filter may select events of those counted. Unlike Matches it is false only
// if the filter selects none of them: what was counted without a value may have any.
func (c *Count) MayHave(f *posthaste.Filter) bool {
	isClass := func(status int) bool { return min(status/100, 9) == c.Class }
	return f.MatchesState(c.State) &&
		(len(f.Statuses) == 0 || c.State.OfAttempt() && slices.ContainsFunc(f.Statuses, isClass)) &&
		c.matches(f, true)
}

// matches is Matches, where a value that was not counted matches if unknown is true.
func (s *Series) matches(f *posthaste.Filter, unknown bool) bool {
	if s.Rest {
		return unknown || len(f.Hosts)+len(f.Paths)+len(f.URLs)+len(f.Queues)+len(f.Labels) == 0
	}
	isPath := func(path string) bool {
		return s.NoPath && unknown || !s.NoPath && path[:min(len(path), MaxSeriesPath)] == s.Path
	}
	isURL := func(url string) bool {
		host, path := posthaste.HostAndPath(url)
		return host == s.Host && isPath(path)
	}
	isLabel := func(label string) bool { return slices.Contains(s.Labels, label) || unknown && s.mayLackLabels() }
	return f.MatchesHost(s.Host) &&
		(len(f.Paths) == 0 || slices.ContainsFunc(f.Paths, isPath)) &&
		(len(f.URLs) == 0 || slices.ContainsFunc(f.URLs, isURL)) &&
		(len(f.Queues) == 0 || slices.Contains(f.Queues, s.Queue)) &&
		(len(f.Labels) == 0 || slices.ContainsFunc(f.Labels, isLabel))
}

// mayLackLabels reports whether its messages may have labels that it has not.
func (s *Series) mayLackLabels() bool {
	bytes := posthaste.MaxLabelLen
	for _, label := range s.Labels {
		bytes += len(label)
	}
	return bytes > MaxSeriesLabels
}

// CountsTell reports whether counts can tell that a filter selects nothing although each of its fields
// selects something. Events of runs are not counted.
func CountsTell(f *posthaste.Filter) bool {
	fields := 0
	for _, given := range []bool{
		len(f.Hosts) > 0, len(f.Paths) > 0, len(f.URLs) > 0, len(f.Queues) > 0, len(f.Labels) > 0, len(f.States) > 0, len(f.Statuses) > 0,
	} {
		if given {
			fields++
		}
	}
	return fields > 1 && (!f.OfRuns || len(f.States) > 0 && !slices.ContainsFunc(f.States, posthaste.State.OfRun))
}

// Latency is a bucket of a histogram of how long attempts took. Up to 16 ms each millisecond has a
// bucket, above that each power of two has eight. 0: not known.
type Latency uint8

// LatencyOf returns the bucket of a time.
func LatencyOf(took time.Duration) Latency {
	ms := uint64(took.Milliseconds())
	shift := max(bits.Len64(ms)-4, 0)
	return Latency(min(uint64(shift)*8+ms>>shift, 255))
}

// Middle returns the middle of the bucket, which is at most 6.25 % from any time in it.
func (l Latency) Middle() time.Duration {
	if l < 16 {
		return time.Duration(l) * time.Millisecond
	}
	shift := l/8 - 1
	return time.Millisecond*time.Duration(l%8+8)<<shift + time.Millisecond<<shift/2
}
