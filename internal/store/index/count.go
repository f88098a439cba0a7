package index

import (
	"encoding/binary"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// Counts is how many events of an hour of a user have a series.
type Counts struct {
	User   string
	Hour   int64  // when it begins, in Unix milliseconds
	Series string // encoded; "": the rest
	Of     []StateCount
}

// StateCount is how many of them have a state, a class and a latency.
type StateCount struct {
	What uint16 // the code of the state, from bit 8 the latency, from bit 4 the class
	N    int64
}

const hourMS = int64(time.Hour / time.Millisecond)

type countOf struct {
	user   string
	hour   int64
	series string
}

// count counts an event.
func (w *LogWriter) count(m *posthaste.Message, e *posthaste.Event) {
	if e.State.OfRun() {
		return
	}
	hour := e.Position.Time().UnixMilli() / hourMS * hourMS
	w.series = appendSeries(w.series[:0], m)
	i, found := w.counted[countOf{m.User, hour, string(w.series)}]
	if !found {
		i = w.newCounts(countOf{m.User, hour, string(w.series)})
	}
	w.Counts[i].Of = AddStates(w.Counts[i].Of, StateCount{whatOf(e), 1})
}

// newCounts adds counts without numbers, and returns their index.
func (w *LogWriter) newCounts(of countOf) int {
	w.counted[of] = len(w.Counts)
	w.Counts = append(w.Counts, Counts{of.user, of.hour, of.series, nil})
	return len(w.Counts) - 1
}

func whatOf(e *posthaste.Event) uint16 {
	what := uint16(record.StateCode(e.State))
	if e.State.OfAttempt() {
		what |= uint16(min(e.Attempt.Status/100, 9))<<4 | uint16(store.LatencyOf(e.Attempt.Took))<<8
	}
	return what
}

// AddStates adds to the numbers of the same events.
func AddStates(to []StateCount, more ...StateCount) []StateCount {
	for _, t := range more {
		i := slices.IndexFunc(to, func(old StateCount) bool { return old.What == t.What })
		if i < 0 {
			to = append(to, t)
		} else {
			to[i].N += t.N
		}
	}
	return to
}

// The first byte of an encoded series.
const (
	seriesWhole  = 'a'
	seriesNoPath = 'b'
)

// appendSeries encodes the series of a message: its host, path, queue and labels.
func appendSeries(dst []byte, m *posthaste.Message) []byte {
	s := store.SeriesOf(m)
	dst = append(dst, seriesWhole)
	dst = appendText(dst, s.Host)
	dst = appendText(dst, s.Path)
	dst = appendText(dst, s.Queue)
	for _, label := range s.Labels {
		dst = appendText(dst, label)
	}
	return dst
}

func appendText(dst []byte, value string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(value))), value...)
}

func cutText(data string) (value, rest string, ok bool) {
	if len(data) < 2 {
		return "", "", false
	}
	size := int(data[0])<<8 | int(data[1])
	if data = data[2:]; len(data) < size {
		return "", "", false
	}
	return data[:size], data[size:], true
}

// Bounded returns the series that an encoded one is counted by, in an hour that has n already: the
// first ones as they are, then as many without their path, and then the rest. See store.MaxSeries.
func Bounded(series string, n int, known func(series string) bool) string {
	if n < store.MaxSeries || known(series) {
		return series
	}
	host, rest, _ := cutText(series[1:])
	_, others, _ := cutText(rest)
	series = string(append(appendText([]byte{seriesNoPath}, host), others...))
	if n < 2*store.MaxSeries || known(series) {
		return series
	}
	return ""
}

// DecodeCount completes a count of which user, hour and N are known.
func DecodeCount(c *store.Count, what uint16, series string) error {
	state, err := record.StateOf(uint8(what & 0xf))
	if err != nil {
		return err
	}
	c.State, c.Class, c.Latency = state, int(what>>4&0xf), store.Latency(what>>8)
	c.Series, err = decodeSeries(series)
	return err
}

func decodeSeries(data string) (s store.Series, err error) {
	if data == "" {
		return store.Series{Rest: true}, nil
	}
	s.NoPath = data[0] == seriesNoPath
	rest, whole := data[1:], true
	next := func() (value string) {
		var ok bool
		value, rest, ok = cutText(rest)
		whole = whole && ok
		return value
	}
	s.Host = next()
	if !s.NoPath {
		s.Path = next()
	}
	s.Queue = next()
	for whole && rest != "" {
		s.Labels = append(s.Labels, next())
	}
	if !whole || data[0] != seriesWhole && !s.NoPath {
		return s, ErrDamaged
	}
	return s, nil
}

// AppendStates encodes what a series is counted for in an hour.
func AppendStates(dst []byte, of []StateCount) []byte {
	for _, t := range of {
		dst = binary.BigEndian.AppendUint16(dst, t.What)
		dst = binary.AppendUvarint(dst, uint64(t.N))
	}
	return dst
}

// DecodeStates decodes a result of AppendStates.
func DecodeStates(data []byte) (of []StateCount, err error) {
	for len(data) > 0 {
		if len(data) < 3 {
			return nil, ErrDamaged
		}
		n, size := binary.Uvarint(data[2:])
		if size <= 0 {
			return nil, ErrDamaged
		}
		of = append(of, StateCount{binary.BigEndian.Uint16(data), int64(n)})
		data = data[2+size:]
	}
	return of, nil
}
